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
//	bond NETDEV device | mode | miimon | lacp_rate | xmit_hash | min_links | member NETDEV
//	vlan NETDEV device | on | id | priority_map
//	sysctl PATH
//	route TABLE DST METRIC           (of the main table)
//	policy_route TABLE DST METRIC
//	policy_route rule PRIORITY TABLE FROM TO
//
// The value of an address is its prefix, that of a route or rule its description.

// Names reports whether the atom has one of the forms above.
func (nic) Names(a resource.Atom) bool {
	s, key := settingOf(a)
	_, err := netip.ParsePrefix(key)
	return s != nil && (s.get != nil || key != "") && (s.attribute != "address" || err == nil)
}

func (sysctl) Names(a resource.Atom) bool      { return reachable(a) }
func (mainRoute) Names(a resource.Atom) bool   { return reachable(a) }
func (policyRoute) Names(a resource.Atom) bool { return reachable(a) }

// reachable reports whether a backup can hold what the atom names.
func reachable(a resource.Atom) bool {
	_, err := new(backup).reach(nil, []resource.Atom{a})
	return err == nil
}

// Claims reports whether the block sets the value. A block with addresses claims every address of the NIC.
func (nic) Claims(snap *facts.Snapshot, want NICSpec, a resource.Atom) bool {
	l, err := snap.Find(want.Select)
	s, key := settingOf(a)
	if err != nil || l.Name != a.Thing() || s == nil {
		return false
	}
	_, declared := s.declared(want, key)
	return declared
}

// Undo has the disruption of the change itself, and reports a device that carries the operator's connection.
func (nic) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	l := snap.Link(a.Thing())
	s, key := settingOf(a)
	if l == nil || s == nil {
		return a.Change("", to), ""
	}
	c := s.change(l.Name, hardware(*l), key, s.value(snap, *l, key), to)
	return c, touches(snap, l, []resource.Change{c})
}

// ApplyUndo sets the value.
func (nic) ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	l := snap.Link(a.Thing())
	if l == nil { // a bond or VLAN that went before its settings
		return nil
	}
	return apply(ctx, h, *l, a.Change("", to))
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
func (sysctl) Title(a resource.Atom) string { return sysctlName(a.Thing()) }

// ApplyUndo writes the key.
func (sysctl) ApplyUndo(_ context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
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

// undoes names what an undo removes as plans name what they add: the atom has the numbers of it.
func undoes(c resource.Change) resource.Change {
	if c.Atom.Thing() == "rule" {
		c.Attribute = "rule"
		return c
	}
	dst, _, _ := strings.Cut(c.Atom.Value(), " ")
	c.Attribute = "route " + dst
	return c
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
		return fmt.Sprintf("route %s carries the replies of your %s to %s", r.Dst, m.Connection(), m.Client)
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

// Title returns the destination: all routes of the kind are in one table.
func (mainRoute) Title(a resource.Atom) string {
	dst, _, _ := strings.Cut(a.Value(), " ")
	return dst
}

// DeviceOf names the device that the route leads over; "" if it has several or is absent.
func (mainRoute) DeviceOf(snap *facts.Snapshot, a resource.Atom) string {
	return routeDevice(snap, KindRoute, a)
}

func routeDevice(snap *facts.Snapshot, kind string, a resource.Atom) string {
	if r := findRoute(snap, kind, a); r != nil {
		if l := snap.LinkByIndex(r.OutIndex); l != nil {
			return l.Name
		}
	}
	return ""
}

// live describes the route.
func (mainRoute) live(snap *facts.Snapshot, a resource.Atom) string {
	return liveRoute(snap, KindRoute, a)
}

// Undo removes the route, also in the place of an earlier one: as we replace no route of others, somebody has removed that one.
func (p mainRoute) Undo(snap *facts.Snapshot, a resource.Atom, _ string) (resource.Change, string) {
	return undoes(a.Change(p.live(snap, a), "")), guardsRoute(snap, KindRoute, a)
}

// ApplyUndo removes the route.
func (mainRoute) ApplyUndo(_ context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, _ string) error {
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

// Title returns the table, which a rule and its routes have in common.
func (policyRoute) Title(a resource.Atom) string {
	if words := strings.Fields(a.Value()); a.Thing() == "rule" && len(words) > 1 {
		return words[1]
	}
	return a.Thing()
}

// DeviceOf names the device that the route leads over, or that has the address which the rule is for; "" if there is none.
func (policyRoute) DeviceOf(snap *facts.Snapshot, a resource.Atom) string {
	if a.Thing() != "rule" {
		return routeDevice(snap, KindPolicyRoute, a)
	}
	if r := findRule(snap, a); r != nil {
		for _, addr := range snap.Addrs {
			if l := snap.LinkByIndex(addr.Index); l != nil && r.From.IsValid() && r.From.Contains(addr.Prefix.Addr()) {
				return l.Name
			}
		}
	}
	return ""
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
		return fmt.Sprintf("rule %s matches the replies of your %s", describeRule(*r), m.Connection())
	}
	return ""
}

// Undo removes the rule or route, as that of a route of the main table does.
func (p policyRoute) Undo(snap *facts.Snapshot, a resource.Atom, _ string) (resource.Change, string) {
	return undoes(a.Change(p.live(snap, a), "")), p.touches(snap, a)
}

// ApplyUndo removes the rule or route.
func (policyRoute) ApplyUndo(_ context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, _ string) error {
	if a.Thing() != "rule" {
		return revertRoute(h, snap, KindPolicyRoute, a)
	}
	if r := findRule(snap, a); r != nil {
		return h.DelRule(*r)
	}
	return nil
}
