package netif

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// onManagement reports whether a device is part of the path of the operator's connection.
func onManagement(snap *facts.Snapshot, netdev string) bool {
	return slices.Contains(snap.Management.Devices, netdev)
}

// Touches refuses any change of a device that carries the operator's connection, and addresses on other
// devices that would divert the replies to the operator.
func (nic) Touches(snap *facts.Snapshot, want NICSpec, changes []resource.Change) string {
	l, err := snap.Find(want.Select)
	if err != nil {
		return "" // Observe reports the error
	}
	return touches(snap, l, changes)
}

// unknownPath refuses every change if the path of the operator's connection is unknown, since each may cut it.
func unknownPath(snap *facts.Snapshot) string {
	if why := snap.Management.Unknown; why != "" {
		return "the path of your own connection is unknown (" + why + "), and this may cut it"
	}
	return ""
}

func touches(snap *facts.Snapshot, l *host.Link, changes []resource.Change) string {
	m := snap.Management
	if m.Unknown != "" || !m.Client.IsValid() {
		return unknownPath(snap)
	}
	if onManagement(snap, l.Name) {
		return fmt.Sprintf("%s carries your %s (%s to %s)", l.Name, m.Connection(), m.Client, m.Server)
	}
	diverts := func(p netip.Prefix) string {
		if !p.Masked().Contains(m.Client) {
			return ""
		}
		return fmt.Sprintf("address %s on %s would divert the replies of your %s (to %s) from %s", p, l.Name, m.Connection(),
			m.Client, strings.Join(m.Devices, ", "))
	}
	for _, c := range changes {
		if a, err := host.ParseAddr(c.To); c.Attribute == "address" && err == nil && diverts(a.Prefix) != "" {
			return diverts(a.Prefix)
		}
		if c.Attribute != "state" || c.To != state(true) {
			continue
		}
		for _, a := range snap.Addrs { // a device that comes up gets the routes to its subnets
			removed := slices.ContainsFunc(changes, func(c resource.Change) bool {
				return c.Attribute == "address" && c.From == a.String() && c.To == ""
			})
			if why := diverts(a.Prefix); a.Index == l.Index && !removed && why != "" {
				return why + ", once the device is up"
			}
		}
	}
	return ""
}

// Touches refuses rules that match the replies to the operator, and routes in the tables that those replies
// use.
func (policyRoute) Touches(snap *facts.Snapshot, want PolicyRouteSpec, changes []resource.Change) string {
	m := snap.Management
	if m.Unknown != "" || !m.Client.IsValid() {
		return unknownPath(snap)
	}
	if (want.Family() == inet6) != m.Client.Is6() {
		return ""
	}
	covers := func(p netip.Prefix, a netip.Addr) bool { return !p.IsValid() || p.Masked().Contains(a) }
	if covers(want.From, m.Server) && covers(want.To, m.Client) {
		return fmt.Sprintf("rule %s matches the replies of your %s (%s to %s)", describeRule(want.rule()), m.Connection(), m.Server, m.Client)
	}
	leads := func(r host.Rule) bool {
		return r.Table == want.Table && r.Family == want.Family() && covers(r.From, m.Server) && covers(r.To, m.Client)
	}
	if !slices.ContainsFunc(snap.Rules, leads) {
		return ""
	}
	for _, r := range want.Routes {
		if r.To.Masked().Contains(m.Client) && r.changed(changes) {
			return fmt.Sprintf("route %s in table %d would carry the replies of your %s to %s", r.To, want.Table, m.Connection(), m.Client)
		}
	}
	return ""
}
