package fabric

import (
	"net/netip"
	"slices"
	"strings"
)

func (c *checker) checkLink(l *Link) {
	pos := l.At("endpoints")
	if l.Invalid || len(l.Endpoints) != 2 {
		return
	}
	if l.Endpoints[0] == l.Endpoints[1] {
		c.errorf(pos, "Link from a NIC to itself", "Both ends of link %s are %s.", l.Title(), l.Endpoints[0])
		return
	}
	if l.Endpoints[0].Host == l.Endpoints[1].Host {
		c.errorf(pos, "Link within one host", "Both ends of link %s are on host %s. A link joins two hosts.", l.Title(), l.Endpoints[0].Host)
	}
	a, b := c.nics[l.Endpoints[0]], c.nics[l.Endpoints[1]]
	for _, n := range []*NIC{a, b} {
		if n == nil || n.Invalid || c.said[n.Ref()] {
			return
		}
	}
	both := l.MTU != 0 && a.MTU == b.MTU && a.MTU != l.MTU
	if both {
		c.errorf(l.At("mtu"), "MTU differs from the NICs'", "Link %s has mtu %d, but both ends have %d. Set mtu in one place.", l.Title(), l.MTU, a.MTU)
	}
	for _, n := range []*NIC{a, b} {
		if l.MTU != 0 && n.MTU != l.MTU && !both {
			c.errorf(n.At("mtu"), "MTU differs from the link's", "Link %s has mtu %d, but %s has %d. Set mtu in one place.", l.Title(),
				l.MTU, n.Ref(), n.MTU)
		}
		c.checkSmallMTU(n, n.MTU, n.At("mtu"))
	}
	switch {
	case a.MTU == b.MTU || l.MTU != 0:
	case a.MTU == 0 || b.MTU == 0:
		unset, set := a, b
		if b.MTU == 0 {
			unset, set = b, a
		}
		c.errorf(unset.Pos, "MTU declared at one end of a link",
			"%s has mtu %d, but %s has none. Set mtu %d at both ends, or set mtu in link %s instead.",
			set.Ref(), set.MTU, unset.Ref(), set.MTU, l.Title())
	default:
		c.errorf(b.At("mtu"), "MTU differs at the ends of a link", "%s has mtu %d, but %s has %d. "+
			"Small packets pass and large packets are lost. Set the same mtu at both ends, or set mtu in link %s instead.",
			a.Ref(), a.MTU, b.Ref(), b.MTU, l.Title())
	}
	if sa, sb := subnets(a), subnets(b); sa != sb {
		c.said[a.Ref()], c.said[b.Ref()] = true, true
		c.errorf(pos, "Subnets differ at the ends of a link",
			"%s is in %s, but %s is in %s. Give both ends addresses in one subnet, or set subnet in link %s.",
			a.Ref(), sa, b.Ref(), sb, l.Title())
	}
	c.checkEnds(l, a, b)
	c.checkMadeEnds(l, a, b)
}

// subnets lists those of the NIC. An address of its own, such as a service's 10.1.7.1/32, is in none if others are.
func subnets(n *NIC) string {
	var s []string
	shared := slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return !p.IsSingleIP() })
	for _, p := range n.Addresses {
		if !p.IsSingleIP() || !shared {
			s = append(s, p.Masked().String())
		}
	}
	slices.Sort(s)
	if s == nil {
		return "none"
	}
	return strings.Join(slices.Compact(s), ", ")
}

// checkCablesInOneSubnet reports two cables of one host in one subnet. The kernel then has two equal routes
// and always uses the first, whichever cable was meant.
func (c *checker) checkCablesInOneSubnet(h *Host) {
	for i, n := range h.NICs {
		for _, m := range h.NICs[:i] {
			if c.cable[n.Ref()] == nil || c.cable[m.Ref()] == nil || c.cable[n.Ref()] == c.cable[m.Ref()] ||
				c.said[n.Ref()] || c.said[m.Ref()] {
				continue
			}
			if p, q, both := overlap(n, m); both {
				c.errorf(c.addressPos(n), "Two direct links in one subnet",
					"NICs %s and %s of host %s are both in %s. "+
						"The kernel cannot tell the two cables apart and sends all traffic over the first. "+
						"Give each cable its own subnet, such as %s.",
					m.Name, n.Name, h.Name, wider(p, q), halves(wider(p, q)))
			}
		}
	}
}

func overlap(n, m *NIC) (p, q netip.Prefix, both bool) {
	for _, p := range n.Addresses {
		for _, q := range m.Addresses {
			if p.Masked().Overlaps(q.Masked()) {
				return p, q, true
			}
		}
	}
	return p, q, false
}

func wider(p, q netip.Prefix) netip.Prefix {
	if p.Bits() < q.Bits() {
		return p.Masked()
	}
	return q.Masked()
}

// halves suggests the first two point-to-point subnets of a network.
func halves(p netip.Prefix) string {
	bits := 30
	if p.Addr().Is6() {
		bits = 126
	}
	if p.Bits() > bits-1 {
		return "192.168.88.0/30 and 192.168.88.4/30"
	}
	first := netip.PrefixFrom(p.Addr(), bits)
	second := p.Addr()
	for range 4 {
		second = second.Next()
	}
	return first.String() + " and " + netip.PrefixFrom(second, bits).String()
}
