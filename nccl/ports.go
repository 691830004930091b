package nccl

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl/env"
)

// Port is one fabric NIC of a host as NCCL sees it.
type Port struct {
	NIC    string // name in the files
	Netdev string
	HCA    string // RDMA device; "": the NIC has no usable one
	Number int    // port of the RDMA device that the netdev belongs to
	Why    string // why there is no HCA
	GID    int    // predicted or pinned index
	Pin    *int   // nil: NCCL chooses
	Select GIDSelection
	Wrong  string // the problem of the predicted or pinned GID; "": none

	gids    []facts.GID  // the GIDs that NCCL chooses from, of all netdevs on the port; empty: it does not choose
	own     []netip.Addr // the addresses that the GID may have; empty: any of Netdev
	ranged  bool         // nccl.env sets NCCL_IB_ADDR_RANGE
	several bool         // the device has other ports

	inactive bool // there is a device, but its port is not active
}

// Ports returns the ports of the NICs that NCCL should use, sorted by name.
func Ports(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) []Port {
	var out []Port
	for _, n := range f.ForCollectives(h) {
		p := port(f, h, n, snap)
		if i := slices.IndexFunc(out, p.shares); i >= 0 {
			p.gids, p.Wrong = nil, fmt.Sprintf("%s has the same RDMA port as %s, and NCCL uses one GID for each port: name only one of "+
				"them in nccl.hca", p.NIC, out[i].NIC)
		}
		out = append(out, p)
	}
	narrow(f, out)
	return out
}

// shares reports whether both NICs have the same RDMA port, such as a NIC and a VLAN on it.
func (p Port) shares(o Port) bool { return p.HCA != "" && p.HCA == o.HCA && p.Number == o.Number }

func port(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC, snap *facts.Snapshot) Port {
	p := Port{NIC: n.Name}
	p.Select, p.ranged = selection(f, h, n, Version(f, h, snap))
	l := Netdev(snap, n)
	if l == nil {
		p.Why = "the NIC was not found"
		return p
	}
	p.Netdev = l.Name
	p.Why = "no RDMA device on " + l.Name
	if l.Planned { // mlx5 replaces the devices of the members by one of the bond (RoCE LAG)
		p.Why += ", which does not exist yet: plan again once it does, because it may get one"
	}
	for _, d := range snap.RDMAOn(l.Name) {
		if d.State != "ACTIVE" {
			p.inactive, p.Why = true, fmt.Sprintf("RDMA device %s on %s is %s", d.Name, l.Name, d.State)
			continue
		}
		p.HCA, p.Number, p.Why, p.inactive = d.Name, d.Port, "", false
		p.several = slices.ContainsFunc(snap.RDMA, func(o facts.RDMADevice) bool { return o.Name == d.Name && o.Port != d.Port })
		if d.LinkLayer == "InfiniBand" {
			break // InfiniBand uses GID index 0, which does not depend on an IP address
		}
		p.gids, p.own = d.GIDs, ofFamily(n, p.Select.IPv6)
		if !n.AddressesSet {
			p.own = p.found()
		}
		p.GID, p.Wrong = PredictGID(d.GIDs, p.Select)
		if pin := pinned(f, h, n); pin != nil {
			p.Wrong = checkPin(*d, n, l.Name, *pin, p.index())
			p.GID, p.Pin = *pin, pin
		}
		break
	}
	return p
}

// found returns the addresses of the netdev in the GID table.
func (p *Port) found() (out []netip.Addr) {
	for _, g := range p.gids {
		if g.Of(p.Netdev) && valid(g) && isV6(g) == p.Select.IPv6 {
			out = append(out, g.Addr.Unmap())
		}
	}
	return out
}

// index returns the index of an address of the NIC, in the wanted RoCE version; the predicted index if there is none.
func (p *Port) index() int {
	for _, g := range p.gids {
		if g.Of(p.Netdev) && g.Version == p.Select.version() && isV6(g) == p.Select.IPv6 && valid(g) &&
			(len(p.own) == 0 || slices.Contains(p.own, g.Addr.Unmap())) {
			return g.Index
		}
	}
	return p.GID
}

// ofFamily returns the NIC's declared addresses of one address family.
func ofFamily(n *fabric.NIC, ipv6 bool) (out []netip.Addr) {
	for _, a := range n.Addresses {
		if n.AddressesSet && a.Addr().Is6() == ipv6 {
			out = append(out, a.Addr())
		}
	}
	return out
}

// Netdev finds the NIC's device in the snapshot. It returns nil if none or several match.
func Netdev(snap *facts.Snapshot, n *fabric.NIC) *host.Link {
	l, err := snap.Find(facts.Selector{Netdev: n.Netdev, MAC: n.Match.MAC, PCI: n.Match.PCI, RDMA: n.Match.RDMA})
	if err != nil {
		return nil // the planner reports it, with its position in the files
	}
	return l
}

// maxGID bounds GID indexes: tables have 256 slots or fewer.
const maxGID = 1 << 16

// training is the role of links that carry collectives.
const training = "training"

// pinned returns the GID index that is declared for the NIC, from any of the attributes that set it.
func pinned(f *fabric.Fabric, h *fabric.Host, n *fabric.NIC) *int {
	declared := f.NCCLOf(h)
	// NCCL treats a negative index and an empty value as automatic.
	if v := declared.Env["NCCL_IB_GID_INDEX"]; v != "" {
		if n := env.ParseNumber(v); n.Value >= 0 && n.Value < maxGID {
			pin := int(n.Value)
			return &pin
		}
	}
	if n.GID.Index != nil {
		return n.GID.Index
	}
	return declared.GIDIndex
}

func checkPin(d facts.RDMADevice, n *fabric.NIC, netdev string, pin, predicted int) string {
	for _, g := range d.GIDs {
		if g.Index != pin {
			continue
		}
		if wrong := judge(pin, g, n.GID.Version); wrong != "" {
			return "pinned " + wrong
		}
		ours := func(p netip.Prefix) bool { return p.Addr() == g.Addr.Unmap() }
		if n.AddressesSet && !slices.ContainsFunc(n.Addresses, ours) {
			return fmt.Sprintf("pinned GID %d is %s, which is not a declared address; the right index is now %d", pin, g.Addr.Unmap(),
				predicted)
		}
		if !g.Of(netdev) {
			return fmt.Sprintf("pinned GID %d is %s of %s instead of an address of %s; the right index is now %d", pin, g.Addr.Unmap(),
				g.Netdev, netdev, predicted)
		}
		return ""
	}
	return fmt.Sprintf("pinned GID %d of %s is empty; the right index is now %d", pin, d.Name, predicted)
}
