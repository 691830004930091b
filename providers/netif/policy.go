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

// Protocol marks our routes and rules for a person's eye (`ip route show proto 251`). Numbers from
// 192 up are in no one's register (include/uapi/linux/rtnetlink.h), 251 is in none that we know of.
const Protocol = 251

// Address families and route constants of rtnetlink.
const (
	inet           = 2
	inet6          = 10
	unicast        = 1
	scopeLink      = 253
	protocolKernel = 2    // what the kernel itself makes, such as the route to an address's subnet
	metricIPv6     = 1024 // what the kernel gives IPv6 routes without a metric
	tableUnspec    = 0
	tableMain      = 254
	tableLocal     = 255
)

// PolicyRouteStatus is what is found of a rule and of its routes.
type PolicyRouteStatus struct {
	Rule bool
	routes
}

// Absent says that neither the rule nor one of its routes is there.
func (got *PolicyRouteStatus) Absent() bool { return !got.Rule && got.routes.Absent() }

type policyRoute struct{}

// Observe looks for the rule and for a route in each wanted place. A route that stands there and is
// not ours is an error: it has an owner who would be surprised.
func (policyRoute) Observe(snap *facts.Snapshot, want PolicyRouteSpec) (*PolicyRouteStatus, error) {
	if want.Table == tableUnspec || want.Table == tableLocal {
		return nil, fmt.Errorf("table %d is the kernel's own", want.Table)
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

// sameRule compares what a rule selects and where it leads; who made it does not matter.
func sameRule(a, b host.Rule) bool {
	return a.Priority == b.Priority && a.From == b.From && a.To == b.To && a.Table == b.Table && a.Family == b.Family &&
		a.IIF == "" && a.OIF == "" && a.Mark == 0 && !a.Other
}

// Diff adds what is missing and corrects our own routes that lead elsewhere.
func (policyRoute) Diff(want PolicyRouteSpec, got *PolicyRouteStatus) []resource.Change {
	if got == nil {
		return nil // the NIC stands for the resource's existence; Observe never answers nil
	}
	var out []resource.Change
	if !got.Rule {
		out = append(out, resource.Change{Attribute: "rule", To: describeRule(want.rule()), Atom: ruleAtom(want.rule())})
	}
	return append(out, got.diff(KindPolicyRoute, want.Table, want.Routes)...)
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

// Apply sets routes before the rule that leads to them: the other way round, traffic would meet an
// empty table for a moment and leave by the default route.
func (policyRoute) Apply(ctx context.Context, h host.Host, want PolicyRouteSpec, changes []resource.Change) error {
	if err := applyRoutes(ctx, h, want.NIC, want.Table, want.Routes, changes); err != nil {
		return err
	}
	if slices.ContainsFunc(changes, func(c resource.Change) bool { return c.Attribute == "rule" }) {
		return h.AddRule(want.rule())
	}
	return nil
}
