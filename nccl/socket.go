package nccl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// socketIfname returns the interface that NCCL bootstraps over: the declared one, or else the first
// training NIC by name that has an address and reaches all hosts with training NICs. Three or more hosts
// with direct cables have no such NIC; they use the interface with the management address.
func socketIfname(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) (Setting, []string) {
	const name = "NCCL_SOCKET_IFNAME"
	family := f.Secrets.Value(f.NCCLOf(h).Env["NCCL_SOCKET_FAMILY"])
	if declared := string(f.NCCLOf(h).SocketIfname); declared != "" {
		if n := h.NIC(declared); n != nil {
			if l := Netdev(snap, n); l != nil {
				declared = l.Name
			}
		}
		return Setting{name, "=" + declared, "declared as socket_ifname; = is an exact match"}, usable(snap, declared, family)
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
			return Setting{name, "=" + l.Name, "the first training NIC with an address (" + n.Name +
				"); = is an exact match"}, usable(snap, l.Name, family)
		}
		if first == "" {
			first, unreached = l.Name, missing
		}
	}
	if first == "" {
		return Setting{}, nil
	}
	if m := managementNetdev(h, snap); m != "" {
		return Setting{name, "=" + m, "it has the management address: no training NIC reaches all hosts, and NCCL bootstraps over one " +
			"interface; = is an exact match"}, nil
	}
	return Setting{name, "=" + first, "the first training NIC with an address; = is an exact match"},
		[]string{fmt.Sprintf("%s does not reach %s, and NCCL bootstraps over one interface: set nccl.socket_ifname to an interface that "+
			"reaches all hosts", first, strings.Join(unreached, ", "))}
}

// usable reports why NCCL cannot bootstrap over an interface. NCCL does not start unless the interface exists and has an
// address, and from 2.28.3 on is running (ncclOsFindInterfaces in src/os/linux.cc, 2.30.7). A link-local IPv6 address is
// enough for NCCL to start, but not for other hosts to connect. family is NCCL_SOCKET_FAMILY, which can leave out the addresses of one
// family (ncclEnvSocketFamily in src/misc/socket.cc).
func usable(snap *facts.Snapshot, netdev, family string) []string {
	i := slices.IndexFunc(snap.Links, func(l host.Link) bool { return l.Name == netdev })
	if i < 0 {
		return []string{fmt.Sprintf("NCCL_SOCKET_IFNAME is %q, but this host has no such interface: NCCL will not start", netdev)}
	}
	l, local, global, of := snap.Links[i], false, false, ""
	if family == "AF_INET" || family == "AF_INET6" {
		of = " of NCCL_SOCKET_FAMILY = " + family
	}
	for _, a := range snap.Addrs {
		six := a.Prefix.Addr().Is6()
		if a.Index == l.Index && (of == "" || six == (family == "AF_INET6")) {
			local, global = local || six, global || !a.Prefix.Addr().IsLinkLocalUnicast()
		}
	}
	switch {
	case !l.Up:
		return []string{fmt.Sprintf("NCCL_SOCKET_IFNAME is %q, which is down: NCCL cannot bootstrap over it", netdev)}
	case !l.Running():
		return []string{fmt.Sprintf("NCCL_SOCKET_IFNAME is %q, which has no carrier: NCCL 2.28.3 and later do not start, and earlier "+
			"versions cannot connect", netdev)}
	case !global && local:
		return []string{fmt.Sprintf("NCCL_SOCKET_IFNAME is %q, which has only a link-local address%s: NCCL starts, but other hosts cannot "+
			"connect to it", netdev, of)}
	case !global:
		return []string{fmt.Sprintf("NCCL_SOCKET_IFNAME is %q, which has no address%s: NCCL will not start", netdev, of)}
	}
	return nil
}

// beyond returns the hosts with training NICs that are not on the NIC's link or network.
func beyond(f *fabric.Fabric, n *fabric.NIC) []string {
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
	maps.DeleteFunc(all, func(host string, _ bool) bool { return reached[host] })
	return slices.Sorted(maps.Keys(all))
}

// managementNetdev returns the interface with the host's management address, or "" if it is unknown.
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
