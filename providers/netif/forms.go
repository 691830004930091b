package netif

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// Attributes of rtnetlink (include/uapi/linux/{if_addr,rtnetlink,fib_rules,nexthop}.h).
const (
	ifaAddress, ifaLocal, ifaCacheInfo, ifaFlags = 1, 2, 6, 8

	rtaDst, rtaSrc, rtaOIF, rtaGateway, rtaPriority, rtaPrefSrc         = 1, 2, 4, 5, 6, 7
	rtaMultipath, rtaFlow, rtaCacheInfo, rtaTable, rtaVia, rtaEncapType = 9, 11, 12, 15, 18, 21
	rtaPref, rtaEncap, rtaExpires, rtaNexthop                           = 20, 22, 23, 30

	fraDst, fraSrc, fraPriority, fraProtocol = 1, 2, 6, 21

	nhaID, nhaGroup, nhaOIF, nhaGateway       = 1, 2, 5, 6
	ndaDst, ndaCacheInfo, ndaProbes           = 1, 3, 4
	nhaOpFlags, nhaGroupStats, nhaHWStatsUsed = 14, 15, 17
)

// Flags of addresses (IFA_F_*). Temporary and secondary share one bit; the family decides which it is.
const (
	flagTemporary = 0x01
	flagNoDAD     = 0x02
	flagDADFailed = 0x08
	flagTentative = 0x40
	// Flags that change by themselves: optimistic, deprecated, tentative.
	passingFlags = 0x04 | 0x20 | flagTentative
)

// The reported flags that the kernel accepts in a request. The others are states, such as RTNH_F_LINKDOWN and
// FIB_RULE_IIF_DETACHED, and fib_create_info refuses them.
const (
	routeFlags = 0x02 | 0x04 // RTNH_F_PERVASIVE, RTNH_F_ONLINK
	ruleFlags  = 0x01 | 0x02 // FIB_RULE_PERMANENT, FIB_RULE_INVERT
	cloned     = 0x200       // RTM_F_CLONED: a cached copy of a route
)

func u32(b []byte, at int) uint32          { return binary.NativeEndian.Uint32(b[at:]) }
func put32(b []byte, at int, v uint32)     { binary.NativeEndian.PutUint32(b[at:], v) }
func mask32(b []byte, at int, keep uint32) { put32(b, at, u32(b, at)&keep) }

// replayable returns the part of an object that the kernel accepts in a request.
func (o object) replayable() object {
	out := o.without()
	switch o.kind {
	case host.NewRoute:
		out = o.without(rtaCacheInfo)
		if o.get(rtaNexthop) != nil { // the kernel also reports the content of the nexthop object, but accepts only one of both
			out = out.without(rtaOIF, rtaGateway, rtaVia, rtaMultipath, rtaFlow, rtaEncap, rtaEncapType)
		}
		mask32(out.head, 8, routeFlags)
		hops(out.get(rtaMultipath), func(head, _ []byte) { head[2] &= routeFlags })
		if expires := o.expires(); expires > 0 {
			out.set(rtaExpires, uint32(expires))
		}
	case host.NewRule:
		mask32(out.head, 8, ruleFlags)
	case host.NewNeighbour:
		out = o.without(ndaCacheInfo, ndaProbes)
	case host.NewNexthop:
		out.head[1] = 0           // scope: rtm_to_nh_config accepts none
		mask32(out.head, 4, 0x04) // RTNH_F_ONLINK
		out = out.without(nhaOpFlags, nhaGroupStats, nhaHWStatsUsed)
	}
	return out
}

// expires is the remaining lifetime of an IPv6 route in seconds; 0 if it is infinite. rta_expires of struct
// rta_cacheinfo counts hundredths of a second.
func (o object) expires() int {
	if c := o.get(rtaCacheInfo); len(c) >= 12 && o.family() == inet6 {
		if n := int(int32(u32(c, 8))); n > 0 {
			return max(n/100, 1)
		}
	}
	return 0
}

// same identifies the state of an object: equal texts mean equal states. It ignores lifetimes.
func (o object) same() string {
	out := o.replayable()
	switch o.kind {
	case host.NewAddr:
		flags := o.flags() &^ passingFlags
		out = out.without(ifaCacheInfo)
		out.head[2] = 0
		out.set(ifaFlags, flags)
	case host.NewRoute:
		out = out.without(rtaExpires)
	}
	return string(out.encode())
}

// removal returns the request body that removes an object. A nexthop is removed by its ID alone.
func (o object) removal() object {
	out := o.replayable()
	if o.kind == host.NewNexthop {
		out.attrs = nil
		out.set(nhaID, o.number(nhaID))
	}
	return out
}

// flags returns the flags of an address.
func (o object) flags() uint32 {
	if b := o.get(ifaFlags); len(b) == 4 {
		return number(b)
	}
	return uint32(o.head[2])
}

// link is the device index of an address or a neighbour: both headers have it at offset 4.
func (o object) link() int { return int(u32(o.head, 4)) }

// permanent reports whether somebody set the neighbour by hand (NUD_PERMANENT). A link that goes down loses these
// as well as learned ones.
func (o object) permanent() bool { return binary.NativeEndian.Uint16(o.head[8:])&0x80 != 0 }

// place is the position of an object among others of its kind. Within a place, the order matters.
func (o object) place() string {
	switch o.kind {
	case host.NewAddr:
		if o.family() == inet6 { // the kernel sorts by scope (ipv6_link_dev_addr)
			return fmt.Sprintf("address %d %d scope %d", o.family(), o.link(), o.head[3])
		}
		return fmt.Sprintf("address %d %d", o.family(), o.link())
	case host.NewRoute:
		return fmt.Sprintf("route %s tos %d from %s", routePlace(o.family(), int(o.table()), o.prefix(rtaDst, 1),
			int(o.number(rtaPriority))), o.head[3], o.prefix(rtaSrc, 2))
	case host.NewNeighbour:
		return fmt.Sprintf("neighbour %d %s", o.link(), o.addr(ndaDst))
	case host.NewRule:
		return fmt.Sprintf("rule %d %d", o.family(), o.number(fraPriority))
	}
	return fmt.Sprintf("nexthop %d", o.number(nhaID))
}

// routePlace is a route's place as an atom names it.
func routePlace(family, table int, dst netip.Prefix, metric int) string {
	return fmt.Sprintf("%d %d %s %d", family, table, dst, metric)
}

// table is the table of a route or rule. Numbers above 255 are in an attribute, which is 15 for both.
func (o object) table() uint32 {
	if n := o.number(rtaTable); n != 0 {
		return n
	}
	return uint32(o.head[4])
}

// prefix joins an address attribute with its length at head[at]. Without the attribute it is the whole family.
func (o object) prefix(kind uint16, at int) netip.Prefix {
	a := o.addr(kind)
	if !a.IsValid() {
		if a = netip.IPv4Unspecified(); o.family() == inet6 {
			a = netip.IPv6Unspecified()
		}
	}
	return netip.PrefixFrom(a, int(o.head[at]))
}

// local is the host's own address. The address of a peer is in the other attribute.
func (o object) local() netip.Addr {
	if a := o.addr(ifaLocal); a.IsValid() {
		return a
	}
	return o.addr(ifaAddress)
}

// String describes an object for messages.
func (o object) String() string {
	switch o.kind {
	case host.NewAddr:
		return fmt.Sprintf("address %s", netip.PrefixFrom(o.local(), int(o.head[1])))
	case host.NewRoute:
		text := []string{"route", o.prefix(rtaDst, 1).String()}
		if via := o.addr(rtaGateway); via.IsValid() {
			text = append(text, "via "+via.String())
		}
		if o.get(rtaMultipath) != nil {
			text = append(text, "by several hops")
		}
		if id := o.number(rtaNexthop); id != 0 {
			text = append(text, fmt.Sprintf("nhid %d", id))
		}
		return strings.Join(append(text, fmt.Sprintf("table %d metric %d proto %d", o.table(), o.number(rtaPriority), o.head[5])), " ")
	case host.NewNeighbour:
		return fmt.Sprintf("neighbour %s", o.addr(ndaDst))
	case host.NewRule:
		return fmt.Sprintf("rule %d from %s to %s lookup %d", o.number(fraPriority), o.prefix(fraSrc, 2), o.prefix(fraDst, 1), o.table())
	}
	return fmt.Sprintf("nexthop %d", o.number(nhaID))
}
