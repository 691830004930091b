package planner

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/resource"
)

// kindConnection is the kind that Reconnect actions give the operator's own connection. It is not in the
// table of kinds, because connections are not declared.
const kindConnection = "connection"

// cure says what to do about a change that was refused because it touches the operator's own path.
func (in HostInput) cure() string {
	if in.Snapshot.Management.Unknown != "" {
		return "; -allow=management adds what is new, proves a new connection, then removes the rest; " +
			"if the proof fails or the connection is lost, the host reverts automatically"
	}
	return "; -allow=management adds the new path, proves it with a new connection, then removes the old one; " +
		"if the proof fails, the host reverts automatically"
}

// Moves says whether the plan changes the operator's own path to the host.
func (h HostPlan) Moves() bool {
	return slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Op == Reconnect })
}

// MovesTo is the address at which the host is reached once the plan is applied; invalid if it does not change.
func (h HostPlan) MovesTo() netip.Addr {
	for _, a := range h.Actions {
		if a.Op == Reconnect {
			return a.Via
		}
	}
	return netip.Addr{}
}

// migrate orders the actions that touch the operator's own path: first additions, then a new connection,
// then removals. Without such actions it changes nothing.
func (h *HostPlan) migrate(kinds resource.Kinds, in HostInput, ordered []resource.Resource) {
	if !slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Touches != "" }) {
		return
	}
	early, late := h.halves()
	via, ok := h.newAddress(in, early, late, beside(ordered, h.Actions))
	if !ok {
		for _, a := range late {
			h.Problems = append(h.Problems, Problem{Addr: a.Resource.Addr, Pos: a.Resource.Pos, Message: fmt.Sprintf(
				"%s, and no other declared address of the host can replace %s; declare the new address beside it first",
				a.Touches, h.Management.Server)})
		}
		return
	}
	name := cmp.Or(in.Address, h.Name) // an unknown path has no address to name
	switch {
	case via.IsValid():
		name = via.String()
	case h.Management.Server.IsValid():
		name = h.Management.Server.String()
	}
	connection := resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: kindConnection, Name: name}}
	h.Actions = append(early, Action{Resource: connection, Op: Reconnect, Via: via})
	h.Actions = append(h.Actions, late...)
	// With a late removal, the kernel may also drop parts of resources that refer to it.
	for _, r := range ordered {
		refers := func(a Action) bool { return slices.Contains(r.After, a.Resource.Addr) }
		kind, _ := kinds.Lookup(r.Addr.Kind)
		if kind.Stage == resource.StageRuntime && slices.ContainsFunc(late, refers) {
			h.Actions = append(h.Actions, Action{Resource: r, Op: Keep, Disturbed: true, Late: true})
		}
	}
}

// beside returns the resources whose changes touch the operator's own path, and what stands on them: a VLAN on that NIC, or a bond that gets it.
func beside(ordered []resource.Resource, actions []Action) map[resource.Addr]bool {
	out := map[resource.Addr]bool{}
	for _, a := range actions {
		out[a.Resource.Addr] = a.Touches != ""
	}
	for _, r := range ordered { // each comes after those that it refers to
		out[r.Addr] = out[r.Addr] || slices.ContainsFunc(r.After, func(after resource.Addr) bool { return out[after] })
	}
	return out
}

// ends reports whether a change may end the operator's connection: it removes something, or takes down a device of its path.
func (h *HostPlan) ends(c resource.Change) bool {
	m := h.Management
	return c.Removes() && (c.Downs == "" || m.Unknown != "" || slices.Contains(m.Devices, c.Downs))
}

// halves splits actions that touch the operator's own path into additions (early) and removals (late).
func (h *HostPlan) halves() (early, late []Action) {
	for _, a := range h.Actions {
		if a.Touches == "" {
			early = append(early, a)
			continue
		}
		last := a
		last.Changes = slices.DeleteFunc(slices.Clone(a.Changes), func(c resource.Change) bool { return !h.ends(c) })
		a.Later = last.Changes
		a.Changes = slices.DeleteFunc(slices.Clone(a.Changes), h.ends)
		if len(a.Changes)+len(a.Forget) > 0 {
			early = append(early, a)
			last.Forget, last.Kept = nil, nil
		}
		if len(last.Changes) > 0 {
			last.Late = true
			if last.Op == Create {
				last.Op = Update
			}
			late = append(late, last)
		}
	}
	return early, late
}

// newAddress chooses the address to reconnect to if the plan removes the one that the operator uses: one that
// the same resource adds, or else one that another resource on or beside the path adds, or one that is on the path
// already and remains. via is invalid if the used one remains; ok is false if there is no other address.
func (h *HostPlan) newAddress(in HostInput, early, late []Action, beside map[resource.Addr]bool) (via netip.Addr, ok bool) {
	server, snap := h.Management.Server, in.Snapshot
	going := map[netip.Addr]bool{}
	loses := map[resource.Addr]bool{} // the resources that lose the used address
	for _, a := range late {
		for _, c := range a.Changes {
			if c.Address.IsValid() {
				going[c.Address] = true
				loses[a.Resource.Addr] = loses[a.Resource.Addr] || c.Address == server
			}
			l := snap.Link(c.Downs)
			if l == nil {
				continue
			}
			for _, x := range snap.Addrs { // the addresses of a NIC that goes down are unreachable
				if x.Index == l.Index {
					going[x.Prefix.Addr()] = true
				}
			}
		}
	}
	if !going[server] {
		return netip.Addr{}, true
	}
	fits := func(a netip.Addr) bool { return a.Is4() == server.Is4() && !going[a] && !a.IsLinkLocalUnicast() }
	for _, own := range []bool{true, false} {
		for _, a := range early {
			for _, c := range a.Changes {
				if c.Address.IsValid() && fits(c.Address) && beside[a.Resource.Addr] && loses[a.Resource.Addr] == own {
					return c.Address, true
				}
			}
		}
	}
	for _, x := range snap.Addrs {
		l := snap.LinkByIndex(x.Index)
		if l != nil && x.Scope == 0 && slices.Contains(h.Management.Devices, l.Name) && fits(x.Prefix.Addr()) {
			return x.Prefix.Addr(), true
		}
	}
	return netip.Addr{}, false
}
