package netif

import (
	"net/netip"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// TestMainRoutesKeepOffTheOperatorsPath: only a route that cannot win over the one that carries the
// answers to the operator is let through.
func TestMainRoutesKeepOffTheOperatorsPath(t *testing.T) {
	snap := &facts.Snapshot{
		Links:  []host.Link{{Index: 1, Name: "mgmt0"}, {Index: 2, Name: "ff0"}},
		Routes: []host.Route{{Table: 254, Dst: netip.MustParsePrefix("0.0.0.0/0"), OutIndex: 1, Metric: 100}, {Table: 254, Dst: netip.MustParsePrefix("10.0.0.0/16"), OutIndex: 1, Metric: 100}},
	}
	snap.Management = facts.Management{Client: netip.MustParseAddr("10.0.3.4"), Server: netip.MustParseAddr("10.0.0.2"), Devices: []string{"mgmt0"}, Route: snap.Routes[1]}
	for to, c := range map[string]struct {
		metric int
		fenced bool
	}{
		"10.20.0.0/16": {0, false}, // elsewhere
		"10.0.0.0/8":   {0, false}, // less specific than the path's
		"0.0.0.0/0":    {0, false}, // a default route does not win over 10.0.0.0/16
		"10.0.3.0/24":  {0, true},  // more specific
		"10.0.0.0/16":  {0, true},  // the same, and preferred
	} {
		got := mainRoute{}.Touches(snap, MainRouteSpec{NIC: facts.Selector{Netdev: "ff0"}, Route: RouteSpec{To: netip.MustParsePrefix(to), Metric: c.metric}}, nil)
		if (got != "") != c.fenced {
			t.Errorf("%s: %q", to, got)
		}
	}
	later := MainRouteSpec{Route: RouteSpec{To: netip.MustParsePrefix("10.0.0.0/16"), Metric: 200}}
	if got := (mainRoute{}).Touches(snap, later, nil); got != "" {
		t.Errorf("metric 200 stands behind metric 100: %s", got)
	}
	snap.Management.Unknown = "no route"
	if (mainRoute{}).Touches(snap, later, nil) == "" {
		t.Error("an unknown path is no reason to go on")
	}
}
