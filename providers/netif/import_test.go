package netif

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

func TestNICsAreOrderedAsPeopleCount(t *testing.T) {
	names := []string{"ens10f0", "ens2f1", "eth1", "ens2f0", "eth10", "eth2", "xgbe", "eth"}
	slices.SortFunc(names, natural)
	if got := strings.Join(names, " "); got != "ens2f0 ens2f1 ens10f0 eth eth1 eth2 eth10 xgbe" {
		t.Error(got)
	}
}

// TestWhatWasLearnedIsNotDeclared: addresses of DHCP and of router advertisements, with those beside them, and routes of daemons.
func TestWhatWasLearnedIsNotDeclared(t *testing.T) {
	l := host.Link{Index: 2, Name: "eth1"}
	peer := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24"), Peer: netip.MustParsePrefix("10.0.0.2/32")}
	own := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}
	learned := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("10.9.0.7/24"), Dynamic: true}
	automatic := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("fe80::1/64"), Scope: 253}
	for _, c := range []struct {
		addrs   []host.Addr
		set     bool
		remarks int
	}{{[]host.Addr{own, automatic}, true, 0}, {[]host.Addr{automatic}, false, 0}, {[]host.Addr{learned}, false, 1}, {[]host.Addr{own, learned}, false, 2}, {[]host.Addr{peer, own}, false, 1}, {[]host.Addr{own, {Index: 2, Prefix: netip.MustParsePrefix("169.254.1.1/16"), Scope: 253}}, true, 1}} {
		d := &resource.Draft{Snapshot: &facts.Snapshot{Links: []host.Link{l}, Addrs: c.addrs}, Host: &fabric.Host{}}
		n := &fabric.NIC{Name: "rail0", Netdev: "eth1"}
		draftAddresses(d, n, l)
		if n.AddressesSet != c.set || len(d.Remarks) != c.remarks || c.set && !slices.Equal(n.Addresses, []netip.Prefix{own.Prefix}) {
			t.Errorf("%v: %v, %+v", c.addrs, n.Addresses, d.Remarks)
		}
	}
	n := &fabric.NIC{Name: "rail0", Netdev: "eth1", Addresses: []netip.Prefix{own.Prefix}, AddressesSet: true}
	d := &resource.Draft{Snapshot: &facts.Snapshot{Links: []host.Link{l}}, Host: &fabric.Host{NICs: []*fabric.NIC{n}}}
	good := host.Route{Dst: netip.MustParsePrefix("10.1.0.0/16"), Via: netip.MustParseAddr("10.0.0.254"), OutIndex: 2, Type: unicast, Protocol: protocolStatic}
	if why := importable(d, n, good, nil); why != "" {
		t.Errorf("a static route: %s", why)
	}
	for name, change := range map[string]func(r *host.Route){
		"it was learned (protocol 186)":                   func(r *host.Route) { r.Protocol = 186 },
		"it has several next hops":                        func(r *host.Route) { r.NextHops = 2 },
		"it is of the type \"blackhole\"":                 func(r *host.Route) { r.Type = 6 },
		"it is not a unicast route":                       func(r *host.Route) { r.Type = 9 },
		"its source is not a declared address":            func(r *host.Route) { r.Src = netip.MustParseAddr("10.0.0.9") },
		"its gateway is in no declared subnet of the NIC": func(r *host.Route) { r.Via = netip.MustParseAddr("192.0.2.1") },
		"its gateway is the host itself":                  func(r *host.Route) { r.Via = netip.MustParseAddr("10.0.0.1") },
	} {
		r := good
		change(&r)
		if why := importable(d, n, r, nil); why != name {
			t.Errorf("%q, want %q", why, name)
		}
	}
}

// TestRoutesOfNoNICAreNamed: those with several next hops or none that somebody set, and not those of other devices or of routing daemons.
func TestRoutesOfNoNICAreNamed(t *testing.T) {
	route := func(dst string, kind, hops, out, protocol, table int) host.Route {
		return host.Route{Dst: netip.MustParsePrefix(dst), Type: kind, NextHops: hops, OutIndex: out, Protocol: protocol, Table: table}
	}
	snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth0"}, {Index: 9, Name: "mgmt0"}}, Routes: []host.Route{
		route("10.1.0.0/16", 6, 0, 0, protocolBoot, tableMain), route("10.2.0.0/16", unicast, 2, 0, protocolStatic, tableMain),
		route("10.3.0.0/16", unicast, 2, 0, 186, tableMain), route("0.0.0.0/0", unicast, 0, 9, protocolBoot, tableMain), route("10.4.0.0/16", 7, 0, 0, protocolBoot, 100),
	}, Rules: []host.Rule{{Family: inet, Priority: 7, Table: 100}, {Family: inet, Priority: 8, Table: 101, Mark: 7, IIF: "eth0", OIF: "eth1"}, {Family: inet, Priority: 9, From: netip.MustParsePrefix("10.1.7.1/32")}}}
	d := &resource.Draft{Snapshot: snap, Host: &fabric.Host{NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth0"}}}}
	if err := errors.Join((mainRoute{}).Import(t.Context(), bare{}, d), (policyRoute{}).Import(t.Context(), bare{}, d)); err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range d.Remarks {
		got += r.Text + "\n"
	}
	const want = `route 10.1.0.0/16: it is of the type "blackhole"
route 10.2.0.0/16 2 next hops: it has several next hops
rule from all lookup 100 priority 7: route 10.4.0.0/16 of its table cannot be declared: it is of the type "unreachable"
rule from all lookup 101 priority 8 iif eth0 oif eth1 fwmark 0x7: it has selectors that a policy_route does not have
rule from 10.1.7.1/32 priority 9: it leads to no table: it is a blackhole, unreachable, prohibit or nop rule
`
	if got != want {
		t.Errorf("%s", got)
	}
}

// TestAddressesWithoutBroadcastAreNamed, once for all NICs of a host.
func TestAddressesWithoutBroadcastAreNamed(t *testing.T) {
	at := func(index int, prefix string, none bool) host.Addr {
		return host.Addr{Index: index, Prefix: netip.MustParsePrefix(prefix), NoBroadcast: none}
	}
	snap := &facts.Snapshot{Addrs: []host.Addr{at(1, "10.1.0.1/24", true), at(2, "10.2.0.1/24", false), at(3, "10.3.0.1/24", true)}}
	for i := range 3 {
		snap.Links = append(snap.Links, host.Link{Index: i + 1, Name: fmt.Sprintf("eth%d", i), MAC: "02:00:00:00:00:01", Up: true, MTU: 1500})
	}
	d := &resource.Draft{Snapshot: snap, Host: &fabric.Host{}}
	if err := (nic{}).Import(t.Context(), bare{}, d); err != nil {
		t.Fatal(err)
	}
	if len(d.Remarks) != 1 || d.Remarks[0].Text != "addresses of rail0, rail2 have no broadcast address; addresses that apply adds have that of their subnet" {
		t.Errorf("%+v", d.Remarks)
	}
}

// TestABondWhoseMembersDifferIsNotImported: the kernel gives members the bond's MTU and takes their addresses, so that no bond block makes such a
// bond.
func TestABondWhoseMembersDifferIsNotImported(t *testing.T) {
	for want, change := range map[string]func(d *resource.Draft){
		"": func(*resource.Draft) {},
		"its MTU is 9000, and that of its member eth2 is 1500": func(d *resource.Draft) { d.Snapshot.Links[1].MTU = 1500 },
		"its member eth2 has addresses of its own":             func(d *resource.Draft) { d.Host.NICs[1].AddressesSet = true },
		"its member eth2 is down":                              func(d *resource.Draft) { d.Snapshot.Links[1].Up = false },
		"its member eth2 is not imported":                      func(d *resource.Draft) { d.Host.NICs = d.Host.NICs[:1] },
		"its member eth2 carries VLAN eth2.5": func(d *resource.Draft) {
			d.Snapshot.Links = append(d.Snapshot.Links, host.Link{Index: 9, Name: "eth2.5", Kind: KindVLAN, Parent: 3})
		},
		"it has no members": func(d *resource.Draft) { d.Snapshot.Links[0].Master, d.Snapshot.Links[1].Master = 0, 7 },
	} {
		b := host.Link{Index: 8, Name: "bond0", Kind: KindBond, Up: true, MTU: 9000, Bond: &host.Bond{Mode: "active-backup", MIIMon: 100}}
		d := &resource.Draft{Snapshot: &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth1", Up: true, MTU: 9000, Master: 8}, {Index: 3, Name: "eth2", Up: true, MTU: 9000, Master: 8}, b}},
			Host: &fabric.Host{NICs: []*fabric.NIC{{Name: "rail0", Netdev: "eth1"}, {Name: "rail1", Netdev: "eth2"}}}}
		change(d)
		n := &fabric.NIC{Name: "bond0", Netdev: "bond0"}
		if why := draftBond(d, n, b); why != want || (n.Bond == nil) != (want != "") || n.Bond != nil && len(n.Bond.NICs) != 2 {
			t.Errorf("%q, want %q; %+v", why, want, n.Bond)
		}
	}
}
