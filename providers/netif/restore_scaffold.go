package netif

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"syscall"

	"github.com/fabricform/fabricform/host"
)

// scaffoldMetric is the highest metric, so that any other route wins.
const scaffoldMetric = 0xffffffff

// addByScaffold replays a route or nexthop whose gateway is not reachable on any link. The kernel checks the
// gateway only when a route is added, and keeps the route when the address that made it reachable is removed;
// so a backup may hold such a route. Temporary host routes to its gateways exist during the request.
func (r *restoration) addByScaffold(o object, send func() error) error {
	err := send()
	if !errors.Is(err, syscall.ENETUNREACH) && !errors.Is(err, syscall.EHOSTUNREACH) {
		return err
	}
	var up []object
	for _, g := range o.gateways() {
		s := scaffold(g.addr, g.index, o)
		if r.host.Send(host.NewRoute, host.Create|host.Excl, s.encode()) == nil {
			up = append(up, s)
		}
	}
	if len(up) > 0 {
		err = send()
	}
	for _, s := range up {
		err = errors.Join(err, r.host.Send(host.DelRoute, 0, s.encode()))
	}
	return err
}

type gateway struct {
	addr  netip.Addr
	index int // of the device
}

// gateways returns the gateways of a route or nexthop.
func (o object) gateways() []gateway {
	var out []gateway
	note := func(o object, index int, gatewayKind uint16) {
		a := o.addr(gatewayKind)
		if via := o.get(rtaVia); o.kind == host.NewRoute && len(via) > 2 { // a family, then its address
			a, _ = netip.AddrFromSlice(via[2:])
		}
		if a.IsValid() && index != 0 {
			out = append(out, gateway{a, index})
		}
	}
	if o.kind == host.NewNexthop {
		note(o, o.device(), nhaGateway)
		return out
	}
	note(o, o.device(), rtaGateway)
	hops(o.get(rtaMultipath), func(head, rest []byte) {
		if attrs, err := parseAttrs(rest); err == nil {
			note(object{kind: host.NewRoute, head: o.head, attrs: attrs}, int(u32(head, 4)), rtaGateway)
		}
	})
	return out
}

// scaffold returns a route to one address, in the table where the kernel looks for o's gateway first.
func scaffold(a netip.Addr, index int, o object) object {
	table := uint32(tableMain)
	if o.kind == host.NewRoute && a.Is4() == (o.family() == inet) {
		table = o.table()
	}
	head := make([]byte, headSizes[host.NewRoute])
	head[0], head[1], head[5], head[6], head[7] = inet, byte(a.BitLen()), Protocol, scopeLink, unicast
	if a.Is6() {
		head[0], head[6] = inet6, 0 // IPv6 has no scopes
	}
	out := object{kind: host.NewRoute, head: head, attrs: []attr{{rtaDst, a.AsSlice()}}}
	for _, n := range []struct {
		kind  uint16
		value uint32
	}{{rtaOIF, uint32(index)}, {rtaPriority, scaffoldMetric}, {rtaTable, table}} {
		out.attrs = append(out.attrs, attr{n.kind, binary.NativeEndian.AppendUint32(nil, n.value)})
	}
	return out
}
