package fabric

import (
	"net/netip"
	"slices"
)

// destination is the key of a route in its table.
type destination struct {
	to     netip.Prefix
	metric int
}

// place returns the key under which the kernel keeps a route. IPv6 has no metric 0: the kernel replaces
// it with IP6_RT_PRIO_USER, 1024.
func place(r *Route) destination {
	if r.Metric == 0 && r.To.Addr().Is6() {
		return destination{r.To, 1024}
	}
	return destination{r.To, r.Metric}
}

func (c *checker) checkRoutes(h *Host) {
	names := map[destination]string{}
	inTable := map[int]map[destination]string{}
	for _, p := range h.Policy {
		if p.Invalid {
			continue
		}
		n := c.nics[p.NIC]
		if p.From.IsValid() && p.From.IsSingleIP() && declaresAddresses(n) && !hostHas(h, p.From.Addr()) {
			c.errorf(p.At("from"), "Not an address of this host",
				"from %s is not an address of any NIC of host %s. Use one of its addresses, such as nic.%s.ip.",
				p.From.Addr(), h.Name, p.NIC.NIC)
		}
		if p.From.IsValid() && p.To.IsValid() && p.From.Addr().Is4() != p.To.Addr().Is4() {
			c.errorf(p.At("to"), "Address families differ",
				"from %s and to %s belong to different address families. Write a policy_route for each family.", p.From, p.To)
		}
		for i := range p.Routes {
			r := &p.Routes[i]
			c.checkRoute(h, n, r)
			if inTable[p.Table] == nil {
				inTable[p.Table] = map[destination]string{}
			}
			key := place(r)
			if o := inTable[p.Table][key]; o != "" && !r.Invalid {
				c.errorf(r.At("to"), "Duplicate route",
					"policy_route %s and %s of host %s both have a route to %s in table %d. Use different tables or metrics.",
					o, p.Name, h.Name, r.To, p.Table)
			}
			inTable[p.Table][key] = p.Name
			if p.From.IsValid() && r.To.IsValid() && !r.Invalid && p.From.Addr().Is4() != r.To.Addr().Is4() {
				c.errorf(r.At("to"), "Address families differ",
					"The rule is from %s and this route to %s, so no packet uses it. Write a policy_route for each family.", p.From, r.To)
			}
		}
	}
	for _, r := range h.Routes {
		c.checkRoute(h, c.nics[r.NIC], &r.Route)
		c.checkConnected(c.nics[r.NIC], r)
		key := place(&r.Route)
		if o := names[key]; o != "" && !r.Invalid {
			c.errorf(r.At("to"), "Duplicate route",
				"Routes %s and %s of host %s have the same destination %s. Set a different metric on one of them.", o, r.Name, h.Name, r.To)
		}
		names[key] = r.Name
	}
}

// checkConnected reports a route that the kernel adds by itself with the NIC's address.
func (c *checker) checkConnected(n *NIC, r *MainRoute) {
	if n == nil || r.Invalid || r.Via.IsValid() || r.Metric != 0 {
		return
	}
	if slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Masked() == r.To }) {
		c.errorf(r.At("to"), "Redundant route",
			"%s is the subnet of NIC %s: the kernel adds this route with the address. Remove the block.", r.To, n.Name)
	}
}

// declaresAddresses reports whether the files set the NIC's addresses. If they do not, the host may have
// any address, and a check against addresses cannot decide.
func declaresAddresses(n *NIC) bool { return n != nil && n.AddressesSet && !n.Invalid }

func (c *checker) checkRoute(h *Host, n *NIC, r *Route) {
	if r.Src.IsValid() && declaresAddresses(n) && !hostHas(h, r.Src) {
		c.errorf(r.At("src"), "Not an address of this host",
			"src %s is not an address of any NIC of host %s. Use one of its addresses, such as nic.%s.ip.", r.Src, h.Name, n.Name)
	}
	if r.Src.IsValid() && r.To.IsValid() && r.Src.Is4() != r.To.Addr().Is4() {
		c.errorf(r.At("src"), "Address families differ",
			"to %s and src %s belong to different address families. Use addresses of one family.", r.To, r.Src)
	}
	if r.Via.IsValid() && r.To.IsValid() && r.Via.Is4() != r.To.Addr().Is4() {
		c.errorf(r.At("via"), "Address families differ",
			"to %s and via %s belong to different address families. Use addresses of one family.", r.To, r.Via)
		return
	}
	if r.OnLink && !r.Via.IsValid() {
		c.errorf(r.At("on_link"), "on_link without a gateway",
			"on_link = true means that the gateway is directly reachable, but this route has no via. Set via, or remove on_link.")
		return
	}
	if r.Via.IsValid() && hostHas(h, r.Via) {
		c.errorf(r.At("via"), "Gateway is this host", "via %s is an address of host %s itself. Use the neighbour's address.", r.Via, h.Name)
		return
	}
	if r.OnLink || !r.Via.IsValid() || !declaresAddresses(n) || r.Via.IsLinkLocalUnicast() {
		return
	}
	if !slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(r.Via) }) {
		c.errorf(r.At("via"), "Unreachable gateway", "via %s is in no subnet of NIC %s, which has %s. Correct via, or set on_link = true.",
			r.Via, n.Name, subnets(n))
	}
}
