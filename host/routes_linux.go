package host

import (
	"context"
	"fmt"
	"math"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

func (k kernel) Routes(_ context.Context) ([]Route, error) {
	var out []Route
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		found, err := retryDump("routes", func() ([]netlink.Route, error) {
			// RT_TABLE_UNSPEC with the table filter means all tables.
			return k.h.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		})
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			r.Family = family
			out = append(out, route(r))
		}
	}
	return out, nil
}

func route(r netlink.Route) Route {
	out := Route{
		Table: r.Table, Via: address(r.Gw), Src: address(r.Src), OutIndex: r.LinkIndex, Metric: r.Priority,
		Protocol: int(r.Protocol), Scope: int(r.Scope), Type: r.Type, OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0,
		NextHops: len(r.MultiPath),
		Further: r.MTU != 0 || r.AdvMSS != 0 || r.Window != 0 || r.Rtt != 0 || r.Ssthresh != 0 || r.Cwnd != 0 || r.InitCwnd != 0 || r.InitRwnd != 0 || r.Hoplimit != 0 ||
			r.RtoMin != 0 || r.QuickACK != 0 || r.Congctl != "" || r.Features != 0 || r.Realm != 0 || r.Tos != 0 || r.Encap != nil,
	}
	if p, ok := prefix(r.Dst); ok {
		out.Dst = p.Masked()
	} else if r.Family == unix.AF_INET6 {
		out.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	} else {
		out.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return out
}

func wanted(r Route) *netlink.Route {
	out := &netlink.Route{
		Table: r.Table, Dst: ipNet(r.Dst), LinkIndex: r.OutIndex, Priority: r.Metric,
		Protocol: netlink.RouteProtocol(r.Protocol), Scope: netlink.Scope(r.Scope), Type: r.Type,
	}
	if r.Via.IsValid() {
		out.Gw = r.Via.AsSlice()
	}
	if r.Src.IsValid() {
		out.Src = r.Src.AsSlice()
	}
	if r.OnLink {
		out.Flags |= int(netlink.FLAG_ONLINK)
	}
	return out
}

func (k kernel) ReplaceRoute(r Route) error {
	if err := k.h.RouteReplace(wanted(r)); err != nil {
		return fmt.Errorf("set route %s in table %d: %w", r.Dst, r.Table, err)
	}
	return nil
}

func (k kernel) DelRoute(r Route) error {
	if err := k.h.RouteDel(wanted(r)); err != nil {
		return fmt.Errorf("remove route %s from table %d: %w", r.Dst, r.Table, err)
	}
	return nil
}

func (k kernel) Rules(_ context.Context) ([]Rule, error) {
	var out []Rule
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		found, err := retryDump("rules", func() ([]netlink.Rule, error) { return k.h.RuleList(family) })
		if err != nil {
			return nil, err
		}
		for _, r := range found {
			out = append(out, rule(family, r))
		}
	}
	return out, nil
}

func rule(family int, r netlink.Rule) Rule {
	out := Rule{Priority: r.Priority, Table: r.Table, Family: family, Protocol: int(r.Protocol),
		IIF: r.IifName, OIF: r.OifName, Mark: r.Mark}
	out.From, _ = prefix(r.Src)
	out.To, _ = prefix(r.Dst)
	out.Other = r.Invert || r.Tos != 0 || r.TunID != 0 || r.Goto >= 0 || r.Sport != nil || r.Dport != nil || r.IPProto != 0 ||
		r.UIDRange != nil || r.Mask != nil && *r.Mask != math.MaxUint32 || r.SuppressPrefixlen >= 0 || r.SuppressIfgroup >= 0 || r.Type > 1
	return out
}

// AddRule adds a rule. The kernel refuses a second identical rule (NLM_F_EXCL).
func (k kernel) AddRule(r Rule) error {
	if err := k.h.RuleAdd(wantedRule(r)); err != nil {
		return fmt.Errorf("add rule %d to table %d: %w", r.Priority, r.Table, err)
	}
	return nil
}

func (k kernel) DelRule(r Rule) error {
	if err := k.h.RuleDel(wantedRule(r)); err != nil {
		return fmt.Errorf("remove rule %d from table %d: %w", r.Priority, r.Table, err)
	}
	return nil
}

func wantedRule(r Rule) *netlink.Rule {
	out := netlink.NewRule()
	out.Priority, out.Table, out.Family, out.Protocol = r.Priority, r.Table, r.Family, uint8(r.Protocol)
	out.Src, out.Dst = ipNet(r.From), ipNet(r.To)
	out.IifName, out.OifName, out.Mark = r.IIF, r.OIF, r.Mark // a mark without a mask is compared whole (fib_nl2rule)
	return out
}
