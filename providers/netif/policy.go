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

// Protocol marks our routes and rules for a person's eye (`ip route show proto 251`). Numbers from
// 192 up are in no one's register (include/uapi/linux/rtnetlink.h), 251 is in none that we know of.
const Protocol = 251

// Address families and route constants of rtnetlink.
const (
	inet        = 2
	inet6       = 10
	unicast     = 1
	scopeLink   = 253
	metricIPv6  = 1024 // what the kernel gives IPv6 routes without a metric
	tableUnspec = 0
	tableLocal  = 255
)

// PolicyRouteStatus is what is found of a rule and of its routes.
type PolicyRouteStatus struct {
	Rule   bool
	Routes []*host.Route // as the spec's routes; nil where absent
	netdev string        // the device that the routes leave by
	index  int
}

type policyRoute struct{}

// Observe looks for the rule and for a route in each wanted place. A route that stands there and is
// not ours is an error: it has an owner who would be surprised.
func (policyRoute) Observe(snap *facts.Snapshot, want PolicyRouteSpec) (*PolicyRouteStatus, error) {
	if want.Table == tableUnspec || want.Table == tableLocal {
		return nil, fmt.Errorf("table %d is the kernel's own", want.Table)
	}
	l, err := snap.Find(want.NIC)
	if err != nil {
		return nil, err
	}
	got := &PolicyRouteStatus{netdev: l.Name, index: l.Index, Routes: make([]*host.Route, len(want.Routes))}
	for _, r := range snap.Rules {
		got.Rule = got.Rule || sameRule(r, want.rule())
	}
	for i, spec := range want.Routes {
		wanted := spec.route(want.Table, l.Index)
		for _, r := range snap.Routes {
			if r.Table != wanted.Table || r.Dst != wanted.Dst || r.Metric != wanted.Metric {
				continue
			}
			if !sameRoute(r, wanted) && r.Protocol != Protocol {
				return nil, fmt.Errorf("route %s in table %d: a route that fabricform did not make stands there (%s, proto %d); remove it, or choose another table or metric",
					r.Dst, r.Table, describe(r, snap), r.Protocol)
			}
			got.Routes[i] = &r
		}
	}
	return got, nil
}

func (s PolicyRouteSpec) family() int {
	for _, p := range []netip.Prefix{s.From, s.To} {
		if p.IsValid() && p.Addr().Is6() {
			return inet6
		}
	}
	if !s.From.IsValid() && !s.To.IsValid() && len(s.Routes) > 0 && s.Routes[0].To.Addr().Is6() {
		return inet6
	}
	return inet
}

func (s PolicyRouteSpec) rule() host.Rule {
	return host.Rule{Priority: s.Priority, From: s.From, To: s.To, Table: s.Table, Family: s.family(), Protocol: Protocol}
}

func (s RouteSpec) route(table, index int) host.Route {
	r := host.Route{Table: table, Dst: s.To.Masked(), Via: s.Via, Src: s.Src, OutIndex: index, Metric: s.Metric, Protocol: Protocol, Type: unicast, OnLink: s.OnLink}
	if s.To.Addr().Is6() {
		if r.Metric == 0 {
			r.Metric = metricIPv6
		}
	} else if !s.Via.IsValid() {
		r.Scope = scopeLink
	}
	return r
}

// sameRule compares what a rule selects and where it leads; who made it does not matter.
func sameRule(a, b host.Rule) bool {
	return a.Priority == b.Priority && a.From == b.From && a.To == b.To && a.Table == b.Table && a.Family == b.Family &&
		a.IIF == "" && a.OIF == "" && a.Mark == 0 && !a.Other
}

// sameRoute compares where a route leads. Scope follows from the rest, and IPv6 has none.
func sameRoute(a, b host.Route) bool {
	return a.Via == b.Via && a.Src == b.Src && a.OutIndex == b.OutIndex && a.Type == b.Type && a.OnLink == b.OnLink && a.NextHops == 0
}

// Diff adds what is missing and corrects our own routes that lead elsewhere.
func (policyRoute) Diff(want PolicyRouteSpec, got *PolicyRouteStatus) []resource.Change {
	if got == nil {
		return nil // the NIC stands for the resource's existence; Observe never answers nil
	}
	var out []resource.Change
	if !got.Rule {
		out = append(out, resource.Change{Attribute: "rule", To: describeRule(want.rule())})
	}
	for i, spec := range want.Routes {
		c := resource.Change{Attribute: "route " + spec.To.Masked().String(), To: spec.describe(got.netdev)}
		switch now := got.Routes[i]; {
		case now == nil:
			out = append(out, c)
		case !sameRoute(*now, spec.route(want.Table, got.index)):
			c.From = describeRoute(*now, "")
			out = append(out, c)
		}
	}
	return out
}

func describeRule(r host.Rule) string {
	from, to := "all", ""
	if r.From.IsValid() {
		from = r.From.String()
	}
	if r.To.IsValid() {
		to = " to " + r.To.String()
	}
	return fmt.Sprintf("from %s%s lookup %d priority %d", from, to, r.Table, r.Priority)
}

func (s RouteSpec) describe(netdev string) string {
	return describeRoute(host.Route{Via: s.Via, Src: s.Src, Metric: s.Metric, OnLink: s.OnLink}, netdev)
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
	if r.Metric != 0 && r.Metric != metricIPv6 {
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

// Apply sets routes before the rule that leads to them: the other way round, traffic would meet an
// empty table for a moment and leave by the default route.
func (policyRoute) Apply(_ context.Context, h host.Host, want PolicyRouteSpec, changes []resource.Change) error {
	snap, err := facts.Gather(h, "", facts.Needs{})
	if err != nil {
		return err
	}
	l, err := snap.Find(want.NIC)
	if err != nil {
		return err
	}
	for _, spec := range want.Routes {
		is := func(c resource.Change) bool { return c.Attribute == "route "+spec.To.Masked().String() }
		if slices.ContainsFunc(changes, is) {
			if err := h.ReplaceRoute(spec.route(want.Table, l.Index)); err != nil {
				return err
			}
		}
	}
	if slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == "rule" }) {
		return h.AddRule(want.rule())
	}
	return nil
}
