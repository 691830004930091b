package netif

import (
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
)

// step is one request to the kernel.
type step struct {
	remove bool
	object object
}

// steps returns the requests that turn the live objects into the wanted ones, place by place: it removes
// unexpected objects and those out of order, the latest first, then adds the missing ones in order.
func steps(want, live []object) []step {
	var places []string
	wanted, found := map[string][]object{}, map[string][]object{}
	for _, o := range want {
		places = append(places, o.place())
		wanted[o.place()] = append(wanted[o.place()], o)
	}
	for _, o := range live {
		places = append(places, o.place())
		found[o.place()] = append(found[o.place()], o)
	}
	var removals, additions []step
	seen := map[string]bool{}
	for _, p := range places {
		if seen[p] {
			continue
		}
		seen[p] = true
		gone, added := reorder(sortAsMade(wanted[p]), sortAsMade(found[p]))
		slices.Reverse(gone)
		for _, o := range gone {
			removals = append(removals, step{true, o})
		}
		for _, o := range added {
			additions = append(additions, step{false, o})
		}
	}
	return append(removals, additions...)
}

// sortAsMade sorts objects of one place in the order in which they were added. The kernel puts a new IPv6 address before
// those of the same scope (ipv6_link_dev_addr), and any other object behind its equals.
func sortAsMade(objects []object) []object {
	out := slices.Clone(objects)
	if len(out) > 0 && out[0].kernels() {
		slices.SortFunc(out, func(a, b object) int { return strings.Compare(a.same(), b.same()) })
		return out
	}
	if len(out) > 0 && out[0].kind == host.NewAddr && out[0].family() == inet6 {
		slices.Reverse(out)
	}
	return out
}

// kernels reports whether only the kernel can add the route, together with an IPv6 address: its metric is 0, which
// means 1024 in a request (ip6_route_info_create). Its order among equals does not matter.
func (o object) kernels() bool {
	return o.kind == host.NewRoute && o.family() == inet6 && o.table() == tableLocal && o.head[5] == protocolKernel &&
		o.number(rtaPriority) == 0
}

// reorder returns the objects to remove from live and those to append to the rest, so that the result equals want.
func reorder(want, live []object) (gone, added []object) {
	left := slices.Clone(want)
	var stays []object
	for _, o := range live {
		if i := slices.IndexFunc(left, func(w object) bool { return matches(o, w) }); i >= 0 {
			left = slices.Delete(left, i, i+1)
			stays = append(stays, o)
		} else {
			gone = append(gone, o)
		}
	}
	n := 0
	for n < len(stays) && matches(stays[n], want[n]) {
		n++
	}
	return append(gone, stays[n:]...), want[n:]
}

// matches reports whether the live object is the wanted one. An address that the kernel still probes, or that failed
// duplicate address detection, does not match one that was in use.
func matches(live, want object) bool {
	if live.same() != want.same() {
		return false
	}
	if want.kind != host.NewAddr || want.family() != inet6 {
		return true
	}
	idle := uint32(flagTentative | flagDADFailed)
	return want.flags()&idle != 0 || live.flags()&idle == 0
}
