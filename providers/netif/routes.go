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

// routes are what is found in the places of wanted ones, on one device and in one table.
type routes struct {
	Routes []*host.Route // as the wanted ones; nil where absent
	netdev string        // the device that the routes leave by
	index  int
}

// Absent says that none of the routes is there.
func (got *routes) Absent() bool {
	return !slices.ContainsFunc(got.Routes, func(r *host.Route) bool { return r != nil })
}

// observeRoutes looks for a route in each wanted place. A route that stands there and is not ours
// is an error: it has an owner who would be surprised.
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

// foreign is the error about a route that is not ours and stands in a wanted one's place.
func foreign(r host.Route, snap *facts.Snapshot) error {
	cure := "remove it, or choose another table or metric"
	switch {
	case r.Protocol == protocolKernel: // without it the NIC's subnet is out of reach
		cure = "it came with an address, so leave yours out, or choose another metric"
	case r.Table == tableMain: // a route block names no table
		cure = "remove it, or choose another metric"
	}
	return fmt.Errorf("route %s in table %d: a route that fabricform did not make stands there (%s, proto %d); %s",
		r.Dst, r.Table, describe(r, snap), r.Protocol, cure)
}

func (s RouteSpec) route(table, index int) host.Route {
	r := host.Route{Table: table, Dst: s.To.Masked(), Via: s.Via, Src: s.Src, OutIndex: index, Metric: s.Metric, Protocol: Protocol, Type: unicast, OnLink: s.OnLink}
	if r.Metric == 0 {
		r.Metric = defaultMetric(r.Dst)
	}
	if s.To.Addr().Is4() && !s.Via.IsValid() {
		r.Scope = scopeLink
	}
	return r
}

// defaultMetric is what the kernel gives a route without a metric.
func defaultMetric(dst netip.Prefix) int {
	if dst.Addr().Is6() {
		return metricIPv6
	}
	return 0
}

// sameRoute compares where a route leads. Scope follows from the rest, and IPv6 has none.
func sameRoute(a, b host.Route) bool {
	return a.Via == b.Via && a.Src == b.Src && a.OutIndex == b.OutIndex && a.Type == b.Type && a.OnLink == b.OnLink && a.NextHops == 0
}

// diff adds what is missing and corrects our own routes that lead elsewhere.
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

// attribute names the route among its resource's changes.
func (s RouteSpec) attribute() string { return "route " + s.To.Masked().String() }

// changed says whether the route is among the changes.
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

// applyRoutes makes those routes that are among the changes.
func applyRoutes(ctx context.Context, h host.Host, nic facts.Selector, table int, want []RouteSpec, changes []resource.Change) error {
	snap, err := facts.Gather(ctx, h, "")
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
