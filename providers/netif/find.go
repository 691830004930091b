package netif

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// find lists the live objects that belong to the backup: those on its links, those that its atoms name, and
// all objects of each place where the backup has at least one.
func (k *backup) find(ctx context.Context, r host.Reader) (objects, error) {
	var found objects
	on := k.indexes()
	var err error
	if found.addrs, err = k.ourAddrs(ctx, r, on); err != nil {
		return found, err
	}
	neighbours, err := dump(ctx, r, host.GetNeighbours)
	if err != nil {
		return found, err
	}
	found.neighbours = slices.DeleteFunc(neighbours, func(o object) bool { return !on[o.link()] || !o.permanent() })
	nexthops, err := dump(ctx, r, host.GetNexthops)
	if err != nil {
		return found, err
	}
	found.nexthops = k.ourNexthops(nexthops, on)
	routes, err := dump(ctx, r, host.GetRoutes)
	if err != nil {
		return found, err
	}
	found.routes = k.ourRoutes(routes, found, on)
	rules, err := dump(ctx, r, host.GetRules)
	if err != nil {
		return found, err
	}
	found.rules = k.ourRules(rules)
	return found, nil
}

func (k *backup) ourAddrs(ctx context.Context, r host.Reader, on map[int]bool) ([]object, error) {
	addrs, err := dump(ctx, r, host.GetAddrs)
	return slices.DeleteFunc(addrs, func(o object) bool { return !on[o.link()] }), err
}

func (k *backup) indexes() map[int]bool {
	on := map[int]bool{}
	for _, l := range k.Links {
		on[l.Index] = true
	}
	return on
}

// ourNexthops returns the nexthops on a link of the backup, and their groups.
func (k *backup) ourNexthops(all []object, on map[int]bool) []object {
	ours := map[uint32]bool{}
	for _, o := range all {
		if on[int(o.number(nhaOIF))] {
			ours[o.number(nhaID)] = true
		}
	}
	for _, b := range k.Nexthops { // a nexthop that was lost with its link may have been in a group
		if o, err := parseObject(host.NewNexthop, b); err == nil {
			ours[o.number(nhaID)] = true
		}
	}
	return slices.DeleteFunc(all, func(o object) bool {
		for g := o.get(nhaGroup); len(g) >= 8; g = g[8:] { // struct nexthop_grp: an id in eight bytes
			if ours[u32(g, 0)] {
				return false
			}
		}
		return !ours[o.number(nhaID)]
	})
}

// sources returns the addresses of the links, now, at the time of the backup and as the atoms name them: the kernel
// removes routes that prefer a source address together with that address.
func (k *backup) sources(live []object) map[netip.Addr]bool {
	out := localAddresses(live)
	for _, b := range k.Addrs {
		if o, err := parseObject(host.NewAddr, b); err == nil {
			out[o.local()] = true
		}
	}
	for _, a := range k.Addresses {
		out[a] = true
	}
	delete(out, netip.Addr{})
	return out
}

func (k *backup) ourRoutes(all []object, found objects, on map[int]bool) []object {
	nexthops, places := map[uint32]bool{}, map[string]bool{}
	sources := k.sources(found.addrs)
	for _, o := range found.nexthops {
		nexthops[o.number(nhaID)] = true
	}
	for _, b := range k.Routes {
		if o, err := parseObject(host.NewRoute, b); err == nil {
			places[o.place()] = true
		}
	}
	for _, o := range all {
		named := slices.ContainsFunc(k.Places, func(p string) bool { return strings.HasPrefix(o.place(), "route "+p+" ") })
		by := on[int(o.number(rtaOIF))] || nexthops[o.number(rtaNexthop)] || sources[o.addr(rtaPrefSrc)]
		hops(o.get(rtaMultipath), func(head, _ []byte) { by = by || on[int(u32(head, 4))] })
		if named || by {
			places[o.place()] = true
		}
	}
	return slices.DeleteFunc(all, func(o object) bool { return !places[o.place()] })
}

// ourRules returns the rules with a named priority, with a named table, or for an address of the backup. The addresses of
// the moment do not count: a rule does not depend on its address, and would seem to come and go with it.
func (k *backup) ourRules(all []object) []object {
	ours := func(a netip.Addr) bool { return a.IsValid() && slices.Contains(k.Addresses, a) }
	return slices.DeleteFunc(all, func(o object) bool {
		return !slices.Contains(k.Priorities, int(o.number(fraPriority))) && !slices.Contains(k.Tables, int(o.table())) &&
			!ours(o.addr(fraSrc)) && !ours(o.addr(fraDst))
	})
}
