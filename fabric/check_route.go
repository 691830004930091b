package fabric

import (
	"net/netip"
	"slices"
)

// destination is a route's place in its table.
type destination struct {
	to     netip.Prefix
	metric int
}

// place is where the kernel keeps a route: IPv6 has no metric 0 (IP6_RT_PRIO_USER is 1024).
func place(r *Route) destination {
	if r.Metric == 0 && r.To.Addr().Is6() {
		return destination{r.To, 1024}
	}
	return destination{r.To, r.Metric}
}

func (c *checker) routes(h *Host) {
	names := map[destination]string{}
	inTable := map[int]map[destination]string{}
	for _, p := range h.Policy {
		if p.Invalid {
			continue
		}
		n := c.nics[p.NIC]
		if p.From.IsValid() && p.From.IsSingleIP() && settled(n) && !hostHas(h, p.From.Addr()) {
			c.errorf(p.At("from"), "Not an address of this host", "from %s is on no NIC of host %s. Use one of its addresses, such as nic.%s.ip.", p.From.Addr(), h.Name, p.NIC.NIC)
		}
		if p.From.IsValid() && p.To.IsValid() && p.From.Addr().Is4() != p.To.Addr().Is4() {
			c.errorf(p.At("to"), "Families differ", "from %s and to %s are of different families. Write a policy_route for each.", p.From, p.To)
		}
		for i := range p.Routes {
			r := &p.Routes[i]
			c.route(h, n, r)
			if inTable[p.Table] == nil {
				inTable[p.Table] = map[destination]string{}
			}
			key := place(r)
			if o := inTable[p.Table][key]; o != "" && !r.Invalid {
				c.errorf(r.At("to"), "Route stands twice", "policy_route %s and %s of host %s both lead to %s in table %d. Give each a table of its own, or another metric.", o, p.Name, h.Name, r.To, p.Table)
			}
			inTable[p.Table][key] = p.Name
			if p.From.IsValid() && r.To.IsValid() && !r.Invalid && p.From.Addr().Is4() != r.To.Addr().Is4() {
				c.errorf(r.At("to"), "Families differ", "The rule is from %s, and this route to %s: no packet takes it. Write a policy_route for each family.", p.From, r.To)
			}
		}
	}
	for _, r := range h.Routes {
		c.route(h, c.nics[r.NIC], &r.Route)
		c.connected(c.nics[r.NIC], r)
		key := place(&r.Route)
		if o := names[key]; o != "" && !r.Invalid {
			c.errorf(r.At("to"), "Route stands twice", "Routes %s and %s of host %s both lead to %s. Give one of them another metric.", o, r.Name, h.Name, r.To)
		}
		names[key] = r.Name
	}
}

// connected finds a route that the kernel makes by itself with the NIC's address.
func (c *checker) connected(n *NIC, r *MainRoute) {
	if n == nil || r.Invalid || r.Via.IsValid() || r.Metric != 0 {
		return
	}
	if slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Masked() == r.To }) {
		c.errorf(r.At("to"), "Route comes with the address", "%s is the subnet of NIC %s: the kernel makes this route with its address. Remove the block.", r.To, n.Name)
	}
}

// settled says whether the NIC's addresses are in the files: what the files do not say may be on
// the host.
func settled(n *NIC) bool { return n != nil && n.AddressesSet && !n.Invalid }

func (c *checker) route(h *Host, n *NIC, r *Route) {
	if r.Src.IsValid() && settled(n) && !hostHas(h, r.Src) {
		c.errorf(r.At("src"), "Not an address of this host", "src %s is on no NIC of host %s. Use one of its addresses, such as nic.%s.ip.", r.Src, h.Name, n.Name)
	}
	if r.Src.IsValid() && r.To.IsValid() && r.Src.Is4() != r.To.Addr().Is4() {
		c.errorf(r.At("src"), "Families differ", "to %s and src %s are of different families.", r.To, r.Src)
	}
	if r.Via.IsValid() && r.To.IsValid() && r.Via.Is4() != r.To.Addr().Is4() {
		c.errorf(r.At("via"), "Families differ", "to %s and via %s are of different families.", r.To, r.Via)
		return
	}
	if r.OnLink && !r.Via.IsValid() {
		c.errorf(r.At("on_link"), "on_link without a gateway", "on_link = true says that the gateway is reached directly, and this route has no via. Give it via, or leave on_link out.")
		return
	}
	if r.Via.IsValid() && hostHas(h, r.Via) {
		c.errorf(r.At("via"), "Gateway is this host", "via %s is an address of host %s itself. Use the neighbour's.", r.Via, h.Name)
		return
	}
	if r.OnLink || !r.Via.IsValid() || !settled(n) || r.Via.IsLinkLocalUnicast() {
		return
	}
	if !slices.ContainsFunc(n.Addresses, func(p netip.Prefix) bool { return p.Masked().Contains(r.Via) }) {
		c.errorf(r.At("via"), "Gateway out of reach", "via %s is on no subnet of NIC %s, which has %s. Correct it, or set on_link = true.", r.Via, n.Name, subnets(n))
	}
}
