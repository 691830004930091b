package netif

import (
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/host"
)

// expired reports whether the lifetime of the object has ended since the backup. Leases of another boot are not
// restored, because the client that held them asks for new ones.
func (r *restoration) expired(o object) bool {
	left, mortal := o.remaining()
	return mortal && (r.age < 0 || left <= r.age)
}

// remaining is the lifetime that the object had left at the time of the backup; false if it was infinite.
func (o object) remaining() (time.Duration, bool) {
	if o.kind == host.NewRoute {
		return time.Duration(o.expires()) * time.Second, o.expires() > 0
	}
	c := o.get(ifaCacheInfo)
	if o.kind != host.NewAddr || len(c) < 8 || u32(c, 4) == forever {
		return 0, false
	}
	return time.Duration(u32(c, 4)) * time.Second, true
}

// forever is INFINITY_LIFE_TIME of include/net/addrconf.h.
const forever = 0xffffffff

// others reports whether a route is the kernel's own on a link that is not in the backup. Every link has some in
// the same places (fe80::/64, ff00::/8), and the kernel adds and removes them with the link.
func (r *restoration) others(o object) bool {
	return o.kind == host.NewRoute && o.head[5] == protocolKernel && o.device() != 0 && !r.backup.indexes()[o.device()]
}

// down reports whether the kernel removed such a route because its link is down.
func (r *restoration) down(o object) bool {
	up := func(l host.Link) bool { return l.Index == o.device() && l.Up }
	return r.others(o) && !r.lacksDevice(o) && !slices.ContainsFunc(r.links, up)
}

// kernelMade reports whether the kernel added the route by itself, together with an address or a link.
func (o object) kernelMade() bool { return o.kind == host.NewRoute && o.head[5] == protocolKernel }

// live omits routes that other links have added since, and, if the backup is of another boot, leased objects.
func (r *restoration) live(found objects) objects {
	came := func(o object) bool {
		return r.others(o) && !slices.ContainsFunc(r.want.routes,
			func(w object) bool { return w.place() == o.place() && w.same() == o.same() })
	}
	found.routes = slices.DeleteFunc(slices.Clone(found.routes), func(o object) bool { return came(o) || r.backup.Mixed && o.kernelMade() })
	if r.age >= 0 {
		return found
	}
	return r.without(found, func(o object) bool { _, mortal := o.remaining(); return mortal })
}

// without omits addresses and routes for which gone is true, and the routes that the kernel made for such
// addresses.
func (r *restoration) without(all objects, gone func(object) bool) objects {
	var lost, stay []object
	for _, o := range all.addrs {
		if gone(o) {
			lost = append(lost, o)
		} else {
			stay = append(stay, o)
		}
	}
	all.addrs = stay
	all.routes = slices.DeleteFunc(slices.Clone(all.routes), func(o object) bool {
		return gone(o) || o.head[5] == protocolKernel && followsFrom(o, lost) && !followsFrom(o, stay)
	})
	return all
}

// followsFrom reports whether the kernel adds the route together with one of the addresses: the routes to the address
// itself and to its network, and for IPv4 every route that prefers the address.
func followsFrom(route object, addrs []object) bool {
	dst := route.prefix(rtaDst, 1)
	return slices.ContainsFunc(addrs, func(a object) bool {
		if route.family() != a.family() {
			return false
		}
		if route.family() == inet {
			return route.addr(rtaPrefSrc) == a.local()
		}
		network := netip.PrefixFrom(a.addr(ifaAddress), int(a.head[1])).Masked()
		return route.device() == a.link() && (dst == network || dst == netip.PrefixFrom(a.local(), 128))
	})
}
