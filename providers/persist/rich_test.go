package persist

import (
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/qos"
	"github.com/fabricform/fabricform/providers/rxe"
)

// The managers, as the language names them.
const (
	networkd       = "systemd-networkd"
	networkManager = "networkmanager"
	netplan        = "netplan"
	ifupdown       = "ifupdown"
	ifcfg          = "ifcfg"
)

func prefixes(s ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(s))
	for i := range s {
		out[i] = netip.MustParsePrefix(s[i])
	}
	return out
}

func route(to, via, src string, metric int) netif.RouteSpec {
	r := netif.RouteSpec{To: netip.MustParsePrefix(to), Metric: metric}
	if via != "" {
		r.Via = netip.MustParseAddr(via)
	}
	if src != "" {
		r.Src = netip.MustParseAddr(src)
	}
	return r
}

// rich has one of everything: a dual-stack rail with policy routes of both families, one without
// link-local addresses, one whose addresses others give, sysctls, Soft-RoCE and memlock.
func rich() Spec {
	no, yes := false, true
	rail0 := netmanager.NIC{Name: "rail0", NICSpec: netif.NICSpec{
		Select: facts.Selector{Netdev: "ens1f0"}, MTU: 9000, Up: true, Addresses: prefixes("10.20.0.1/24", "10.20.9.1/32", "fd00:20::1/64"), AddressesSet: true,
		AcceptRA: &no, IPv6LinkLocal: "eui64", Sysctl: map[string]string{"ipv4.conf.arp_ignore": "1", "ipv4.conf.arp_announce": "2", "ipv4.conf.rp_filter": "2"},
	}}
	onLink := route("10.77.0.0/16", "10.99.0.1", "", 0)
	onLink.OnLink = true
	rail0.Routes = []netif.RouteSpec{route("10.30.0.0/16", "10.20.0.254", "10.20.0.1", 50), route("fd00:30::/48", "fd00:20::fe", "", 0), onLink}
	rail0.Policies = []netif.PolicyRouteSpec{
		{From: netip.MustParsePrefix("10.20.0.1/32"), Table: 101, Priority: 10101, Routes: []netif.RouteSpec{route("10.20.0.0/24", "", "10.20.0.1", 0), route("10.0.0.0/8", "10.20.0.254", "10.20.0.1", 0)}},
		{From: netip.MustParsePrefix("fd00:20::1/128"), To: netip.MustParsePrefix("fd00::/16"), Table: 101, Priority: 10102, Routes: []netif.RouteSpec{route("::/0", "fd00:20::fe", "fd00:20::1", 0)}},
		{Table: 101, Priority: 20000},
	}
	rail1 := netmanager.NIC{Name: "rail1", NICSpec: netif.NICSpec{
		Select: facts.Selector{MAC: "02:00:00:00:00:03"}, Addresses: prefixes("10.20.1.1/24"), AddressesSet: true, AcceptRA: &yes, IPv6LinkLocal: "none",
	}}
	storage := netmanager.NIC{Name: "storage", NICSpec: netif.NICSpec{Select: facts.Selector{Netdev: "ens-3.7"}, MTU: 4200, Up: true}}
	forty, five := 40, 5
	class := qos.Spec{On: facts.Selector{Netdev: "ens1f0"}, Class: "lossless", DSCP: &forty, Priority: &five, PFC: &yes}
	soft := qos.Spec{On: facts.Selector{Netdev: "ens-3.7"}, Class: "default", RDMACM: &yes, TOS: 160, Soft: true}
	return Spec{Fabric: "lab", QoS: []qos.Spec{class, soft}, NICs: []netmanager.NIC{rail0, rail1, storage}, Memlock: "unlimited", Modules: []string{"rdma_rxe"},
		Sysctls: []netif.SysctlSpec{{Key: "net.core.rmem_max", Value: "4194304"}}, RXE: []rxe.Spec{{Device: "rxe0", On: facts.Selector{Netdev: "ens-3.7"}}}}
}

// program is the content of this program.
const program = "this build"

// snapshot is the rich spec's host with a manager.
func snapshot(active ...string) *facts.Snapshot {
	s := &facts.Snapshot{
		Links: []host.Link{
			{Index: 2, Name: "ens1f0", MAC: "02:00:00:00:00:02", PermMAC: "02:00:00:00:00:02"}, {Index: 3, Name: "ens2f0", MAC: "02:00:00:00:00:03"},
			{Index: 4, Name: "ens-3.7", MAC: "02:00:00:00:00:02", Kind: "vlan", Parent: 2},
		},
		Sysctls: map[string]string{"net/ipv6/conf/ens2f0/addr_gen_mode": "2"},
	}
	f := netmanager.Found{Active: active, Behind: networkd}
	if slices.Contains(active, networkManager) {
		f.InCharge = []string{"ens1f0", "ens2f0", "ens-3.7"}
	}
	netmanager.Part.Put(s, f)
	bootPart.Put(s, bootFacts{Systemd: true, SHA256: sum([]byte(program)), Digest: asCopy([]byte(program)).Digest()})
	return s
}

// found changes who configures a snapshot's links.
func found(s *facts.Snapshot, change func(*netmanager.Found)) {
	f := netmanager.Part.Of(s)
	change(&f)
	netmanager.Part.Put(s, f)
}
