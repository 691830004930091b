package nccl

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Setting is one environment variable with the reason why it has this value.
type Setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Reason string `json:"reason"`
}

// Env is one host's settings, in the order in which they are rendered.
type Env []Setting

// Port is one fabric NIC of a host as NCCL will see it.
type Port struct {
	NIC    string // name in the files
	Netdev string
	HCA    string // RDMA device; "" where the NIC has none that is usable
	Why    string // why there is no HCA
	GID    int    // predicted or pinned index
	Pin    *int   // nil: NCCL chooses
	IPv6   bool   // the GID is to be an IPv6 address
	Wrong  string // what is wrong with the predicted or pinned GID
}

// Ports resolves the host's NICs that NCCL is to use, in the order of the files' names.
func Ports(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) []Port {
	var out []Port
	for _, n := range h.NICs {
		if chosen(f, h, n) {
			out = append(out, port(f, h, n, snap))
		}
	}
	return out
}

func port(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC, snap *facts.Snapshot) Port {
	p := Port{NIC: n.Name, IPv6: n.GID.Family == "ipv6"}
	l := Netdev(snap, n)
	if l == nil {
		p.Why = "the NIC was not found"
		return p
	}
	p.Netdev = l.Name
	p.Why = "no RDMA device on " + l.Name
	for _, d := range snap.RDMA {
		if d.Netdev != l.Name {
			continue
		}
		if d.State != "ACTIVE" {
			p.Why = fmt.Sprintf("RDMA device %s on %s is %s", d.Name, l.Name, d.State)
			continue
		}
		p.HCA, p.Why = d.Name, ""
		if d.LinkLayer == "InfiniBand" {
			break // no RoCE: index 0 is right, and no address stands behind it
		}
		p.GID, p.Wrong = Predict(d.GIDs, Selection{IPv6: n.GID.Family == "ipv6", Version: n.GID.Version})
		if pin := pinned(f, h, n); pin != nil {
			p.Wrong = checkPin(d, n, *pin, p.GID)
			p.GID, p.Pin = *pin, pin
		}
		break
	}
	return p
}

// Netdev finds the NIC's device in the snapshot; nil where none or several match.
func Netdev(snap *facts.Snapshot, n *fabric.NIC) *host.Link {
	l, err := snap.Find(facts.Selector{Netdev: n.Netdev, MAC: n.Match.MAC, PCI: n.Match.PCI, RDMA: n.Match.RDMA})
	if err != nil {
		return nil // the planner names it, with its place in the files
	}
	return l
}

// chosen says whether NCCL is to use the NIC: those that nccl.hca names, else those of links and
// networks whose role is training.
func chosen(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC) bool {
	if declared := f.NCCLOf(h).HCA; len(declared) > 0 {
		return slices.Contains(declared, n.Ref())
	}
	return f.Role(n.Ref()) == training
}

// training is the role of links that carry collectives.
const training = "training"

// pinned is the GID index that is declared for the NIC, wherever it is.
func pinned(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC) *int {
	declared := f.NCCLOf(h)
	// NCCL reads numbers as strtoll with base 0 does; a negative index means automatic.
	if v, err := strconv.ParseInt(declared.Env["NCCL_IB_GID_INDEX"], 0, 32); err == nil && v >= 0 {
		pin := int(v)
		return &pin
	}
	if n.GID.Index != nil {
		return n.GID.Index
	}
	return declared.GIDIndex
}

func checkPin(d facts.RDMADevice, n *fabric.NIC, pin, predicted int) string {
	for _, g := range d.GIDs {
		if g.Index != pin {
			continue
		}
		if wrong := judge(pin, g); wrong != "" {
			return "pinned " + wrong
		}
		ours := func(p netip.Prefix) bool { return p.Addr() == g.Addr.Unmap() }
		if n.AddressesSet && !slices.ContainsFunc(n.Addresses, ours) {
			return fmt.Sprintf("pinned GID %d is %s, which is no declared address; the right one now is %d", pin, g.Addr.Unmap(), predicted)
		}
		return ""
	}
	return fmt.Sprintf("pinned GID %d of %s is empty; the right one now is %d", pin, d.Name, predicted)
}

// Derive answers the host's settings, and what must be mended before they can work.
func Derive(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (Env, []string) {
	ports := Ports(f, h, snap)
	env, problems := transport(f, h, ports)
	if s, ok := socketIfname(f, h, snap); ok {
		env = append(env, s)
	}
	if parallel(f, h.Name) {
		env = append(env, Setting{"NCCL_CROSS_NIC", "0", "parallel direct cables: a ring must stay on its own cable"})
	}
	return declared(env, f, h), problems
}

func transport(f *fabric.Fabric, h *fabric.Host, ports []Port) (Env, []string) {
	kind := f.NCCLOf(h).Transport
	if kind == "socket" {
		return Env{{"NCCL_IB_DISABLE", "1", "transport = \"socket\" is declared"}}, nil
	}
	var hcas, problems []string
	var used []Port
	for _, p := range ports {
		switch {
		case p.HCA != "":
			hcas, used = append(hcas, p.HCA), append(used, p)
			if p.Wrong != "" {
				problems = append(problems, fmt.Sprintf("%s (%s): %s", p.NIC, p.HCA, p.Wrong))
			}
		case kind == "ib":
			problems = append(problems, fmt.Sprintf("%s: transport = \"ib\" is declared, but %s", p.NIC, p.Why))
		}
	}
	if len(hcas) == 0 {
		return Env{{"NCCL_IB_DISABLE", "1", "no usable RDMA device on the fabric's NICs: NCCL uses sockets"}}, problems
	}
	env := Env{{"NCCL_IB_HCA", "=" + strings.Join(hcas, ","), "the fabric's NICs, by exact name: without = mlx5_1 also means mlx5_10"}}
	gid, wrong := gidSettings(used)
	return append(env, gid...), append(problems, wrong...)
}

// gidSettings tells NCCL what the prediction took for granted. NCCL has one setting for all its
// devices, so that devices which need different ones are a problem.
func gidSettings(ports []Port) (env Env, problems []string) {
	first := ports[0]
	for _, p := range ports[1:] {
		if p.IPv6 != first.IPv6 {
			problems = append(problems, fmt.Sprintf("%s and %s want GIDs of different families, and NCCL takes one for all devices", first.NIC, p.NIC))
		}
		if (p.Pin == nil) != (first.Pin == nil) || p.Pin != nil && *p.Pin != *first.Pin {
			problems = append(problems, fmt.Sprintf("%s and %s have different pins of the GID index, and NCCL takes one for all devices", first.NIC, p.NIC))
		}
	}
	if first.Pin != nil {
		return Env{{"NCCL_IB_GID_INDEX", strconv.Itoa(*first.Pin), "pinned in the files, and checked on every device"}}, problems
	}
	if first.IPv6 {
		env = append(env, Setting{"NCCL_IB_ADDR_FAMILY", "AF_INET6", "gid.family = \"ipv6\" is declared; NCCL looks for IPv4 by itself"})
	}
	return env, problems
}

// socketIfname is what NCCL bootstraps over: declared, or the first NIC by name with role training and an
// address.
func socketIfname(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (Setting, bool) {
	if name := string(f.NCCLOf(h).SocketIfname); name != "" {
		if n := h.NIC(name); n != nil {
			if l := Netdev(snap, n); l != nil {
				name = l.Name
			}
		}
		return Setting{"NCCL_SOCKET_IFNAME", "=" + name, "declared as socket_ifname; = is an exact match"}, true
	}
	for _, n := range h.NICs {
		l := Netdev(snap, n)
		if l != nil && len(n.Addresses) > 0 && f.Role(n.Ref()) == training {
			return Setting{"NCCL_SOCKET_IFNAME", "=" + l.Name, "the first training NIC with an address (" + n.Name + "); = is an exact match"}, true
		}
	}
	return Setting{}, false
}

// parallel says whether two links join this host with the same neighbour.
func parallel(f *fabric.Fabric, name string) bool {
	seen := map[string]bool{}
	for _, l := range f.Links {
		for i, end := range l.Endpoints {
			if end.Host != name {
				continue
			}
			peer := l.Endpoints[1-i].Host
			if seen[peer] {
				return true
			}
			seen[peer] = true
		}
	}
	return false
}

// declared lays nccl.env over what was derived; the host's wins over the fabric's.
func declared(env Env, f *fabric.Fabric, h *fabric.Host) Env {
	merged := f.NCCLOf(h).Env
	for i := range env {
		if v, ok := merged[env[i].Name]; ok {
			env[i].Value, env[i].Reason = v, "declared in nccl.env, instead of "+env[i].Value
			delete(merged, env[i].Name)
		}
	}
	names := make([]string, 0, len(merged))
	for name := range merged {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		env = append(env, Setting{name, merged[name], "declared in nccl.env"})
	}
	return env
}
