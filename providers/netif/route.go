package netif

import (
	"context"
	"fmt"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// MainRouteStatus is the found route with the wanted destination and metric.
type MainRouteStatus struct{ routes }

type mainRoute struct{}

// Observe looks for the route in the main table.
func (mainRoute) Observe(snap *facts.Snapshot, want MainRouteSpec) (*MainRouteStatus, error) {
	found, err := observeRoutes(snap, want.NIC, tableMain, []RouteSpec{want.Route})
	if err != nil {
		return nil, err
	}
	return &MainRouteStatus{*found}, nil
}

// Diff returns the change that adds the route, or that corrects our own.
func (mainRoute) Diff(want MainRouteSpec, got *MainRouteStatus) []resource.Change {
	if got == nil {
		return nil // Observe never returns nil
	}
	return got.diff(KindRoute, tableMain, []RouteSpec{want.Route})
}

// Present returns the route.
func (mainRoute) Present(want MainRouteSpec, got *MainRouteStatus) map[resource.Atom]string {
	return got.present(KindRoute, tableMain, []RouteSpec{want.Route})
}

// Apply adds or replaces the route.
func (mainRoute) Apply(ctx context.Context, h host.Host, want MainRouteSpec, changes []resource.Change) error {
	return applyRoutes(ctx, h, want.NIC, tableMain, []RouteSpec{want.Route}, changes)
}

// Touches refuses a route that would override the one that carries the replies to the operator.
func (mainRoute) Touches(snap *facts.Snapshot, want MainRouteSpec, _ []resource.Change) string {
	m := snap.Management
	if m.Unknown != "" || !m.Client.IsValid() {
		return unknownPath(snap)
	}
	if !want.Route.To.Masked().Contains(m.Client) {
		return ""
	}
	wanted := want.Route.route(tableMain, 0)
	for _, r := range snap.Routes {
		carries := r.Table == tableMain && r.Dst.Contains(m.Client) && r.OutIndex == m.Route.OutIndex
		if carries && (r.Dst.Bits() > wanted.Dst.Bits() || r.Dst.Bits() == wanted.Dst.Bits() && r.Metric < wanted.Metric) {
			return ""
		}
	}
	return fmt.Sprintf("route %s would carry the replies of your %s to %s", want.Route.To, m.Connection(), m.Client)
}
