package netif

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// mainRouteOf is a route by ff0; an empty via or src is none.
func mainRouteOf(to, via, src string, metric int) MainRouteSpec {
	s := MainRouteSpec{NIC: facts.Selector{Netdev: "ff0"}, Route: RouteSpec{To: netip.MustParsePrefix(to), Metric: metric}}
	if via != "" {
		s.Route.Via = netip.MustParseAddr(via)
	}
	if src != "" {
		s.Route.Src = netip.MustParseAddr(src)
	}
	return s
}

// onFF0 is a host with the NIC ff0, its index 2, beside the management device, and these routes.
func onFF0(routes ...host.Route) *facts.Snapshot {
	return &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "mgmt0"}, {Index: 2, Name: "ff0"}}, Routes: routes}
}

// ours is the route that the spec asks for, as the kernel shows it, altered.
func ours(s MainRouteSpec, alter func(*host.Route)) host.Route {
	r := s.Route.route(tableMain, 2)
	alter(&r)
	return r
}

func TestMainRouteDiff(t *testing.T) {
	v4, v6 := mainRouteOf("10.0.0.0/8", "192.168.88.2", "192.168.88.1", 0), mainRouteOf("fd01::/64", "fd00::2", "", 0)
	asWanted := func(*host.Route) {}
	for name, c := range map[string]struct {
		want     MainRouteSpec
		found    []host.Route
		from, to string // of the one change; both empty: none
	}{
		"absent, IPv4":              {v4, nil, "", "via 192.168.88.2 dev ff0 src 192.168.88.1"},
		"absent, IPv6":              {v6, nil, "", "via fd00::2 dev ff0"},
		"a metric is shown":         {mainRouteOf("10.0.0.0/8", "", "", 1024), nil, "", "dev ff0 metric 1024"},
		"converged, IPv4":           {v4, []host.Route{ours(v4, asWanted)}, "", ""},
		"converged, IPv6":           {v6, []host.Route{{Table: 254, Dst: v6.Route.To, Via: v6.Route.Via, OutIndex: 2, Metric: 1024, Protocol: Protocol, Type: 1}}, "", ""},
		"another made the same":     {v4, []host.Route{ours(v4, func(r *host.Route) { r.Protocol = 4 })}, "", ""},
		"another gateway":           {v4, []host.Route{ours(v4, func(r *host.Route) { r.Via = netip.MustParseAddr("192.168.88.3") })}, "via 192.168.88.3 src 192.168.88.1", "via 192.168.88.2 dev ff0 src 192.168.88.1"},
		"another source":            {v4, []host.Route{ours(v4, func(r *host.Route) { r.Src = netip.Addr{} })}, "via 192.168.88.2", "via 192.168.88.2 dev ff0 src 192.168.88.1"},
		"on link by now":            {v6, []host.Route{ours(v6, func(r *host.Route) { r.OnLink = true })}, "via fd00::2 onlink", "via fd00::2 dev ff0"},
		"another device":            {v6, []host.Route{ours(v6, func(r *host.Route) { r.OutIndex = 1 })}, "via fd00::2", "via fd00::2 dev ff0"},
		"another metric is apart":   {v4, []host.Route{ours(v4, func(r *host.Route) { r.Metric, r.Protocol = 50, 4 })}, "", "via 192.168.88.2 dev ff0 src 192.168.88.1"},
		"another table is apart":    {v4, []host.Route{ours(v4, func(r *host.Route) { r.Table, r.Protocol = 100, 4 })}, "", "via 192.168.88.2 dev ff0 src 192.168.88.1"},
		"IPv6 metric 256 is apart":  {v6, []host.Route{ours(v6, func(r *host.Route) { r.Metric, r.Protocol = 256, 2 })}, "", "via fd00::2 dev ff0"},
		"host bits of to are masks": {mainRouteOf("10.1.2.3/8", "192.168.88.2", "192.168.88.1", 0), []host.Route{ours(v4, asWanted)}, "", ""},
	} {
		got, err := mainRoute{}.Observe(onFF0(c.found...), c.want)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		changes := mainRoute{}.Diff(c.want, got)
		switch {
		case c.from == "" && c.to == "":
			if len(changes) != 0 {
				t.Errorf("%s: %v", name, changes)
			}
		case len(changes) != 1 || changes[0].From != c.from || changes[0].To != c.to:
			t.Errorf("%s: %v", name, changes)
		}
	}
}

// TestForeignMainRoutesAreRefused: the message says what can be done about this one.
func TestForeignMainRoutesAreRefused(t *testing.T) {
	v4, v6, subnet := mainRouteOf("10.0.0.0/8", "192.168.88.2", "", 0), mainRouteOf("::/0", "fd00::2", "", 0), mainRouteOf("192.168.88.0/29", "", "", 0)
	for says, c := range map[string]struct {
		want  MainRouteSpec
		found host.Route
	}{
		"proto 4); remove it, or choose another metric":                                                {v4, ours(v4, func(r *host.Route) { r.Via, r.Protocol = netip.MustParseAddr("192.168.88.5"), 4 })},
		"proto 9); remove it, or choose another metric":                                                {v6, ours(v6, func(r *host.Route) { r.OutIndex, r.Protocol = 1, 9 })},
		"proto 2); the kernel added it for an address, so remove your route, or choose another metric": {subnet, ours(subnet, func(r *host.Route) { r.Src, r.Protocol = netip.MustParseAddr("192.168.88.1"), 2 })},
	} {
		if _, err := (mainRoute{}).Observe(onFF0(c.found), c.want); err == nil || !strings.HasSuffix(err.Error(), says) {
			t.Errorf("%v, not %q", err, says)
		}
	}
}

// TestMainRoutesKeepOffTheOperatorsPath: only a route that cannot win over the one that carries the
// answers to the operator is let through.
func TestMainRoutesKeepOffTheOperatorsPath(t *testing.T) {
	type route struct {
		to     string
		metric int
	}
	for name, c := range map[string]struct {
		client  string
		carries []route // on the management device
		want    route
		fenced  bool
	}{
		"elsewhere":                      {"10.0.3.4", []route{{"10.0.0.0/16", 100}}, route{"10.20.0.0/16", 0}, false},
		"less specific":                  {"10.0.3.4", []route{{"10.0.0.0/16", 100}}, route{"10.0.0.0/8", 0}, false},
		"default behind a specific one":  {"10.0.3.4", []route{{"0.0.0.0/0", 100}, {"10.0.0.0/16", 100}}, route{"0.0.0.0/0", 0}, false},
		"more specific":                  {"10.0.3.4", []route{{"10.0.0.0/16", 100}}, route{"10.0.3.0/24", 0}, true},
		"the same, preferred":            {"10.0.3.4", []route{{"10.0.0.0/16", 100}}, route{"10.0.0.0/16", 0}, true},
		"the same, behind":               {"10.0.3.4", []route{{"10.0.0.0/16", 100}}, route{"10.0.0.0/16", 200}, false},
		"the subnet itself at metric 0":  {"10.0.3.4", []route{{"10.0.0.0/16", 0}}, route{"10.0.0.0/16", 5}, false},
		"default wins":                   {"10.0.3.4", []route{{"0.0.0.0/0", 100}}, route{"0.0.0.0/0", 0}, true},
		"default replaces":               {"10.0.3.4", []route{{"0.0.0.0/0", 100}}, route{"0.0.0.0/0", 100}, true},
		"default stays behind":           {"10.0.3.4", []route{{"0.0.0.0/0", 100}}, route{"0.0.0.0/0", 101}, false},
		"no route of the table carries":  {"10.0.3.4", nil, route{"0.0.0.0/0", 500}, true},
		"the other family":               {"10.0.3.4", []route{{"0.0.0.0/0", 100}}, route{"::/0", 1}, false},
		"IPv6 default wins":              {"fd0b::5", []route{{"::/0", 1024}}, route{"::/0", 20}, true},
		"IPv6 default without a metric":  {"fd0b::5", []route{{"::/0", 1024}}, route{"::/0", 0}, true},
		"IPv6 without a metric, behind":  {"fd0b::5", []route{{"::/0", 100}}, route{"::/0", 0}, false},
		"IPv6 more specific":             {"fd0b::5", []route{{"::/0", 1024}}, route{"fd0b::/64", 0}, true},
		"IPv6 subnet at the kernel's":    {"fd0b::5", []route{{"fd0b::/64", 256}}, route{"fd0b::/64", 0}, false},
		"IPv6 default behind the subnet": {"fd0b::5", []route{{"fd0b::/64", 256}}, route{"::/0", 1}, false},
	} {
		snap := onFF0()
		for _, r := range c.carries {
			snap.Routes = append(snap.Routes, host.Route{Table: 254, Dst: netip.MustParsePrefix(r.to), OutIndex: 1, Metric: r.metric})
		}
		snap.Management = facts.Management{Client: netip.MustParseAddr(c.client), Devices: []string{"mgmt0"}, Route: host.Route{OutIndex: 1}}
		want := mainRouteOf(c.want.to, "", "", c.want.metric)
		if got := (mainRoute{}).Touches(snap, want, nil); (got != "") != c.fenced {
			t.Errorf("%s: %q", name, got)
		}
		snap.Management.Unknown = "no route"
		if (mainRoute{}).Touches(snap, want, nil) == "" {
			t.Errorf("%s: an unknown path is no reason to go on", name)
		}
	}
}

// TestFenceCountsTheManagementDeviceOnly: what another device or table has does not hold the path.
func TestFenceCountsTheManagementDeviceOnly(t *testing.T) {
	all := netip.MustParsePrefix("0.0.0.0/0")
	snap := onFF0(host.Route{Table: 254, Dst: netip.MustParsePrefix("10.0.0.0/16"), OutIndex: 2}, host.Route{Table: 100, Dst: all, OutIndex: 1}, host.Route{Table: 254, Dst: all, OutIndex: 1, Metric: 100})
	snap.Management = facts.Management{Client: netip.MustParseAddr("10.0.3.4"), Devices: []string{"mgmt0"}, Route: host.Route{OutIndex: 1}}
	if (mainRoute{}).Touches(snap, mainRouteOf("0.0.0.0/0", "", "", 50), nil) == "" {
		t.Error("the default route would win over the one of mgmt0")
	}
}

// TestAnUnknownPathMayGoOverAnyRouteOrRule: giving one back may cut it, too.
func TestAnUnknownPathMayGoOverAnyRouteOrRule(t *testing.T) {
	snap := onFF0()
	snap.Management = facts.Management{Unknown: "the login passed no SSH_CONNECTION"}
	route := host.Route{Table: 254, Dst: netip.MustParsePrefix("10.20.0.0/16"), OutIndex: 1}
	inTable := route
	inTable.Table = 100
	rule := host.Rule{Priority: 1000, Table: 100, From: netip.MustParsePrefix("10.0.3.4/32")}
	snap.Routes, snap.Rules = append(snap.Routes, route, inTable), append(snap.Rules, rule)
	for _, a := range []resource.Atom{routeAtom(KindPolicyRoute, inTable), ruleAtom(rule)} {
		if _, why := (policyRoute{}).Undo(snap, a, ""); !strings.Contains(why, "no SSH_CONNECTION") {
			t.Errorf("%s: %q", a, why)
		}
	}
	if _, why := (mainRoute{}).Undo(snap, routeAtom(KindRoute, route), ""); !strings.Contains(why, "no SSH_CONNECTION") {
		t.Errorf("a route of the main table: %q", why)
	}
	if why := (policyRoute{}).Touches(snap, PolicyRouteSpec{Table: 100, From: rule.From}, nil); why == "" {
		t.Error("a rule is no reason to stop")
	}
	if why := (sysctl{}).Touches(snap, SysctlSpec{Key: "net/ipv4/ip_forward"}, nil); why == "" {
		t.Error("a network sysctl is no reason to stop")
	}
}

// TestAnUndoPromisesNoRouteThatItDoesNotMake: where an adopted route was removed by hand, and ours is in its place, ours is removed.
func TestAnUndoPromisesNoRouteThatItDoesNotMake(t *testing.T) {
	ours := host.Route{Table: 254, Dst: netip.MustParsePrefix("10.20.0.0/16"), Via: netip.MustParseAddr("10.0.0.9"), OutIndex: 2, Protocol: Protocol}
	inTable := ours
	inTable.Table = 100
	snap := onFF0(ours, inTable)
	snap.Management = facts.Management{Client: netip.MustParseAddr("10.0.3.4")}
	first, _ := (mainRoute{}).Undo(snap, routeAtom(KindRoute, ours), "via 10.0.0.8 dev ff0")
	second, _ := (policyRoute{}).Undo(snap, routeAtom(KindPolicyRoute, inTable), "via 10.0.0.8 dev ff0")
	for _, c := range []resource.Change{first, second} {
		if c.From != "via 10.0.0.9 dev ff0" || c.To != "" {
			t.Errorf("%+v", c)
		}
	}
}

// TestADeviceThatComesUpIsFenced like an address: its left-over addresses get their routes then, unless they are removed in the same step.
func TestADeviceThatComesUpIsFenced(t *testing.T) {
	snap := &facts.Snapshot{Management: facts.Management{Client: netip.MustParseAddr("192.0.2.9"), Server: netip.MustParseAddr("192.0.2.1"), Devices: []string{"mgmt0"}},
		Links: []host.Link{{Index: 2, Name: "eth1"}, {Index: 3, Name: "eth2"}}, Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("192.0.2.7/28")}}}
	up := resource.Change{Attribute: "state", From: "down", To: "up"}
	gone := resource.Change{Attribute: "address", From: "192.0.2.7/28"}
	other := host.Addr{Index: 3, Prefix: netip.MustParsePrefix("192.0.2.8/28"), Peer: netip.MustParsePrefix("192.0.2.10/32")}
	for _, c := range []struct {
		netdev  string
		changes []resource.Change
		fenced  bool
		addrs   []host.Addr
	}{{"eth1", []resource.Change{up}, true, nil}, {"eth2", []resource.Change{up}, false, nil}, {"eth1", []resource.Change{gone, up}, false, nil},
		{"eth1", []resource.Change{{Attribute: "state", From: "up", To: "down"}}, false, nil}, {"eth2", []resource.Change{up}, true, []host.Addr{other}},
		{"eth2", []resource.Change{{Attribute: "address", From: other.String()}, up}, false, []host.Addr{other}}} {
		snap := *snap
		snap.Addrs = append(slices.Clone(snap.Addrs), c.addrs...)
		why := (nic{}).Touches(&snap, NICSpec{Select: facts.Selector{Netdev: c.netdev}}, c.changes)
		if (why != "") != c.fenced || c.fenced && !strings.HasSuffix(why, "once the device is up") {
			t.Errorf("%s %v: %q", c.netdev, c.changes, why)
		}
	}
}

// TestAnUndoNamesRoutesAndRulesAsPlansDo: not by the numbers of their atoms.
func TestAnUndoNamesRoutesAndRulesAsPlansDo(t *testing.T) {
	snap := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0"}},
		Routes: []host.Route{{Table: 254, Dst: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.0.0.1"), OutIndex: 2, Type: unicast}, {Table: 100, Dst: netip.MustParsePrefix("fd00::/8"), OutIndex: 2, Metric: 50, Type: unicast}},
		Rules:  []host.Rule{{Priority: 1000, Table: 100, From: netip.MustParsePrefix("10.0.0.1/32"), Family: inet}}}
	for atom, want := range map[resource.Atom]string{
		"route 254 0.0.0.0/0 0":                      "route 0.0.0.0/0 via 10.0.0.1 dev eth0",
		"policy_route 100 fd00::/8 50":               "route fd00::/8 dev eth0 metric 50",
		"policy_route rule 1000 100 10.0.0.1/32 all": "rule from 10.0.0.1/32 lookup 100 priority 1000",
		"policy_route rule 7 100 10.0.0.1/32 all":    "rule ",
		"policy_route 100 10.0.0.0/8 0":              "route 10.0.0.0/8 ",
	} {
		var c resource.Change
		if atom.Kind() == KindRoute {
			c, _ = mainRoute{}.Undo(snap, atom, "")
		} else {
			c, _ = policyRoute{}.Undo(snap, atom, "")
		}
		if got := c.Attribute + " " + c.From; got != want || c.To != "" || c.Atom != atom {
			t.Errorf("%s: %q, want %q", atom, got, want)
		}
	}
}
