package fabric

import (
	"fmt"
	"net/netip"
	"slices"
)

func (c *checker) checkNetwork(n *Network) {
	if n.Invalid {
		return
	}
	if len(n.Members) < 2 {
		c.warnf(n.At("members"), "Network of fewer than two NICs", "Network %s has %s: there is nothing to measure.",
			n.Title(), members(len(n.Members)))
	}
	var first *NIC
	for _, r := range n.Members {
		m := c.nics[r]
		if m == nil || m.Invalid || c.said[r] {
			continue
		}
		c.checkMember(n, m)
		if first == nil {
			first = m
		}
		if n.MTU == 0 && first.MTU != m.MTU {
			c.errorf(m.At("mtu"), "MTU differs in a network", "%s has mtu %d, but %s has %d. "+
				"Small packets pass and large packets are lost. Set the same mtu on all members, or set mtu in network %s instead.",
				first.Ref(), first.MTU, m.Ref(), m.MTU, n.Title())
		}
		if !n.Routed && len(n.Subnet) == 0 && subnets(first) != subnets(m) {
			c.errorf(c.addressPos(m), "Subnets differ in a network",
				"%s is in %s, but %s is in %s. Give all members addresses in one subnet, or set routed = true and declare their routes.",
				first.Ref(), subnets(first), m.Ref(), subnets(m))
		}
	}
	if n.Routed {
		c.checkRouted(n)
	}
	c.checkSameClass(n)
}

func members(n int) string {
	if n == 1 {
		return "1 enabled member"
	}
	return fmt.Sprintf("%d enabled members", n)
}

func (c *checker) checkMember(n *Network, m *NIC) {
	if n.MTU != 0 && m.MTU != n.MTU {
		c.errorf(m.At("mtu"), "MTU differs from the network's", "Network %s has mtu %d, but %s has %d. Set mtu in one place.",
			n.Title(), n.MTU, m.Ref(), m.MTU)
	}
	c.checkSmallMTU(m, m.MTU, m.At("mtu"))
	if m.HostNumber != 0 && len(n.Subnet) == 0 {
		c.errorf(m.At("host_number"), "Host number without a subnet",
			"%s has host_number, but network %s has no subnet. Set subnet on the network, or addresses on the NIC.", m.Ref(), n.Title())
		return
	}
	for _, s := range n.Subnet {
		if len(m.Addresses) == 0 {
			c.errorf(m.Pos, "Member without an address",
				"Network %s has subnet %s, but %s has neither host_number nor addresses. Set host_number, unique in the network.",
				n.Title(), s, m.Ref())
			return
		}
		if !slices.ContainsFunc(m.Addresses, func(p netip.Prefix) bool { return s.Contains(p.Addr()) && s.Bits() == p.Bits() }) {
			c.errorf(c.addressPos(m), "Member outside the subnet",
				"%s has no address in %s, the subnet of network %s. Give it an address with that prefix length, or set host_number.",
				m.Ref(), s, n.Title())
		}
	}
}

// checkRouted checks that each member has a route to the subnets of the others.
func (c *checker) checkRouted(n *Network) {
	var others []netip.Prefix
	seen := map[netip.Prefix]bool{}
	for _, r := range n.Members {
		if m := c.nics[r]; m != nil {
			for _, p := range m.Addresses {
				if !seen[p.Masked()] {
					seen[p.Masked()] = true
					others = append(others, p.Masked())
				}
			}
		}
	}
	for _, r := range n.Members {
		m, h := c.nics[r], c.hosts[r.Host]
		if m == nil || m.Invalid {
			continue
		}
		covers := cover(h, m)
		for _, s := range others {
			own := slices.ContainsFunc(m.Addresses, func(p netip.Prefix) bool { return p.Masked() == s })
			family := slices.ContainsFunc(m.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() == s.Addr().Is4() })
			if !own && family && !slices.ContainsFunc(covers,
				func(p netip.Prefix) bool { return p.Bits() <= s.Bits() && p.Contains(s.Addr()) }) {
				c.errorf(n.At("members"), "No route to other members",
					"%s has no route to %s, the subnet of other members of network %s. Add a route or a policy_route on %s.",
					r, s, n.Title(), r.NIC)
				break
			}
		}
	}
}

// cover lists the destinations of a NIC's declared routes.
func cover(h *Host, m *NIC) []netip.Prefix {
	var out []netip.Prefix
	for _, r := range h.Routes {
		if r.NIC == m.Ref() {
			out = append(out, r.To)
		}
	}
	for _, p := range h.Policy {
		if p.NIC == m.Ref() {
			for _, r := range p.Routes {
				out = append(out, r.To)
			}
		}
	}
	return out
}

// checkNICsInOneSubnet warns about two NICs of one host in one subnet, unless both have a cable of their own. Linux answers
// ARP for any of its addresses on any NIC, and sends by the first route.
func (c *checker) checkNICsInOneSubnet(h *Host) {
	for i, n := range h.NICs {
		for _, m := range h.NICs[:i] {
			cabled := c.cable[n.Ref()] != nil && c.cable[m.Ref()] != nil // checkCablesInOneSubnet
			p, q, both := overlap(n, m)
			if cabled || !both || c.said[n.Ref()] || c.said[m.Ref()] || strict(h, n) && strict(h, m) {
				continue
			}
			c.warnf(c.addressPos(n), "Two NICs in one subnet",
				"NICs %s and %s of host %s are both in %s. Replies and ARP answers may leave by either NIC. "+
					"Give each NIC its own subnet; "+
					"or give both NICs a policy_route from their own address and sysctl = { \"ipv4.conf.arp_ignore\" = 1, "+
					"\"ipv4.conf.arp_announce\" = 2 }.",
				m.Name, n.Name, h.Name, wider(p, q))
		}
	}
}

// strict reports whether a NIC answers ARP and sends only for its own addresses (kernel documentation:
// networking/ip-sysctl.rst).
func strict(h *Host, n *NIC) bool {
	rule := slices.ContainsFunc(h.Policy, func(p *PolicyRoute) bool {
		return p.NIC == n.Ref() && p.From.IsValid() &&
			slices.ContainsFunc(n.Addresses, func(a netip.Prefix) bool { return p.From.Contains(a.Addr()) })
	})
	set := func(key string, values ...string) bool {
		return slices.Contains(values, n.Sysctl["ipv4.conf."+key]) || slices.Contains(values, h.Sysctl["net.ipv4.conf.all."+key])
	}
	return rule && set("arp_ignore", "1", "2") && set("arp_announce", "2")
}
