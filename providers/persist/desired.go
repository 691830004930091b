package persist

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/providers/rxe"
	"github.com/fabricform/fabricform/resource"
)

// Desired returns the persistent files of a host, which come after the resources that they persist, and the
// NICs that the network manager must release first. It omits NICs that are not persistent, with their routes,
// rules, Soft-RoCE devices and classes of traffic.
func Desired(f *fabric.Fabric, h *fabric.Host) []resource.Resource {
	s := Spec{Fabric: f.Name, Manager: h.NetworkManager, Memlock: h.Memlock}
	left := map[resource.Addr]bool{}
	modules := false // some Soft-RoCE device is kept, and needs its module
	for _, x := range h.RXE {
		n := h.NIC(x.NIC.NIC)
		keeps := x.Persist && (n == nil || persists(h, n))
		left[resource.Addr{Host: h.Name, Kind: rxe.Kind, Name: x.Name}] = !keeps
		modules = modules || keeps
	}
	for _, n := range h.NICs {
		left[resource.Addr{Host: h.Name, Kind: netif.KindNIC, Name: n.Name}] = !persists(h, n)
	}
	var after []resource.Addr
	at := map[resource.Addr]int{}
	for _, r := range slices.Concat(netif.Desired(f, h), rxe.Desired(f, h), qos.Desired(f, h)) {
		skip := left[r.Addr] || r.Addr.Kind == rxe.KindModule && !modules
		nic := -1
		for _, a := range r.After {
			skip = skip || left[a]
			if i, is := at[a]; is && nic < 0 { // a route's own NIC comes first
				nic = i
			}
		}
		if skip {
			continue
		}
		after = append(after, r.Addr)
		if r.Addr.Kind == netif.KindNIC {
			at[r.Addr] = len(s.NICs)
		}
		s.add(r, nic)
	}
	if len(after) == 0 && s.Memlock == "" {
		return nil
	}
	var out []resource.Resource
	if len(s.NICs) > 0 {
		out = append(out, resource.New(h.Name, KindManager, claimer.Name, h.Pos, Spec{Fabric: s.Fabric, Manager: s.Manager, NICs: s.NICs}))
	}
	if len(s.QoS) > 0 {
		program := resource.New(h.Name, KindProgram, "boot", h.Pos, Program{Fabric: s.Fabric})
		out, after = append(out, program), append(after, program.Addr)
	}
	return append(out, resource.New(h.Name, Kind, "files", h.Pos, s, after...))
}

// persists reports whether a NIC survives a reboot: a bond only with all its members, and a VLAN only with what carries it.
func persists(h *fabric.Host, n *fabric.NIC) bool {
	if bond := h.BondOf(n); bond != nil {
		n = bond
	}
	if n.VLAN != nil {
		below := h.NIC(n.VLAN.On.NIC)
		return n.Persist && (below == nil || persists(h, below))
	}
	return n.Persist && !slices.ContainsFunc(h.Members(n), func(m *fabric.NIC) bool { return !m.Persist })
}

// add adds a resource to the spec; nic is the index of its NIC.
func (s *Spec) add(r resource.Resource, nic int) {
	switch r.Addr.Kind {
	case netif.KindNIC:
		s.NICs = append(s.NICs, netmanager.NIC{Name: r.Addr.Name, NICSpec: decode[netif.NICSpec](r)})
	case netif.KindSysctl:
		s.Sysctls = append(s.Sysctls, decode[netif.SysctlSpec](r))
	case netif.KindRoute:
		s.NICs[nic].Routes = append(s.NICs[nic].Routes, decode[netif.MainRouteSpec](r).Route)
	case netif.KindPolicyRoute:
		s.NICs[nic].Policies = append(s.NICs[nic].Policies, decode[netif.PolicyRouteSpec](r))
	case rxe.KindModule:
		s.Modules = append(s.Modules, decode[rxe.ModuleSpec](r).Name)
	case rxe.Kind:
		s.RXE = append(s.RXE, decode[rxe.Spec](r))
	case qos.Kind:
		s.QoS = append(s.QoS, decode[qos.Spec](r))
	}
}

func decode[S any](r resource.Resource) S {
	var s S
	if err := json.Unmarshal(r.Spec, &s); err != nil {
		panic(fmt.Sprintf("decode spec of %s: %v", r.Addr, err)) // encoded by the package that defines it
	}
	return s
}
