package netif

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// TestARouteThatNoBlockDeclaresIsLeftOut: with its reason, and the first plan of what is imported is empty. Routes that the kernel tells apart by their
// TOS or order, those with a gateway of another family, for packets from a source, and those that expire.
func TestARouteThatNoBlockDeclaresIsLeftOut(t *testing.T) {
	h := freshHost(t)
	subtrees := true
	for _, args := range []string{
		"link set ff1 up", "link set ff0 up", "addr add 10.1.0.1/24 dev ff0", "addr add fd00:9::1/64 dev ff0 nodad",
		"route add 10.40.0.0/24 via 10.1.0.254", "-6 route add fd40::/64 via fe80::9 dev ff0", "-6 route add fd41::/64 dev ff0 pref high",
		"route append 10.83.0.0/24 via 10.1.0.254", "route append 10.83.0.0/24 via 10.1.0.253",
		"route add 10.84.0.0/24 via 10.1.0.254", "route add 10.84.0.0/24 via 10.1.0.254 tos 8", "route add 10.64.0.0/24 dev ff0 tos 8",
		"route add 10.65.0.0/24 via inet6 fd00:9::2 dev ff0", "-6 route add fd66::/64 dev ff0 expires 1000", "-6 route add fd67::/64 from fd68::/64 dev ff0",
		"route add 10.40.0.0/24 via 10.1.0.254 table 100", "route add 10.65.0.0/24 via inet6 fd00:9::2 dev ff0 table 100",
		"rule add from 10.1.0.1 lookup 100 priority 10100", "rule add from 10.1.7.1 blackhole priority 10200",
	} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			if strings.Contains(args, " from fd68::") && strings.Contains(string(out), "not supported") { // a kernel without CONFIG_IPV6_SUBTREES
				subtrees = false
				continue
			}
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	snap, err := facts.Gather(t.Context(), h, facts.Connection{})
	must(t, err)
	snap.System.Lab = true // veths are its ports
	d := &resource.Draft{Snapshot: snap}
	var of resource.Kinds
	for _, k := range Kinds() {
		if k.Name == KindNIC || k.Name == KindRoute || k.Name == KindPolicyRoute {
			of = append(of, k)
		}
	}
	must(t, of.Import(t.Context(), h, d))
	var got strings.Builder
	seen := func(table int, to string, routes ...RouteSpec) {
		found, err := observeRoutes(snap, facts.Selector{Netdev: "ff0"}, table, routes)
		if err != nil {
			t.Errorf("the first plan is refused: %v", err)
		} else if changes := found.diff(KindRoute, table, routes); len(changes) > 0 {
			t.Errorf("the first plan is not empty: %s: %+v", to, changes)
		}
		fmt.Fprintf(&got, "%s in table %d\n", to, table)
	}
	for _, r := range d.Host.Routes {
		seen(tableMain, r.To.String(), RouteSpec{To: r.To, Via: r.Via, Metric: r.Metric})
	}
	for _, p := range d.Host.Policy {
		for _, r := range p.Routes {
			seen(p.Table, r.To.String(), RouteSpec{To: r.To, Via: r.Via, Metric: r.Metric})
		}
	}
	for _, r := range d.Remarks {
		if strings.HasPrefix(r.Text, "route ") || strings.HasPrefix(r.Text, "rule ") {
			got.WriteString(r.Text + "\n")
		}
	}
	want := `10.40.0.0/24 in table 254
fd40::/64 in table 254
fd41::/64 in table 254
10.40.0.0/24 in table 100
route 10.64.0.0/24 dev ff0: it is for packets with TOS 0x8 alone
route 10.65.0.0/24 dev ff0: its gateway is of another address family (fd00:9::2)
route 10.83.0.0/24 via 10.1.0.254 dev ff0: its table has another route with the same destination and metric
route 10.83.0.0/24 via 10.1.0.253 dev ff0: its table has another route with the same destination and metric
route 10.84.0.0/24 via 10.1.0.254 dev ff0: its table has another route with the same destination and metric
route 10.84.0.0/24 via 10.1.0.254 dev ff0: its table has another route with the same destination and metric
route fd41::/64 dev ff0: it is declared without its preference "high"
route fd66::/64 dev ff0: it expires
`
	if subtrees {
		want += "route fd67::/64 dev ff0: it is for packets from fd68::/64 alone\n"
	}
	want += `route 10.65.0.0/24 dev ff0 in table 100: its gateway is of another address family (fd00:9::2)
rule from 10.1.7.1/32 priority 10200: it leads to no table: it is a blackhole, unreachable, prohibit or nop rule
`
	if got.String() != want {
		t.Errorf("%s", got.String())
	}
}
