package planner

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/resource"
)

// kindConnection names the operator's own connection among what actions are about. It is no kind of
// the table: nothing of it is declared.
const kindConnection = "connection"

// movable says whether the operator's own path may be changed: where it is not known, it cannot be
// moved either.
func (in HostInput) movable() bool { return in.Management && in.Snapshot.Management.Unknown == "" }

// cure is what to do about a change that was refused because it touches the operator's own path.
func (in HostInput) cure() string {
	if in.Snapshot.Management.Unknown != "" {
		return "; -allow=management cannot move what is not known"
	}
	return "; -allow=management changes it: what is new is added and proven by a new connection before what is old is removed, and the host goes back by itself otherwise"
}

// Moves says whether the plan changes the operator's own path to the host.
func (h HostPlan) Moves() bool {
	return slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Op == Reconnect })
}

// MovesTo is the address by which the host is reached once the plan is made; invalid: as before.
func (h HostPlan) MovesTo() netip.Addr {
	for _, a := range h.Actions {
		if a.Op == Reconnect {
			return a.Via
		}
	}
	return netip.Addr{}
}

// migrate orders what touches the operator's own path: first what is new, then a new connection,
// then what is old goes. Nothing changes where no action touches it.
func (h *HostPlan) migrate(kinds resource.Kinds, in HostInput, ordered []resource.Resource) {
	if !slices.ContainsFunc(h.Actions, func(a Action) bool { return a.Touches != "" }) {
		return
	}
	early, late := halves(h.Actions)
	via, ok := h.way(in, early, late)
	if !ok {
		for _, a := range late {
			h.Problems = append(h.Problems, Problem{Addr: a.Resource.Addr, Pos: a.Resource.Pos, Message: fmt.Sprintf(
				"%s, and no other address of the host is declared that could take the place of %s; declare the new one beside it first", a.Touches, h.Management.Server)})
		}
		return
	}
	name := h.Management.Server
	if via.IsValid() {
		name = via
	}
	connection := resource.Resource{Addr: resource.Addr{Host: h.Name, Kind: kindConnection, Name: name.String()}}
	h.Actions = append(early, Action{Resource: connection, Op: Reconnect, Via: via})
	h.Actions = append(h.Actions, late...)
	// What stands on something that goes late may be dropped by the kernel with it.
	for _, r := range ordered {
		stands := func(a Action) bool { return slices.Contains(r.After, a.Resource.Addr) }
		kind, _ := kinds.Lookup(r.Addr.Kind)
		if kind.Stage == resource.StageRuntime && slices.ContainsFunc(late, stands) {
			h.Actions = append(h.Actions, Action{Resource: r, Op: Keep, Settling: true, Late: true})
		}
	}
}

// halves splits actions that touch the operator's own path into what they add and what they remove.
func halves(actions []Action) (early, late []Action) {
	for _, a := range actions {
		if a.Touches == "" {
			early = append(early, a)
			continue
		}
		removes := func(c resource.Change) bool { return c.Removes() }
		last := a
		last.Changes = slices.DeleteFunc(slices.Clone(a.Changes), func(c resource.Change) bool { return !c.Removes() })
		a.Later = last.Changes
		a.Changes = slices.DeleteFunc(slices.Clone(a.Changes), removes)
		if len(a.Changes)+len(a.Forget) > 0 {
			early = append(early, a)
			last.Forget = nil
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

// way is the address to come in by where the one that the operator uses goes: one that the same
// resource adds, or else one that another resource on the path adds, or one that stands on the path
// already and stays. It is not ok where there is none.
func (h *HostPlan) way(in HostInput, early, late []Action) (via netip.Addr, ok bool) {
	server, snap := h.Management.Server, in.Snapshot
	going := map[netip.Addr]bool{}
	loses := map[resource.Addr]bool{} // which resources lose it
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
			for _, x := range snap.Addrs { // a NIC that goes down takes its addresses out of reach
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
				if c.Address.IsValid() && fits(c.Address) && a.Touches != "" && loses[a.Resource.Addr] == own {
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
