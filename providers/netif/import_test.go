package netif

import (
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
	own := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}
	learned := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("10.9.0.7/24"), Dynamic: true}
	automatic := host.Addr{Index: 2, Prefix: netip.MustParsePrefix("fe80::1/64"), Scope: 253}
	for _, c := range []struct {
		addrs   []host.Addr
		set     bool
		remarks int
	}{{[]host.Addr{own, automatic}, true, 0}, {[]host.Addr{automatic}, false, 0}, {[]host.Addr{learned}, false, 1}, {[]host.Addr{own, learned}, false, 2}} {
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
	if why := importable(d, n, good); why != "" {
		t.Errorf("a static route: %s", why)
	}
	for name, change := range map[string]func(r *host.Route){
		"it was learned (protocol 186)":                   func(r *host.Route) { r.Protocol = 186 },
		"it has several next hops":                        func(r *host.Route) { r.NextHops = 2 },
		"it is no unicast route":                          func(r *host.Route) { r.Type = 6 },
		"its source is no declared address":               func(r *host.Route) { r.Src = netip.MustParseAddr("10.0.0.9") },
		"its gateway is in no declared subnet of the NIC": func(r *host.Route) { r.Via = netip.MustParseAddr("192.0.2.1") },
		"its gateway is the host itself":                  func(r *host.Route) { r.Via = netip.MustParseAddr("10.0.0.1") },
	} {
		r := good
		change(&r)
		if why := importable(d, n, r); why != name {
			t.Errorf("%q, want %q", why, name)
		}
	}
}
