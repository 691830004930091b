package fabric

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Severity says whether a problem prevents a plan.
type Severity int

// The severities of a Problem.
const (
	Error Severity = iota
	Warning
)

// Problem is a mistake in a fabric that is visible in its files.
type Problem struct {
	Severity        Severity
	Summary, Detail string
	Pos             Pos
	// Absence says that the problem is that something is missing. A mistake elsewhere may be the reason: beside errors it is not reported.
	Absence bool
}

// checker indexes the fabric once, so that every check takes linear time.
type checker struct {
	f     *Fabric
	nics  map[NICRef]*NIC
	hosts map[string]*Host
	cable map[NICRef]*Link    // the link that has the NIC as an endpoint
	net   map[NICRef]*Network // the network that a NIC is a member of
	said  map[NICRef]bool     // NICs whose place or subnet was reported, which explains further problems of theirs
	out   []Problem
}

func (c *checker) errorf(p Pos, summary, detail string, a ...any) {
	c.out = append(c.out, Problem{Severity: Error, Summary: summary, Detail: fmt.Sprintf(detail, a...), Pos: p})
}

func (c *checker) warnf(p Pos, summary, detail string, a ...any) {
	c.out = append(c.out, Problem{Severity: Warning, Summary: summary, Detail: fmt.Sprintf(detail, a...), Pos: p})
}

// Check returns all problems of the fabric that can be found without hosts, in a stable order. Checks
// skip Invalid blocks, whose problems were already reported.
func Check(f *Fabric) []Problem {
	c := &checker{f: f, nics: map[NICRef]*NIC{}, hosts: map[string]*Host{}, cable: map[NICRef]*Link{}, net: map[NICRef]*Network{},
		said: map[NICRef]bool{}}
	for _, h := range f.Hosts {
		c.hosts[h.Name] = h
		for _, n := range h.NICs {
			c.nics[n.Ref()] = n
		}
	}
	c.checkUse()
	for _, h := range f.Hosts {
		c.checkMade(h)
	}
	c.checkAddresses()
	for _, l := range f.Links {
		c.checkLink(l)
	}
	for _, n := range f.Networks {
		c.checkNetwork(n)
	}
	for _, m := range f.LoginMeshes {
		c.checkLoginMesh(m)
	}
	for _, q := range f.Classes {
		c.checkQoS(q)
	}
	for _, h := range f.Hosts {
		c.checkCablesInOneSubnet(h)
		c.checkNICsInOneSubnet(h)
		c.checkRoutes(h)
		c.checkOFED(h.OFED)
		c.checkSoftRoCE(h)
		c.checkRelay(h)
		c.checkNCCL(h.NCCL, h)
		c.checkLossless(h)
		c.checkOneClass(h)
	}
	c.checkNCCL(f.NCCL, nil)
	c.checkLaunchers()
	c.checkPortGroups()
	return c.out
}

// checkUse reports NICs in more than one link or network: a port has one cable.
func (c *checker) checkUse() {
	for _, l := range c.f.Links {
		for _, r := range l.Endpoints {
			if o := c.cable[r]; o != nil && o != l {
				c.errorf(l.At("endpoints"), "NIC in two links", "%s is an end of links %s and %s. A port has one cable.", r, o.Title(), l.Title())
				c.said[r] = true
			}
			c.cable[r] = l
		}
	}
	for _, n := range c.f.Networks {
		seen := map[NICRef]bool{}
		for _, r := range n.Members {
			before := len(c.out)
			switch {
			case seen[r]:
				c.errorf(n.At("members"), "Duplicate member", "%s is listed twice in the members of network %s.", r, n.Title())
			case c.cable[r] != nil:
				c.errorf(n.At("members"), "NIC in a link and a network",
					"%s is an end of link %s and a member of network %s. A port has one cable.", r, c.cable[r].Title(), n.Title())
			case c.net[r] != nil:
				c.errorf(n.At("members"), "NIC in two networks", "%s is a member of networks %s and %s. A port has one cable.",
					r, c.net[r].Title(), n.Title())
			}
			c.said[r] = c.said[r] || len(c.out) > before
			seen[r], c.net[r] = true, n
		}
	}
}

func (c *checker) checkAddresses() {
	seen := map[netip.Addr]*NIC{}
	for _, h := range c.f.Hosts {
		devices := map[string]string{}
		for _, n := range h.NICs {
			if key := n.Netdev + n.Match.MAC + n.Match.PCI + n.Match.RDMA; key != "" {
				if other, dup := devices[key]; dup {
					c.errorf(n.Pos, "Device used twice", "NICs %s and %s of host %s both use device %s. Give each its own device.",
						other, n.Name, h.Name, key)
				}
				devices[key] = n.Name
			}
			for _, p := range n.Addresses {
				c.checkAddress(n, p, seen)
			}
		}
	}
}

func (c *checker) checkAddress(n *NIC, p netip.Prefix, seen map[netip.Addr]*NIC) {
	pos := c.addressPos(n)
	if o := seen[p.Addr()]; o != nil {
		c.errorf(pos, "Address used twice", "%s on %s is also on %s. Addresses are unique in a fabric.", p.Addr(), n.Ref(), o.Ref())
		c.said[n.Ref()] = true
	}
	seen[p.Addr()] = n
	host := p.Addr().BitLen() - p.Bits()
	switch {
	case p.Addr().IsUnspecified() || p.Addr().IsLoopback() || p.Addr().IsMulticast():
		c.errorf(pos, "Not a host address", "%s cannot be the address of a NIC.", p)
	case p.Addr().Is6() && p.Addr().IsLinkLocalUnicast():
		c.errorf(pos, "Link-local address",
			"%s: addresses lists only global addresses. The kernel assigns link-local ones, as ipv6_link_local says.", p)
	case host > 1 && p == p.Masked():
		c.errorf(pos, "Network instead of an address", "%s is the address of the network. Use the address of a host in it, such as %s.",
			p, netip.PrefixFrom(p.Addr().Next(), p.Bits()))
	case host > 1 && p.Addr().Is4() && !p.Contains(p.Addr().Next()):
		c.errorf(pos, "Broadcast address", "%s is the broadcast address of %s. Use another address of that network.", p.Addr(), p.Masked())
	}
	if a := p.Addr(); c.fabricNIC(n) && a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a) {
		c.warnf(pos, "Public address on a fabric link", "%s is public address space: this host could no longer reach its real owner, "+
			"and packets may leak to the Internet. Use a private network, such as 10.0.0.0/8.", p)
	}
}

// shared is the shared address space of RFC 6598, which is not routed on the Internet.
var shared = netip.MustParsePrefix("100.64.0.0/10")

func (c *checker) fabricNIC(n *NIC) bool { return c.cable[n.Ref()] != nil || c.net[n.Ref()] != nil }

// addressPos returns where the NIC's addresses are set: in the NIC, or in its link as subnet.
func (c *checker) addressPos(n *NIC) Pos {
	for _, attr := range []string{"addresses", "host_number"} {
		if pos, ok := n.AttrPos[attr]; ok {
			return pos
		}
	}
	if l := c.cable[n.Ref()]; l != nil {
		return l.At("subnet")
	}
	return n.Pos
}

// checkPortGroups reports groups of one link: a typing error, or the other half of the port is missing.
func (c *checker) checkPortGroups() {
	members := map[string][]*Link{}
	for _, l := range c.f.Links {
		if l.PortGroup != "" {
			members[l.PortGroup] = append(members[l.PortGroup], l)
		}
	}
	for _, l := range c.f.Links {
		if g := members[l.PortGroup]; l.PortGroup != "" && len(g) == 1 {
			c.warnf(l.At("port_group"), "Port group of one link",
				"No other link is in port_group %q. Set it on all links that share the physical port.", l.PortGroup)
		}
	}
}

// rdmaMTU is the smallest Ethernet MTU that leaves room for an RDMA MTU of 4096 with the headers of
// RoCE v2: IPv6 40, UDP 8, BTH 12, RETH 16, ICRC 4, and extended headers; 96 in all.
const rdmaMTU = 4096 + 96

func (c *checker) checkSmallMTU(n *NIC, mtu int, pos Pos) {
	if mtu > 0 && mtu < rdmaMTU {
		c.warnf(pos, "Small MTU for RDMA", "mtu %d on %s limits the RDMA MTU to less than 4096. Use 9000 if all ends support it.",
			mtu, n.Ref())
	}
}

// hostHas reports whether an address is declared on the host.
func hostHas(h *Host, a netip.Addr) bool {
	if a.String() == h.Address {
		return true
	}
	return slices.ContainsFunc(h.NICs, func(n *NIC) bool {
		return slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Addr() == a })
	})
}

// CheckEntries returns an error if a list of blocks has a null entry, a link does not have two ends, or a block says that it
// is Invalid, as may be in a fabric that is read from JSON. Check does not expect that.
func (f *Fabric) CheckEntries() error {
	null := slices.Contains(f.Hosts, nil) || slices.Contains(f.Links, nil) || slices.Contains(f.Networks, nil) ||
		slices.Contains(f.Classes, nil) || slices.Contains(f.Workloads, nil)
	null = null || slices.ContainsFunc(f.Hosts, func(h *Host) bool {
		return slices.Contains(h.NICs, nil) || slices.Contains(h.Routes, nil) || slices.Contains(h.Policy, nil) ||
			slices.Contains(h.RXE, nil)
	})
	if null {
		return errors.New("its fabric has null in a list of blocks")
	}
	if slices.ContainsFunc(f.LoginMeshes, func(m *LoginMesh) bool { return !m.sound(f) }) {
		return errors.New("its fabric has a login mesh with a name that is not allowed, or with a host that is not declared")
	}
	if slices.ContainsFunc(f.Links, func(l *Link) bool { return len(l.Endpoints) != 2 }) {
		return errors.New("its fabric has a link that does not have two ends")
	}
	if slices.ContainsFunc(f.blocks(), func(b Block) bool { return b.Invalid }) {
		return errors.New("its fabric has a block that says not to be checked")
	}
	return nil
}

// blocks returns all blocks of the fabric.
func (f *Fabric) blocks() []Block {
	out := []Block{f.NCCL.Block}
	for _, l := range f.Links {
		out = append(out, l.Block)
	}
	for _, m := range f.LoginMeshes {
		out = append(out, m.Block)
	}
	for _, n := range f.Networks {
		out = append(out, n.Block)
	}
	for _, q := range f.Classes {
		out = append(out, q.Block)
	}
	for _, w := range f.Workloads {
		out = append(out, w.Block)
	}
	for _, h := range f.Hosts {
		out = append(out, h.Block, h.NCCL.Block)
		for _, n := range h.NICs {
			out = append(out, n.Block)
			if n.QoS != nil {
				out = append(out, n.QoS.Block)
			}
		}
		for _, r := range h.Routes {
			out = append(out, r.Block)
		}
		for _, p := range h.Policy {
			out = append(out, p.Block)
			for _, r := range p.Routes {
				out = append(out, r.Block)
			}
		}
		for _, x := range h.RXE {
			out = append(out, x.Block)
		}
		if h.OFED != nil {
			out = append(out, h.OFED.Block)
		}
	}
	return out
}
