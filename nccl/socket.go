package nccl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// socketIfname is what NCCL bootstraps over: declared, or the first NIC by name with role training and an
// address that all hosts with such NICs can reach. Direct cables of three hosts or more have none: there
// it is the interface that carries the management address.
func socketIfname(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (Setting, []string) {
	const name = "NCCL_SOCKET_IFNAME"
	if declared := string(f.NCCLOf(h).SocketIfname); declared != "" {
		if n := h.NIC(declared); n != nil {
			if l := Netdev(snap, n); l != nil {
				declared = l.Name
			}
		}
		return Setting{name, "=" + declared, "declared as socket_ifname; = is an exact match"}, usable(snap, declared)
	}
	var unreached []string
	first := ""
	for _, n := range h.NICs {
		l := Netdev(snap, n)
		if l == nil || len(n.Addresses) == 0 || f.Role(n.Ref()) != training {
			continue
		}
		missing := beyond(f, n)
		if len(missing) == 0 {
			return Setting{name, "=" + l.Name, "the first training NIC with an address (" + n.Name + "); = is an exact match"}, nil
		}
		if first == "" {
			first, unreached = l.Name, missing
		}
	}
	if first == "" {
		return Setting{}, nil
	}
	if m := managementNetdev(h, snap); m != "" {
		return Setting{name, "=" + m, "it carries the management address: no training NIC reaches all hosts, and NCCL's ranks meet over one interface; = is an exact match"}, nil
	}
	return Setting{name, "=" + first, "the first training NIC with an address; = is an exact match"},
		[]string{fmt.Sprintf("%s does not reach %s, and NCCL's ranks meet over one interface: set nccl.socket_ifname to one that reaches all hosts", first, strings.Join(unreached, ", "))}
}

// usable says what keeps NCCL from meeting over an interface: it has to be there, to be up and to have an
// address, or NCCL does not start.
func usable(snap *facts.Snapshot, netdev string) []string {
	i := slices.IndexFunc(snap.Links, func(l host.Link) bool { return l.Name == netdev })
	if i < 0 {
		return []string{fmt.Sprintf("socket_ifname is %q, and this host has no such interface: NCCL does not start", netdev)}
	}
	l := snap.Links[i]
	if !l.Up || !slices.ContainsFunc(snap.Addrs, func(a host.Addr) bool { return a.Index == l.Index && !a.Prefix.Addr().IsLinkLocalUnicast() }) {
		return []string{fmt.Sprintf("socket_ifname is %q, which is down or has no address: NCCL does not start", netdev)}
	}
	return nil
}

// beyond are the hosts with training NICs that the NIC's own link or network does not reach.
func beyond(f *fabric.Fabric, n *fabric.NIC) (out []string) {
	reached := map[string]bool{n.Host: true}
	all := map[string]bool{}
	add := func(refs []fabric.NICRef, role string) {
		if role != training {
			return
		}
		own := slices.Contains(refs, n.Ref())
		for _, r := range refs {
			all[r.Host] = true
			reached[r.Host] = reached[r.Host] || own
		}
	}
	for _, l := range f.Links {
		add(l.Endpoints, l.Role)
	}
	for _, w := range f.Networks {
		add(w.Members, w.Role)
	}
	for host := range all {
		if !reached[host] {
			out = append(out, host)
		}
	}
	slices.Sort(out)
	return out
}

// managementNetdev is the interface that has the address by which the host is managed; "" where it
// cannot be told.
func managementNetdev(h *fabric.Host, snap *facts.Snapshot) string {
	for _, a := range snap.Addrs {
		if address := a.Prefix.Addr(); address.String() == h.Address || address == snap.Management.Server {
			if l := snap.LinkByIndex(a.Index); l != nil && !l.Loopback {
				return l.Name
			}
		}
	}
	return ""
}
