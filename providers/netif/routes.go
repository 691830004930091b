package netif

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// routes holds the found routes for the wanted ones of one device and one table.
type routes struct {
	Routes []*host.Route // in the order of the wanted ones; nil if absent
	netdev string        // the device that the routes leave by
	index  int
}

// Absent reports whether none of the routes exists.
func (got *routes) Absent() bool {
	return !slices.ContainsFunc(got.Routes, func(r *host.Route) bool { return r != nil })
}

// observeRoutes looks for each wanted route. A route with the same table, destination and metric that is not ours
// is an error, because somebody else needs it.
func observeRoutes(snap *facts.Snapshot, nic facts.Selector, table int, want []RouteSpec) (*routes, error) {
	l, err := snap.Find(nic)
	if err != nil {
		return nil, err
	}
	got := &routes{netdev: l.Name, index: l.Index, Routes: make([]*host.Route, len(want))}
	for i, spec := range want {
		wanted := spec.route(table, l.Index)
		for _, r := range snap.Routes {
			if r.Table != wanted.Table || r.Dst != wanted.Dst || r.Metric != wanted.Metric {
				continue
			}
			if !sameRoute(r, wanted) && r.Protocol != Protocol {
				return nil, foreign(r, snap)
			}
			got.Routes[i] = &r
		}
	}
	return got, nil
}

// foreign returns the error about a route that conflicts with a wanted one and is not ours.
func foreign(r host.Route, snap *facts.Snapshot) error {
	cure := "remove it, or choose another table or metric"
	switch {
	case r.Protocol == protocolKernel: // without it, the subnet of the NIC is unreachable
		cure = "the kernel added it for an address, so remove your route, or choose another metric"
	case r.Table == tableMain: // a route block names no table
		cure = "remove it, or choose another metric"
	}
	return fmt.Errorf("route %s in table %d: fabricform did not add the existing route (%s, proto %d); %s",
		r.Dst, r.Table, describe(r, snap), r.Protocol, cure)
}

func (s RouteSpec) route(table, index int) host.Route {
	r := host.Route{Table: table, Dst: s.To.Masked(), Via: s.Via, Src: s.Src, OutIndex: index, Metric: s.Metric, Protocol: Protocol,
		Type: unicast, OnLink: s.OnLink}
	if r.Metric == 0 {
		r.Metric = defaultMetric(r.Dst)
	}
	if s.To.Addr().Is4() && !s.Via.IsValid() {
		r.Scope = scopeLink
	}
	return r
}

// defaultMetric is the kernel's default metric of a route.
func defaultMetric(dst netip.Prefix) int {
	if dst.Addr().Is6() {
		return metricIPv6
	}
	return 0
}

// sameRoute compares the targets of two routes. It ignores the scope, which follows from the rest and which IPv6
// does not have.
func sameRoute(a, b host.Route) bool {
	return a.Via == b.Via && a.Src == b.Src && a.OutIndex == b.OutIndex && a.Type == b.Type && a.OnLink == b.OnLink && a.NextHops == 0
}

// diff returns the changes that add the missing routes and correct our own.
func (got *routes) diff(kind string, table int, want []RouteSpec) []resource.Change {
	var out []resource.Change
	for i, spec := range want {
		wanted := spec.route(table, got.index)
		c := resource.Change{Attribute: spec.attribute(), To: describeRoute(wanted, got.netdev), Atom: routeAtom(kind, wanted)}
		switch now := got.Routes[i]; {
		case now == nil:
			out = append(out, c)
		case !sameRoute(*now, wanted):
			c.From = describeRoute(*now, "")
			out = append(out, c)
		}
	}
	return out
}

// present returns the wanted routes, all of which exist.
func (got *routes) present(kind string, table int, want []RouteSpec) map[resource.Atom]string {
	out := map[resource.Atom]string{}
	for _, spec := range want {
		r := spec.route(table, got.index)
		out[routeAtom(kind, r)] = describeRoute(r, got.netdev)
	}
	return out
}

// attribute names the route in the changes of its resource.
func (s RouteSpec) attribute() string { return "route " + s.To.Masked().String() }

// changed reports whether the route is among the changes.
func (s RouteSpec) changed(changes []resource.Change) bool {
	return slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == s.attribute() })
}

func describeRoute(r host.Route, netdev string) string {
	var parts []string
	if r.Via.IsValid() {
		parts = append(parts, "via "+r.Via.String())
	}
	if netdev != "" {
		parts = append(parts, "dev "+netdev)
	}
	if r.Src.IsValid() {
		parts = append(parts, "src "+r.Src.String())
	}
	if r.Metric != defaultMetric(r.Dst) {
		parts = append(parts, fmt.Sprintf("metric %d", r.Metric))
	}
	if r.OnLink {
		parts = append(parts, "onlink")
	}
	if r.NextHops > 0 {
		parts = append(parts, fmt.Sprintf("%d next hops", r.NextHops))
	}
	return strings.Join(parts, " ")
}

func describe(r host.Route, snap *facts.Snapshot) string {
	name := ""
	if l := snap.LinkByIndex(r.OutIndex); l != nil {
		name = l.Name
	}
	return describeRoute(r, name)
}

// applyRoutes sets the routes that are among the changes.
func applyRoutes(ctx context.Context, h host.Host, nic facts.Selector, table int, want []RouteSpec, changes []resource.Change) error {
	snap, err := facts.Gather(ctx, h, facts.Connection{})
	if err != nil {
		return err
	}
	l, err := snap.Find(nic)
	if err != nil {
		return err
	}
	for _, spec := range want {
		if spec.changed(changes) {
			if err := h.ReplaceRoute(spec.route(table, l.Index)); err != nil {
				return err
			}
		}
	}
	return nil
}
