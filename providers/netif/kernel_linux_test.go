package netif

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

// freshHost gives a host in a network namespace of its own, with the veth pair ff0, ff1. Its thread
// is never unlocked: the runtime ends it with the test's goroutine, and the namespace with it.
func freshHost(t *testing.T) host.Host {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("kernel tests need root, and CI must have it")
		}
		t.Skip("kernel tests need root")
	}
	runtime.LockOSThread()
	before := netns(t)
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatal(err)
	}
	if netns(t) == before {
		t.Fatal("still in the machine's own network namespace")
	}
	h, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "ff0"}, PeerName: "ff1"}))
	must(t, h.SetSysctl("net/ipv4/conf/all/promote_secondaries", "0"))
	must(t, h.SetSysctl("net/ipv4/conf/ff0/promote_secondaries", "0"))
	return h
}

func netns(t *testing.T) string {
	t.Helper()
	ns, err := os.Readlink("/proc/thread-self/ns/net")
	must(t, err)
	return ns
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func plan(t *testing.T, h host.Host, kind string, spec any) (resource.Difference, resource.Kind, json.RawMessage) {
	t.Helper()
	raw, err := json.Marshal(spec)
	must(t, err)
	k, _ := Kinds().Lookup(kind)
	snap, err := Kinds().Gather(t.Context(), h, resource.Query{Resources: []resource.Resource{{Addr: resource.Addr{Kind: kind}, Spec: raw}}})
	must(t, err)
	d, err := k.Plan(snap, raw)
	must(t, err)
	return d, k, raw
}

// converge plans, applies, and expects the next plan to be empty.
func converge(t *testing.T, h host.Host, kind string, spec any) {
	t.Helper()
	d, k, raw := plan(t, h, kind, spec)
	if err := k.Apply(context.Background(), h, raw, d.Changes); err != nil {
		t.Fatalf("apply %v: %v", d.Changes, err)
	}
	if d, _, _ := plan(t, h, kind, spec); len(d.Changes) != 0 {
		t.Fatalf("after apply the plan still says %v", d.Changes)
	}
}

func TestKernelConformance(t *testing.T) {
	changed := wantNIC("ff0", "192.168.88.9/29", "fd00::9/64")
	changed.MTU, changed.Sysctl = 9000, map[string]string{"ipv4.conf.arp_ignore": "1"}
	for kind, spec := range map[string]any{
		KindNIC:         changed,
		KindSysctl:      SysctlSpec{Key: "net.ipv4.tcp_rmem", Value: "4096 131072 6291456"},
		KindRoute:       mainRouteOf("10.0.0.0/8", "192.168.88.3", "", 50),
		KindPolicyRoute: policyOf("192.168.88.2", 0),
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			converge(t, h, KindNIC, wantNIC("ff1"))
			converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29"))
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: kind, Host: h, Spec: spec, There: kind == KindNIC || kind == KindSysctl})
		})
	}
}

func wantNIC(name string, addrs ...string) NICSpec {
	s := NICSpec{Select: facts.Selector{Netdev: name}, Up: true, AddressesSet: true}
	for _, a := range addrs {
		s.Addresses = append(s.Addresses, netip.MustParsePrefix(a))
	}
	return s
}

func TestKernelSettlesAddresses(t *testing.T) {
	for name, steps := range map[string][][]string{
		"exact set":                             {{"192.168.88.1/30"}, {"192.168.89.1/30"}, {}},
		"wider prefix, same IPv4 address":       {{"192.168.88.1/30"}, {"192.168.88.1/24"}},
		"wider prefix, same IPv6 address":       {{"fd00::1/64"}, {"fd00::1/126"}},
		"all of one subnet removed":             {{"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24"}, {}},
		"primary removed, secondary kept":       {{"10.0.0.1/24", "10.0.0.2/24"}, {"10.0.0.2/24"}},
		"IPv4 link-local addresses declared":    {{"169.254.7.1/30"}},
		"both families, after duplicate checks": {{"10.0.0.1/24", "fd00::1/64"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			converge(t, h, KindNIC, wantNIC("ff1"))
			for _, addrs := range steps {
				converge(t, h, KindNIC, wantNIC("ff0", addrs...))
			}
		})
	}
}

// TestKernelKeepsSecondariesOfAnAddressGivenBack: without promote_secondaries the kernel takes them
// along with the first address of their subnet (net/ipv4/devinet.c, __inet_del_ifa).
func TestKernelKeepsSecondariesOfAnAddressGivenBack(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	links, err := h.Links(t.Context())
	must(t, err)
	index := links[slices.IndexFunc(links, func(l host.Link) bool { return l.Name == "ff0" })].Index
	for _, a := range []string{"10.0.0.1/24", "10.0.0.2/24", "10.0.0.3/24", "10.1.0.1/24"} {
		must(t, h.AddAddr(host.Addr{Index: index, Prefix: netip.MustParsePrefix(a)}))
	}
	snap, err := facts.Gather(t.Context(), h, facts.Connection{})
	must(t, err)
	must(t, nic{}.ApplyUndo(t.Context(), h, snap, resource.NewAtom(KindNIC, "ff0", "address 10.0.0.1/24"), ""))
	var left []string
	addrs, err := h.Addrs(t.Context())
	must(t, err)
	for _, a := range addrs {
		if a.Index == index && a.Prefix.Addr().Is4() {
			left = append(left, a.Prefix.String())
		}
	}
	slices.Sort(left)
	if got := strings.Join(left, " "); got != "10.0.0.2/24 10.0.0.3/24 10.1.0.1/24" {
		t.Errorf("left: %s", got)
	}
}

// TestKernelKeepsRoutesOfOthers: without promote_secondaries, a NIC has no IPv4 address for a moment, and the kernel removes all IPv4 routes
// of a NIC that has none (fib_disable_ip in net/ipv4/fib_frontend.c).
func TestKernelKeepsRoutesOfOthers(t *testing.T) {
	const others = "172.16.0.0/16"
	for name, remove := range map[string]func(*testing.T, host.Host){
		"apply": func(t *testing.T, h host.Host) { converge(t, h, KindNIC, wantNIC("ff0", "10.0.2.9/24")) },
		"apply, another address of the subnet instead": func(t *testing.T, h host.Host) {
			converge(t, h, KindNIC, wantNIC("ff0", "10.0.2.7/24"))
		},
		"undo": func(t *testing.T, h host.Host) {
			snap, err := facts.Gather(t.Context(), h, facts.Connection{})
			must(t, err)
			must(t, nic{}.ApplyUndo(t.Context(), h, snap, resource.NewAtom(KindNIC, "ff0", "address 10.0.2.1/24"), ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			converge(t, h, KindNIC, wantNIC("ff1"))
			converge(t, h, KindNIC, wantNIC("ff0", "10.0.2.1/24", "10.0.2.9/24"))
			theirs := host.Route{Table: tableMain, Dst: netip.MustParsePrefix(others), Via: netip.MustParseAddr("10.0.2.254"), OnLink: true,
				OutIndex: link(t, h, "ff0"), Protocol: 4, Type: 1}
			must(t, h.ReplaceRoute(theirs))
			remove(t, h)
			routes, err := h.Routes(t.Context())
			must(t, err)
			if !slices.ContainsFunc(routes, func(r host.Route) bool { return r.Dst == theirs.Dst }) {
				t.Errorf("the route of others is gone; left are %v", routes)
			}
			if now, err := h.Sysctl(t.Context(), "net/ipv4/conf/ff0/promote_secondaries"); err != nil || now != "0" {
				t.Errorf("promote_secondaries is %q, was 0 (%v)", now, err)
			}
		})
	}
}

// TestKernelRemovesAnAddressWithAPeer: the kernel wants the other end in the request (inet_rtm_deladdr in net/ipv4/devinet.c, inet6_addr_del in
// net/ipv6/addrconf.c). The way back restores it.
func TestKernelRemovesAnAddressWithAPeer(t *testing.T) {
	for prefix, peer := range map[string]string{"10.0.1.1/32": "10.0.1.2/32", "fd01::1/128": "fd01::2/128"} {
		t.Run(prefix, func(t *testing.T) {
			t.Parallel()
			h := freshHost(t)
			converge(t, h, KindNIC, wantNIC("ff1"))
			theirs := host.Addr{Index: link(t, h, "ff0"), Prefix: netip.MustParsePrefix(prefix), Peer: netip.MustParsePrefix(peer)}
			must(t, h.AddAddr(theirs))
			atom := resource.NewAtom(KindNIC, "ff0", "address "+prefix)
			d, _, _ := plan(t, h, KindNIC, wantNIC("ff0", prefix))
			if i := slices.IndexFunc(d.Changes, func(c resource.Change) bool { return c.Attribute == "address" }); i >= 0 {
				t.Fatalf("the address is as declared, and the plan says %v", d.Changes[i])
			}
			converge(t, h, KindNIC, wantNIC("ff0", prefix))
			if d, _, _ = plan(t, h, KindNIC, wantNIC("ff0", prefix)); d.Present[atom] != prefix+" peer "+peer {
				t.Errorf("adopted as %q", d.Present[atom])
			}
			d, _, _ = plan(t, h, KindNIC, wantNIC("ff0", "10.0.7.1/24"))
			if !slices.ContainsFunc(d.Changes, func(c resource.Change) bool { return c.Atom == atom && c.From == prefix+" peer "+peer && c.To == "" }) {
				t.Errorf("the plan does not name the peer: %v", d.Changes)
			}
			converge(t, h, KindNIC, wantNIC("ff0", "10.0.7.1/24"))
			snap, err := facts.Gather(t.Context(), h, facts.Connection{})
			must(t, err)
			must(t, nic{}.ApplyUndo(t.Context(), h, snap, atom, prefix+" peer "+peer))
			addrs, err := h.Addrs(t.Context())
			must(t, err)
			if !slices.ContainsFunc(addrs, func(a host.Addr) bool { return a.Prefix == theirs.Prefix && a.Peer == theirs.Peer }) {
				t.Errorf("not restored: %v", addrs)
			}
			snap, err = facts.Gather(t.Context(), h, facts.Connection{})
			must(t, err)
			if c, _ := (nic{}).Undo(snap, atom, ""); c.From != prefix+" peer "+peer {
				t.Errorf("an undo finds %q", c.From)
			}
			must(t, nic{}.ApplyUndo(t.Context(), h, snap, atom, ""))
		})
	}
}

func TestKernelSettlesMTUAndSysctls(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	s := wantNIC("ff0", "10.0.0.1/24")
	s.MTU, s.Sysctl = 9000, map[string]string{"ipv4.conf.arp_ignore": "1"}
	converge(t, h, KindNIC, s)
	s.Up = false
	converge(t, h, KindNIC, s)
	converge(t, h, KindSysctl, SysctlSpec{Key: "net.ipv4.tcp_rmem", Value: "4096 131072 6291456"})
}

func TestKernelNamesDuplicateIPv6(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1", "fd00::1/64"))
	converge(t, h, KindNIC, wantNIC("ff0"))
	// Only now has ff1 a carrier, and its own detection begins: it must own the address first.
	converge(t, h, KindNIC, wantNIC("ff1", "fd00::1/64"))
	d, k, raw := plan(t, h, KindNIC, wantNIC("ff0", "fd00::1/64"))
	err := k.Apply(context.Background(), h, raw, d.Changes)
	if err == nil || !strings.Contains(err.Error(), "fd00::1") {
		t.Fatalf("duplicate not named: %v", err)
	}
}

func TestKernelRefusesIPv6BelowItsSmallestMTU(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	s := wantNIC("ff0", "fd00::1/64")
	converge(t, h, KindNIC, s)
	s.MTU = 1200
	snap, err := resource.Gather(t.Context(), h, nic{}, s)
	must(t, err)
	if _, err := (nic{}).Observe(snap, s); err == nil || !strings.Contains(err.Error(), "1280") {
		t.Fatalf("mtu 1200 with IPv6 addresses: %v", err)
	}
}

// TestAnMTUThatBringsIPv6BackSettlesAtOnce: the kernel gives IPv6 back with its default settings, in the middle of the apply.
func TestAnMTUThatBringsIPv6BackSettlesAtOnce(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	s := wantNIC("ff0", "10.0.0.1/24")
	s.MTU = 1000
	converge(t, h, KindNIC, s)
	s.MTU, s.Addresses = 4200, append(s.Addresses, netip.MustParsePrefix("fd00::1/64"))
	converge(t, h, KindNIC, s)
	s.MTU, s.Addresses, s.Sysctl = 1000, s.Addresses[:1], map[string]string{"ipv6.conf.accept_ra": "0"}
	snap, err := resource.Gather(t.Context(), h, nic{}, s)
	must(t, err)
	if _, err := (nic{}).Observe(snap, s); err == nil || !strings.Contains(err.Error(), "1280") {
		t.Fatalf("mtu 1000 with a setting of IPv6: %v", err)
	}
}

func policyOf(via string, metric int) PolicyRouteSpec {
	return PolicyRouteSpec{NIC: facts.Selector{Netdev: "ff0"}, From: netip.MustParsePrefix("192.168.88.1/32"), Table: 100, Priority: 10100,
		Routes: []RouteSpec{
			{To: netip.MustParsePrefix("192.168.88.0/30"), Src: netip.MustParseAddr("192.168.88.1")},
			{To: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr(via), Metric: metric},
			{To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr(via)},
		}}
}

func TestKernelSettlesPolicyRoutes(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29", "fd00::1/64"))
	converge(t, h, KindPolicyRoute, policyOf("192.168.88.2", 0))
	converge(t, h, KindPolicyRoute, policyOf("192.168.88.3", 0)) // our own route leads elsewhere: replaced
	converge(t, h, KindPolicyRoute, PolicyRouteSpec{NIC: facts.Selector{Netdev: "ff0"}, From: netip.MustParsePrefix("fd00::1/128"), Table: 101, Priority: 10101,
		Routes: []RouteSpec{{To: netip.MustParsePrefix("fd01::/64"), Via: netip.MustParseAddr("fd00::2")}, {To: netip.MustParsePrefix("fd02::/64")}}})

	index := link(t, h, "ff0")
	must(t, h.SetUp(index, false))
	must(t, h.SetUp(index, true))
	d, _, _ := plan(t, h, KindPolicyRoute, policyOf("192.168.88.3", 0))
	if len(d.Changes) != 3 {
		t.Fatalf("a bounced link loses three routes, the plan says %v", d.Changes)
	}
	converge(t, h, KindPolicyRoute, policyOf("192.168.88.3", 0))
}

func TestKernelKeepsPrefsrcRoutesWhileAddressesChange(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/30"))
	p := policyOf("192.168.88.2", 0)
	converge(t, h, KindPolicyRoute, p)
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29"))
	routes, err := h.Routes(t.Context())
	must(t, err)
	if !slices.ContainsFunc(routes, func(r host.Route) bool { return r.Table == 100 && r.Src == netip.MustParseAddr("192.168.88.1") }) {
		t.Error("the route that prefers 192.168.88.1 is gone")
	}
}

func TestKernelForeignRouteIsRefused(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29"))
	must(t, h.ReplaceRoute(host.Route{Table: 100, Dst: netip.MustParsePrefix("10.0.0.0/8"), Via: netip.MustParseAddr("192.168.88.5"), OutIndex: link(t, h, "ff0"), Protocol: 4, Type: 1}))
	snap, err := facts.Gather(t.Context(), h, facts.Connection{})
	must(t, err)
	if _, err := (policyRoute{}).Observe(snap, policyOf("192.168.88.2", 0)); err == nil || !strings.Contains(err.Error(), "did not add") {
		t.Fatalf("foreign route not refused: %v", err)
	}
}

// The keys do not exist, so that a guard that fails writes nothing: ENOENT then tells that it did.
func TestLabSysctlGuard(t *testing.T) {
	h := freshHost(t)
	for _, path := range []string{"kernel/no_such_key", "net/../kernel/no_such_key", "../../proc/no_such_key"} {
		if err := h.SetSysctl(path, "0"); err == nil || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("SetSysctl(%q) reached the file system: %v", path, err)
		}
	}
}

func onLink(s MainRouteSpec) MainRouteSpec {
	s.Route.OnLink = true
	return s
}

func TestKernelSettlesMainRoutes(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29", "fd00::1/64"))
	for _, s := range []MainRouteSpec{
		mainRouteOf("10.0.0.0/8", "192.168.88.2", "192.168.88.1", 0),
		mainRouteOf("10.0.0.0/8", "192.168.88.3", "", 0), // our own route leads elsewhere: replaced
		mainRouteOf("10.0.0.0/8", "192.168.88.3", "", 50),
		mainRouteOf("10.9.0.0/16", "", "", 0),
		onLink(mainRouteOf("10.9.0.0/16", "172.16.0.1", "", 0)),
		mainRouteOf("192.168.88.0/29", "", "", 5), // beside the connected route, whose metric is 0
		mainRouteOf("0.0.0.0/0", "192.168.88.2", "", 0),
		mainRouteOf("fd01::/64", "fd00::2", "fd00::1", 0),
		mainRouteOf("fd01::/64", "fd00::3", "", 0),
		mainRouteOf("fd01::/64", "fd00::3", "", 50),
		mainRouteOf("fd02::/64", "", "", 0),
		onLink(mainRouteOf("fd02::/64", "fd77::1", "", 0)),
		mainRouteOf("fd02::/64", "fe80::1", "", 0),
		mainRouteOf("fd00::/64", "", "", 0), // beside the connected route, whose metric is 256
		mainRouteOf("::/0", "fd00::2", "", 20),
	} {
		converge(t, h, KindRoute, s)
		mainRouteIs(t, h, s)
	}
}

// mainRouteIs expects exactly one route at the spec's destination and metric, and that it is the
// wanted one: a replacement leaves nothing behind.
func mainRouteIs(t *testing.T, h host.Host, s MainRouteSpec) {
	t.Helper()
	found, err := h.Routes(t.Context())
	must(t, err)
	wanted := s.Route.route(tableMain, link(t, h, "ff0"))
	found = slices.DeleteFunc(found, func(r host.Route) bool {
		return r.Table != tableMain || r.Dst != wanted.Dst || r.Metric != wanted.Metric
	})
	if len(found) != 1 || !sameRoute(found[0], wanted) || found[0].Protocol != Protocol {
		t.Fatalf("wanted %+v, found %+v", wanted, found)
	}
}

func TestKernelBouncedLinkLosesMainRoutes(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	nic := wantNIC("ff0", "192.168.88.1/29", "fd00::1/64")
	converge(t, h, KindNIC, nic)
	routes := []MainRouteSpec{mainRouteOf("10.0.0.0/8", "192.168.88.3", "", 0), mainRouteOf("fd01::/64", "fd00::2", "", 0)}
	for _, s := range routes {
		converge(t, h, KindRoute, s)
	}
	index := link(t, h, "ff0")
	must(t, h.SetUp(index, false))
	must(t, h.SetUp(index, true))
	converge(t, h, KindNIC, nic) // IPv6 addresses go with the link
	for _, s := range routes {
		if d, _, _ := plan(t, h, KindRoute, s); len(d.Changes) != 1 || d.Changes[0].From != "" {
			t.Errorf("a bounced link loses %s, the plan says %v", s.Route.To, d.Changes)
		}
		converge(t, h, KindRoute, s)
	}
}

func TestKernelForeignMainRouteIsRefused(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	converge(t, h, KindNIC, wantNIC("ff1"))
	converge(t, h, KindNIC, wantNIC("ff0", "192.168.88.1/29", "fd00::1/64"))
	index := link(t, h, "ff0")
	for to, vias := range map[string][2]string{"10.7.0.0/16": {"192.168.88.5", "192.168.88.2"}, "0.0.0.0/0": {"192.168.88.5", "192.168.88.2"}, "fd07::/64": {"fd00::5", "fd00::2"}, "::/0": {"fd00::5", "fd00::2"}} {
		theirs := mainRouteOf(to, vias[0], "", 0).Route.route(tableMain, index)
		theirs.Protocol = 4
		must(t, h.ReplaceRoute(theirs))
		foreignStands(t, h, mainRouteOf(to, vias[1], "", 0))
		converge(t, h, KindRoute, mainRouteOf(to, vias[1], "", 7)) // another metric is another place
	}
	foreignStands(t, h, mainRouteOf("192.168.88.0/29", "", "", 0)) // the kernel's own, of the address
}

func foreignStands(t *testing.T, h host.Host, s MainRouteSpec) {
	t.Helper()
	snap, err := facts.Gather(t.Context(), h, facts.Connection{})
	must(t, err)
	if _, err := (mainRoute{}).Observe(snap, s); err == nil || !strings.Contains(err.Error(), "did not add") {
		t.Errorf("foreign route to %s not refused: %v", s.Route.To, err)
	}
}

// TestKernelFenceIsRight makes each route in spite of the fence and asks the kernel where the
// answers to the operator go then: the fence refuses those that move them, and no other.
func TestKernelFenceIsRight(t *testing.T) {
	t.Parallel()
	h := freshHost(t)
	must(t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "mgmt0"}, PeerName: "mgmt1"}))
	for _, s := range []NICSpec{wantNIC("ff1"), wantNIC("mgmt1"), wantNIC("ff0", "192.168.88.1/29", "fd00::1/64"), wantNIC("mgmt0", "172.16.0.2/24", "fd0a::2/64")} {
		converge(t, h, KindNIC, s)
	}
	mgmt := link(t, h, "mgmt0")
	for _, s := range []MainRouteSpec{mainRouteOf("0.0.0.0/0", "172.16.0.1", "", 100), mainRouteOf("::/0", "fd0a::1", "", 0)} {
		must(t, h.ReplaceRoute(s.Route.route(tableMain, mgmt)))
	}
	for _, c := range []struct {
		client, server string
		want           MainRouteSpec
	}{
		{"10.9.0.5", "172.16.0.2", mainRouteOf("10.0.0.0/8", "192.168.88.2", "", 0)},
		{"10.9.0.5", "172.16.0.2", mainRouteOf("10.8.0.0/16", "192.168.88.2", "", 0)},
		{"10.9.0.5", "172.16.0.2", mainRouteOf("0.0.0.0/0", "192.168.88.2", "", 0)},
		{"10.9.0.5", "172.16.0.2", mainRouteOf("0.0.0.0/0", "192.168.88.2", "", 101)},
		{"172.16.0.9", "172.16.0.2", mainRouteOf("0.0.0.0/0", "192.168.88.2", "", 0)},
		{"172.16.0.9", "172.16.0.2", mainRouteOf("172.16.0.0/24", "192.168.88.2", "", 5)},
		{"fd0b::5", "fd0a::2", mainRouteOf("fd0b::/64", "fd00::2", "", 0)},
		{"fd0b::5", "fd0a::2", mainRouteOf("fd0c::/64", "fd00::2", "", 0)},
		{"fd0b::5", "fd0a::2", mainRouteOf("::/0", "fd00::2", "", 20)},
		{"fd0b::5", "fd0a::2", mainRouteOf("::/0", "fd00::2", "", 2000)},
		{"fd0a::9", "fd0a::2", mainRouteOf("::/0", "fd00::2", "", 20)},
		{"fd0a::9", "fd0a::2", mainRouteOf("fd0a::/64", "fd00::2", "", 0)},
		{"fd0a::9", "fd0a::2", mainRouteOf("fd0a::/64", "fd00::2", "", 20)},
	} {
		snap, err := facts.Gather(t.Context(), h, facts.Connection{SSH: c.client + " 50000 " + c.server + " 22"})
		must(t, err)
		fenced := mainRoute{}.Touches(snap, c.want, nil) != ""
		converge(t, h, KindRoute, c.want)
		after, err := h.RouteGet(t.Context(), snap.Management.Client, snap.Management.Server)
		must(t, err)
		if moves := after.OutIndex != mgmt; moves != fenced {
			t.Errorf("client %s, route %s metric %d: moves the answers: %t, refused: %t", c.client, c.want.Route.To, c.want.Route.Metric, moves, fenced)
		}
		must(t, h.DelRoute(c.want.Route.route(tableMain, link(t, h, "ff0"))))
	}
}

func link(t *testing.T, h host.Host, name string) int {
	t.Helper()
	links, err := h.Links(t.Context())
	must(t, err)
	i := slices.IndexFunc(links, func(l host.Link) bool { return l.Name == name })
	return links[i].Index
}
