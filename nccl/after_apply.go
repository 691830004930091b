package nccl

import (
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// AfterApply returns the snapshot as it will be after an apply, as far as NCCL's settings depend on it:
// declared Soft-RoCE devices exist, devices in gone do not, NICs and their ports are up or down as declared,
// and have the declared addresses and their GIDs. It ignores unplugged cables, because the settings must be
// right once the cable is plugged in again. Apart from such ports, a host that matches its declaration
// yields the snapshot itself.
func AfterApply(h *fabric.Host, snap *facts.Snapshot, gone ...string) *facts.Snapshot {
	out := *snap
	out.RDMA = slices.DeleteFunc(slices.Clone(snap.RDMA), func(d facts.RDMADevice) bool {
		return slices.Contains(gone, d.Name) || slices.ContainsFunc(h.RXE,
			func(x *fabric.RXE) bool { return x.Name == d.Name && d.Netdev != below(h, x, snap) })
	})
	for _, x := range h.RXE {
		on := below(h, x, snap)
		if on == "" || slices.ContainsFunc(out.RDMA, func(d facts.RDMADevice) bool { return d.Netdev == on }) {
			continue
		}
		// Soft-RoCE has only RoCE v2. The first slot holds the default GID.
		first := facts.GID{Addr: netip.MustParseAddr("fe80::1"), Version: 2, Netdev: on}
		out.RDMA = append(out.RDMA, facts.RDMADevice{Name: x.Name, Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: on,
			Driver: "rxe", Virtual: true, GIDs: []facts.GID{first}})
	}
	out.Links, out.Addrs = slices.Clone(snap.Links), slices.Clone(snap.Addrs)
	for _, n := range h.NICs {
		if l := Netdev(&out, n); l != nil {
			l.Up, l.OperState = n.Up, "up"
			if n.AddressesSet {
				out.Addrs = addressesAfterApply(out.Addrs, n, l.Index)
			}
			for _, d := range out.RDMAOn(l.Name) {
				*d = portAfterApply(*d, n, l)
			}
		}
	}
	// Snapshots list devices by name.
	slices.SortStableFunc(out.RDMA, func(a, b facts.RDMADevice) int { return compare(a, b) })
	return &out
}

func compare(a, b facts.RDMADevice) int {
	switch {
	case a.Name < b.Name:
		return -1
	case a.Name > b.Name:
		return 1
	}
	return a.Port - b.Port
}

// below returns the netdev under a declared Soft-RoCE device, or "" if it is unknown.
func below(h *fabric.Host, x *fabric.RXE, snap *facts.Snapshot) string {
	n := h.NIC(x.NIC.NIC)
	if n == nil {
		n = &fabric.NIC{Netdev: x.Netdev}
	}
	if l := Netdev(snap, n); l != nil {
		return l.Name
	}
	return ""
}

// addressesAfterApply returns the host's addresses once the NIC has exactly its declared ones, besides link-local ones.
func addressesAfterApply(all []host.Addr, n *fabric.NIC, index int) []host.Addr {
	all = slices.DeleteFunc(all, func(a host.Addr) bool { return a.Index == index && !a.Prefix.Addr().IsLinkLocalUnicast() })
	for _, p := range n.Addresses {
		all = append(all, host.Addr{Index: index, Prefix: p})
	}
	return all
}

func portAfterApply(d facts.RDMADevice, n *fabric.NIC, l *host.Link) facts.RDMADevice {
	switch {
	case n.Up: // a VLAN can be up only if the NIC below it is
		d.State = "ACTIVE"
	case d.Netdev == l.Name:
		d.State = "DOWN"
	}
	if n.AddressesSet && d.LinkLayer == "Ethernet" {
		d.GIDs = gidsAfterApply(d, n, l)
	}
	return d
}

// gidsAfterApply returns the GID table once the NIC has exactly its declared addresses. Removed addresses
// leave holes. New addresses take the first free slots after the default GIDs, one slot for each RoCE
// version of the device (find_gid and add_netdev_ips in the kernel's drivers/infiniband/core).
func gidsAfterApply(d facts.RDMADevice, n *fabric.NIC, l *host.Link) (out []facts.GID) {
	declared := func(a netip.Addr) bool {
		return slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr() == a.Unmap() })
	}
	taken := map[int]bool{}
	versions := map[int]bool{}
	for _, g := range d.GIDs {
		versions[g.Version] = true
		if g.Netdev == l.Name && !declared(g.Addr) && !g.Addr.Unmap().IsLinkLocalUnicast() {
			continue
		}
		out, taken[g.Index] = append(out, g), true
	}
	if len(versions) == 0 { // hardware supports both
		versions = map[int]bool{1: true, 2: true}
	}
	slot := len(versions)
	for _, p := range n.Addresses {
		if slices.ContainsFunc(out, func(g facts.GID) bool { return g.Addr.Unmap() == p.Addr() && g.Of(l.Name) }) {
			continue
		}
		for version := 1; version <= 2; version++ {
			for ; taken[slot]; slot++ {
			}
			if versions[version] {
				out, taken[slot] = append(out, facts.GID{Index: slot, Addr: netip.AddrFrom16(p.Addr().As16()), Version: version,
					Netdev: l.Name}), true
			}
		}
	}
	slices.SortFunc(out, func(a, b facts.GID) int { return a.Index - b.Index })
	return out
}
