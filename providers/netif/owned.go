package netif

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Atoms of this package:
//
//	nic NETDEV mtu | state | sysctl KEY | address PREFIX
//	sysctl PATH
//	route TABLE DST METRIC           (of the main table)
//	policy_route TABLE DST METRIC
//	policy_route rule PRIORITY TABLE FROM TO
//
// The value of an address is its prefix, that of a route or rule its description.

func (got *NICStatus) atom(value string) resource.Atom { return nicAtom(got.Link, value) }

func nicAtom(l host.Link, value string) resource.Atom {
	return resource.NewAtom(KindNIC, l.Name, value)
}

// Claims reports whether the block sets the value. A block with addresses claims every address of the NIC.
func (nic) Claims(snap *facts.Snapshot, want NICSpec, a resource.Atom) bool {
	l, err := snap.Find(want.Select)
	if err != nil || l.Name != a.Thing() {
		return false
	}
	what, key, _ := strings.Cut(a.Value(), " ")
	switch what {
	case "mtu":
		return want.MTU != 0
	case "state":
		return true
	case "address":
		return want.AddressesSet
	case "sysctl":
		_, wanted := want.WantedSysctls()[key]
		return wanted
	}
	return false
}

// live returns the live value.
func (nic) live(snap *facts.Snapshot, a resource.Atom) string {
	l := snap.Link(a.Thing())
	if l == nil {
		return ""
	}
	what, rest, _ := strings.Cut(a.Value(), " ")
	switch what {
	case "mtu":
		return strconv.Itoa(l.MTU)
	case "state":
		return state(l.Up)
	case "sysctl":
		return snap.Sysctls[facts.LinkSysctl(rest, l.Name)]
	case "address":
		is := func(x host.Addr) bool { return x.Index == l.Index && x.Prefix.String() == rest }
		if slices.ContainsFunc(snap.Addrs, is) {
			return rest
		}
	}
	return ""
}

// Undo has the disruption of the change itself, and reports a device that carries the operator's connection.
func (p nic) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	c, l := a.Change(p.live(snap, a), to), snap.Link(a.Thing())
	if l == nil {
		return c, ""
	}
	switch what, prefix, _ := strings.Cut(a.Value(), " "); what {
	case "mtu":
		c.Disruption = flapOf(*l)
	case "state":
		c = stateChange(*l, to == state(true))
	case "address":
		if p, err := netip.ParsePrefix(prefix); err == nil {
			c.Attribute, c.Address = "address", p.Addr()
		}
	}
	return c, touches(snap, l, []resource.Change{c})
}

// Revert sets the value.
func (nic) Revert(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	l := snap.Link(a.Thing())
	if l == nil {
		return fmt.Errorf("device %s does not exist", a.Thing())
	}
	prefix, isAddress := strings.CutPrefix(a.Value(), "address ")
	if !isAddress {
		return applyLink(h, l, resource.Change{Attribute: a.Value(), To: to})
	}
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		return err
	}
	if to == "" {
		return changeAddresses(ctx, h, l.Index, nil, []netip.Prefix{p})
	}
	return changeAddresses(ctx, h, l.Index, []netip.Prefix{p}, nil)
}

// Claims reports whether the atom is this key.
func (sysctl) Claims(_ *facts.Snapshot, want SysctlSpec, a resource.Atom) bool {
	return a.Thing() == want.Path()
}

// live returns the live value of the key.
func (sysctl) live(snap *facts.Snapshot, a resource.Atom) string { return snap.Sysctls[a.Thing()] }

// Undo touches the operator's connection in the same cases as the wanted key.
func (p sysctl) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	c := a.Change(p.live(snap, a), to)
	c.Attribute = "value"
	return c, p.Touches(snap, SysctlSpec{Key: a.Thing()}, nil)
}

// Title returns the key as sysctl(8) prints it; the atom has its path.
func (sysctl) Title(path string) string { return sysctlName(path) }

// Revert writes the key.
func (sysctl) Revert(_ context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return h.SetSysctl(a.Thing(), to)
}

func routeAtom(kind string, r host.Route) resource.Atom {
	return resource.NewAtom(kind, strconv.Itoa(r.Table), r.Dst.String(), strconv.Itoa(r.Metric))
}

func ruleAtom(r host.Rule) resource.Atom {
	return resource.NewAtom(KindPolicyRoute, "rule", strconv.Itoa(r.Priority), strconv.Itoa(r.Table), all(r.From), all(r.To))
}

func all(p netip.Prefix) string {
	if !p.IsValid() {
		return "all"
	}
	return p.String()
}

// claimsRoute reports whether one of the wanted routes has the atom's table, destination and metric.
func claimsRoute(kind string, table int, want []RouteSpec, a resource.Atom) bool {
	return slices.ContainsFunc(want, func(s RouteSpec) bool { return routeAtom(kind, s.route(table, 0)) == a })
}

// findRoute returns the live route with the atom's table, destination and metric.
func findRoute(snap *facts.Snapshot, kind string, a resource.Atom) *host.Route {
	for i, r := range snap.Routes {
		if routeAtom(kind, r) == a {
			return &snap.Routes[i]
		}
	}
	return nil
}

func liveRoute(snap *facts.Snapshot, kind string, a resource.Atom) string {
	if r := findRoute(snap, kind, a); r != nil {
		return describe(*r, snap)
	}
	return ""
}

// guardsRoute reports routes that carry, or may carry, the replies to the operator.
func guardsRoute(snap *facts.Snapshot, kind string, a resource.Atom) string {
	m, r := snap.Management, findRoute(snap, kind, a)
	if r != nil && m.Unknown != "" {
		return unknownPath(snap)
	}
	if r != nil && m.Client.IsValid() && r.Dst.Contains(m.Client) && r.OutIndex == m.Route.OutIndex {
		return fmt.Sprintf("route %s carries the replies of your SSH connection to %s", r.Dst, m.Client)
	}
	return ""
}

// revertRoute removes our route. We add a route only where there was none before.
func revertRoute(h host.Host, snap *facts.Snapshot, kind string, a resource.Atom) error {
	if r := findRoute(snap, kind, a); r != nil {
		return h.DelRoute(*r)
	}
	return nil
}

// Claims reports whether the atom is this route.
func (mainRoute) Claims(_ *facts.Snapshot, want MainRouteSpec, a resource.Atom) bool {
	return claimsRoute(KindRoute, tableMain, []RouteSpec{want.Route}, a)
}

// live describes the route.
func (mainRoute) live(snap *facts.Snapshot, a resource.Atom) string {
	return liveRoute(snap, KindRoute, a)
}

// Undo removes the route.
func (p mainRoute) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), guardsRoute(snap, KindRoute, a)
}

// Revert removes the route.
func (mainRoute) Revert(_ context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, _ string) error {
	return revertRoute(h, snap, KindRoute, a)
}

// Claims reports whether the atom is the rule or a route of the block.
func (policyRoute) Claims(_ *facts.Snapshot, want PolicyRouteSpec, a resource.Atom) bool {
	return ruleAtom(want.rule()) == a || claimsRoute(KindPolicyRoute, want.Table, want.Routes, a)
}

func findRule(snap *facts.Snapshot, a resource.Atom) *host.Rule {
	for i, r := range snap.Rules {
		plain := r.IIF == "" && r.OIF == "" && r.Mark == 0 && !r.Other
		if plain && ruleAtom(r) == a {
			return &snap.Rules[i]
		}
	}
	return nil
}

// live describes the rule or route.
func (policyRoute) live(snap *facts.Snapshot, a resource.Atom) string {
	if a.Thing() != "rule" {
		return liveRoute(snap, KindPolicyRoute, a)
	}
	if r := findRule(snap, a); r != nil {
		return describeRule(*r)
	}
	return ""
}

// touches reports rules and routes that the replies to the operator use, or may use.
func (policyRoute) touches(snap *facts.Snapshot, a resource.Atom) string {
	if a.Thing() != "rule" {
		return guardsRoute(snap, KindPolicyRoute, a)
	}
	m, r := snap.Management, findRule(snap, a)
	if r != nil && m.Unknown != "" {
		return unknownPath(snap)
	}
	covers := func(p netip.Prefix, x netip.Addr) bool { return !p.IsValid() || p.Contains(x) }
	if r != nil && m.Client.IsValid() && covers(r.From, m.Server) && covers(r.To, m.Client) {
		return fmt.Sprintf("rule %s matches the replies of your SSH connection", describeRule(*r))
	}
	return ""
}

// Undo removes the rule or route.
func (p policyRoute) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), p.touches(snap, a)
}

// Revert removes the rule or route.
func (policyRoute) Revert(_ context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, _ string) error {
	if a.Thing() != "rule" {
		return revertRoute(h, snap, KindPolicyRoute, a)
	}
	if r := findRule(snap, a); r != nil {
		return h.DelRule(*r)
	}
	return nil
}
