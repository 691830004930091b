package netif

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Protocol marks our routes and rules, so that people can list them (`ip route show proto 251`). The kernel
// registers no numbers from 192 up (include/uapi/linux/rtnetlink.h), and we know of no other user of 251.
const Protocol = 251

// Address families and route constants of rtnetlink.
const (
	inet           = 2
	inet6          = 10
	unicast        = 1
	scopeLink      = 253
	protocolKernel = 2    // of routes that the kernel adds, such as the route to the subnet of an address
	metricIPv6     = 1024 // default metric of IPv6 routes
	tableUnspec    = 0
	tableMain      = 254
	tableLocal     = 255
)

// PolicyRouteStatus is the found rule and its found routes.
type PolicyRouteStatus struct {
	Rule bool
	routes
}

// Absent reports whether neither the rule nor any of its routes exists.
func (got *PolicyRouteStatus) Absent() bool { return !got.Rule && got.routes.Absent() }

type policyRoute struct{}

// Observe looks for the rule and for each wanted route. A route with the same table, destination and metric that
// is not ours is an error, because somebody else needs it.
func (policyRoute) Observe(snap *facts.Snapshot, want PolicyRouteSpec) (*PolicyRouteStatus, error) {
	if want.Table == tableUnspec || want.Table == tableLocal {
		return nil, fmt.Errorf("table %d is reserved for the kernel; choose another table", want.Table)
	}
	found, err := observeRoutes(snap, want.NIC, want.Table, want.Routes)
	if err != nil {
		return nil, err
	}
	got := &PolicyRouteStatus{routes: *found}
	for _, r := range snap.Rules {
		got.Rule = got.Rule || sameRule(r, want.rule())
	}
	return got, nil
}

// Family is the address family of the rule, as AF_INET and AF_INET6.
func (s PolicyRouteSpec) Family() int {
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
	return host.Rule{Priority: s.Priority, From: s.From, To: s.To, Table: s.Table, Family: s.Family(), Protocol: Protocol}
}

// sameRule compares the selectors and the table of two rules, and ignores who made them.
func sameRule(a, b host.Rule) bool {
	return a.Priority == b.Priority && a.From == b.From && a.To == b.To && a.Table == b.Table && a.Family == b.Family &&
		a.IIF == "" && a.OIF == "" && a.Mark == 0 && !a.Other
}

// Diff returns the changes that add the missing rule and routes, and that correct our own routes.
func (policyRoute) Diff(want PolicyRouteSpec, got *PolicyRouteStatus) []resource.Change {
	if got == nil {
		return nil // Observe never returns nil
	}
	var out []resource.Change
	if !got.Rule {
		out = append(out, resource.Change{Attribute: "rule", To: describeRule(want.rule()), Atom: ruleAtom(want.rule())})
	}
	return append(out, got.diff(KindPolicyRoute, want.Table, want.Routes)...)
}

// Present returns the rule and its routes.
func (policyRoute) Present(want PolicyRouteSpec, got *PolicyRouteStatus) map[resource.Atom]string {
	out := got.present(KindPolicyRoute, want.Table, want.Routes)
	out[ruleAtom(want.rule())] = describeRule(want.rule())
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
	if r.Table != 0 { // others than lookups have none
		to += fmt.Sprintf(" lookup %d", r.Table)
	}
	return fmt.Sprintf("from %s%s priority %d", from, to, r.Priority)
}

// Apply adds routes before the rule: otherwise traffic would find an empty table for a moment and use the
// default route.
func (policyRoute) Apply(ctx context.Context, h host.Host, want PolicyRouteSpec, changes []resource.Change) error {
	if err := applyRoutes(ctx, h, want.NIC, want.Table, want.Routes, changes); err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == "rule" }) {
		return h.AddRule(want.rule())
	}
	return nil
}
