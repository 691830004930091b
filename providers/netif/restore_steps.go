package netif

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/host"
)

// removers maps each request that adds an object to the one that removes it.
var removers = map[uint16]uint16{
	host.NewAddr: host.DelAddr, host.NewRoute: host.DelRoute, host.NewRule: host.DelRule, host.NewNexthop: host.DelNexthop,
	host.NewNeighbour: host.DelNeighbour,
}

// bring restores the objects of one kind. It first reads them again, because earlier steps may have removed some,
// and the kernel adds others together with addresses.
func (r *restoration) bring(ctx context.Context, what string, of func(objects) []object) {
	live, err := r.backup.find(ctx, r.host)
	if err != nil {
		r.note("restore "+what, err)
		return
	}
	todo := steps(of(r.want), of(r.live(live)))
	slices.SortStableFunc(todo, func(a, b step) int { return a.turn() - b.turn() })
	for _, s := range todo {
		switch {
		case s.remove:
			err := r.host.Send(removers[s.object.kind], 0, s.object.removal().encode())
			if !gone(err) {
				r.note("remove "+s.object.String()+r.on(s.object), err)
			}
		case !r.lacksDevice(s.object) && !s.object.kernels():
			r.note("restore "+s.object.String()+r.on(s.object), r.add(s.object))
		}
	}
}

// gone reports whether the error means that the object was already removed, with another one.
func gone(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// turn orders the steps: removals come first, and an object comes before those that refer to it: nexthops before
// their groups, routes on the link before routes with a gateway, which must be on some link.
func (s step) turn() int {
	o := s.object
	switch {
	case s.remove:
		return 0
	case o.kind == host.NewNexthop && o.get(nhaGroup) != nil:
		return 2
	case o.kind == host.NewRoute && (o.get(rtaGateway) != nil || o.get(rtaVia) != nil || o.get(rtaMultipath) != nil ||
		o.get(rtaNexthop) != nil):
		return 2
	}
	return 1
}

// add replays an object.
func (r *restoration) add(o object) error {
	o = r.ageLifetimes(o.replayable())
	flags := host.Create | host.Excl
	switch o.kind {
	case host.NewRoute:
		flags = host.Create | host.Append // after the remaining routes of its place
	case host.NewNeighbour:
		flags = host.Create | host.Replace // the kernel may have learned one meanwhile
	}
	probed := o.kind == host.NewAddr && o.family() == inet6 && o.flags()&(flagTentative|flagDADFailed|flagNoDAD) == 0
	if !probed {
		return r.addByScaffold(o, func() error { return r.host.Send(o.kind, flags, o.encode()) })
	}
	// The address was in use here a moment ago. Probing it again would delay its routes by seconds, so it is added
	// with nodad. The second request removes that flag; it does not count as a new address.
	quick := o.without()
	quick.set(ifaFlags, o.flags()|flagNoDAD)
	if err := r.host.Send(host.NewAddr, flags, quick.encode()); err != nil {
		return err
	}
	return r.host.Send(host.NewAddr, host.Create|host.Replace, o.encode())
}

// ageLifetimes reduces the lifetimes of an object by the time since the backup.
func (r *restoration) ageLifetimes(o object) object {
	if _, mortal := o.remaining(); !mortal && o.get(rtaExpires) == nil || r.age < 0 {
		return o
	}
	seconds := uint32(r.age / time.Second)
	if o.kind == host.NewRoute {
		o.set(rtaExpires, max(o.number(rtaExpires), seconds+1)-seconds)
		return o
	}
	c := o.get(ifaCacheInfo) // preferred and valid lifetime, then two time stamps; the kernel requires preferred <= valid
	for at := 0; at < 8; at += 4 {
		if v := u32(c, at); v != forever {
			put32(c, at, v-min(v, seconds))
		}
	}
	return o
}

// lacksDevice reports whether the device of an object is gone. Such a device is reported once.
func (r *restoration) lacksDevice(o object) bool {
	index := o.device()
	return index != 0 && !slices.ContainsFunc(r.links, func(l host.Link) bool { return l.Index == index })
}

// device is the index of the object's device; 0 if it has none or several.
func (o object) device() int {
	switch o.kind {
	case host.NewAddr, host.NewNeighbour:
		return o.link()
	case host.NewRoute:
		return int(o.number(rtaOIF))
	case host.NewNexthop:
		return int(o.number(nhaOIF))
	}
	return 0
}

// renumber returns the backup with the current indexes of its links, because a driver reload changes them. A
// link that is gone keeps its index, marked, so that no other link is mistaken for it.
func (k *backup) renumber(live []host.Link) (*backup, error) {
	out := *k
	to := map[int]int{}
	same := true
	for index, name := range k.Names {
		to[index] = index | vanished
		for _, l := range live {
			if l.Name == name {
				to[index] = l.Index
			}
		}
		same = same && to[index] == index
	}
	if same {
		return &out, nil
	}
	out.Names = map[int]string{}
	for index, name := range k.Names {
		out.Names[to[index]] = name
	}
	out.Links = slices.Clone(k.Links)
	for i, l := range out.Links {
		out.Links[i].Index = to[l.Index]
	}
	var errs []error
	redo := func(kind uint16, bodies [][]byte) [][]byte {
		objects, err := parseAll(kind, bodies)
		errs = append(errs, err)
		for _, o := range objects {
			o.renumber(to)
		}
		return encodeAll(objects)
	}
	out.Addrs, out.Nexthops = redo(host.NewAddr, k.Addrs), redo(host.NewNexthop, k.Nexthops)
	out.Neighbours = redo(host.NewNeighbour, k.Neighbours)
	out.Routes, out.Rules = redo(host.NewRoute, k.Routes), redo(host.NewRule, k.Rules)
	return &out, errors.Join(errs...)
}

// vanished marks the index of a link that is gone. The kernel counts indexes from 1 and never gets that high.
const vanished = 1 << 30

// renumber changes the object in place.
func (o object) renumber(to map[int]int) {
	set := func(b []byte) {
		if len(b) == 4 && to[int(u32(b, 0))] != 0 {
			put32(b, 0, uint32(to[int(u32(b, 0))]))
		}
	}
	switch o.kind {
	case host.NewAddr, host.NewNeighbour:
		set(o.head[4:8])
	case host.NewRoute:
		set(o.get(rtaOIF))
		hops(o.get(rtaMultipath), func(head, _ []byte) { set(head[4:8]) })
	case host.NewNexthop:
		set(o.get(nhaOIF))
	}
}
