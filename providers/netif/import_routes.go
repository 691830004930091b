package netif

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/fabricform/fabricform/host"
)

// kernelRoutes are the host's routes by their places, with what a host.Route does not hold. Place is the table, the destination and the
// metric: a fabric tells routes apart by nothing else.
type kernelRoutes map[string][]object

func readRoutes(ctx context.Context, r host.Reader) (kernelRoutes, error) {
	found, err := dump(ctx, r, host.GetRoutes)
	if err != nil {
		return nil, fmt.Errorf("read routes: %w", err)
	}
	out := kernelRoutes{}
	for _, o := range found {
		at := routePlace(o.family(), int(o.table()), o.prefix(rtaDst, 1), int(o.number(rtaPriority)))
		out[at] = append(out[at], o)
	}
	return out, nil
}

// at returns the routes with the place of r.
func (k kernelRoutes) at(r host.Route) []object {
	family := inet
	if r.Dst.Addr().Is6() {
		family = inet6
	}
	return k[routePlace(family, r.Table, r.Dst, r.Metric)]
}

// undeclared says what the route has that no block can declare, and without which it would be another route; "": nothing.
func (k kernelRoutes) undeclared(r host.Route) string {
	found := k.at(r)
	if len(found) > 1 {
		return "its table has another route with the same destination and metric"
	}
	for _, o := range found {
		switch {
		case o.get(rtaVia) != nil:
			return "its gateway is of another address family" + gatewayOf(o.get(rtaVia))
		case o.head[3] != 0:
			return fmt.Sprintf("it is for packets with TOS %#x alone", o.head[3])
		case o.head[2] != 0:
			return fmt.Sprintf("it is for packets from %s alone", o.prefix(rtaSrc, 2))
		case o.expires() > 0:
			return "it expires"
		}
	}
	return ""
}

// gatewayOf writes struct rtvia: a family of two bytes and an address (include/uapi/linux/rtnetlink.h).
func gatewayOf(via []byte) string {
	if len(via) > 2 {
		if a, ok := netip.AddrFromSlice(via[2:]); ok {
			return fmt.Sprintf(" (%s)", a)
		}
	}
	return ""
}

// preference is that of an IPv6 route, as ip(8) writes it; "" for the usual one, medium (ICMPV6_ROUTER_PREF_* in
// include/uapi/linux/icmpv6.h).
func (k kernelRoutes) preference(r host.Route) string {
	for _, o := range k.at(r) {
		if p := o.get(rtaPref); len(p) == 1 {
			return map[byte]string{1: "high", 3: "low"}[p[0]]
		}
	}
	return ""
}
