package persist

import (
	"context"
	"errors"
	"slices"
	"syscall"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
)

// protocolKernel is RTPROT_KERNEL. networkd does not delete rules and routes with this protocol.
const protocolKernel = 2

// pledge adds a twin of each of our rules until release is called. When networkd takes up a link, it deletes every
// rule that it does not know, including those that it will add with the next link, and it also compares the
// protocol (seen with 257). Without the twin, traffic would use the main table for some 30 ms. The kernel allows
// rules that differ only in their protocol. The same applies to routes of netplan, whose files have no protocol.
func pledge(ctx context.Context, h host.Host, snap *facts.Snapshot, want Spec) (release func() error, err error) {
	ls, err := links(snap, want)
	if err != nil {
		return nil, err
	}
	var undo []func() error
	release = func() error {
		var errs []error
		for _, f := range undo {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	rules, err := twinRules(ctx, h, ls)
	if err != nil {
		return nil, err
	}
	for _, r := range rules {
		if err := h.AddRule(r); err != nil && !errors.Is(err, syscall.EEXIST) {
			return nil, errors.Join(err, release())
		}
		undo = append(undo, func() error { return h.DelRule(r) })
	}
	routes, err := twinRoutes(ctx, h, ls)
	if err != nil {
		return nil, errors.Join(err, release())
	}
	for _, r := range routes {
		if err := h.ReplaceRoute(r); err != nil {
			return nil, errors.Join(err, release())
		}
		undo = append(undo, func() error { return h.DelRoute(r) })
	}
	return release, nil
}

// twinRules returns twins of the live rules that a manager will take over, if it deletes the rules of others.
func twinRules(ctx context.Context, h host.Host, ls []netmanager.Link) ([]host.Rule, error) {
	live, err := h.Rules(ctx)
	if err != nil {
		return nil, err
	}
	var out []host.Rule
	for _, l := range ls {
		if !l.Written() || !l.By().DropsForeign {
			continue
		}
		for _, p := range l.Policies {
			twin := host.Rule{Priority: p.Priority, From: p.From, To: p.To, Table: p.Table, Family: p.Family(), Protocol: protocolKernel}
			if slices.ContainsFunc(live, func(o host.Rule) bool { o.Protocol = protocolKernel; return o == twin }) {
				out = append(out, twin)
			}
		}
	}
	return out, nil
}

// twinRoutes returns twins of the live routes that such a manager will replace, because the front did not pass on
// their protocol. The twins have the next higher metric, because IPv6 identifies a route by its metric and not by
// its protocol. An identical twin that exists already was left behind by a killed helper, and release removes it.
func twinRoutes(ctx context.Context, h host.Host, ls []netmanager.Link) ([]host.Route, error) {
	live, err := h.Routes(ctx)
	if err != nil {
		return nil, err
	}
	taken := func(r host.Route) bool {
		return slices.ContainsFunc(live,
			func(o host.Route) bool { return o.Table == r.Table && o.Dst == r.Dst && o.Metric == r.Metric && o != r })
	}
	var out []host.Route
	for _, l := range ls {
		if !l.Written() || !l.Manager.NoProtocol || !l.By().DropsForeign {
			continue
		}
		for _, r := range live {
			if r.OutIndex != l.Link.Index || r.Protocol != netif.Protocol {
				continue
			}
			r.Metric, r.Protocol = r.Metric+1, protocolKernel
			if !taken(r) {
				out = append(out, r)
			}
		}
	}
	return out, nil
}
