package netif

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// TestDesiredKeepsTheOrderOfKinds: what is declared comes out in the order of Kinds, and routes of
// both sorts wait for their NIC.
func TestDesiredKeepsTheOrderOfKinds(t *testing.T) {
	n := &fabric.NIC{Name: "rail0", Host: "a", Netdev: "ff0"}
	r := fabric.Route{To: netip.MustParsePrefix("fd01::/64"), Via: netip.MustParseAddr("fd00::2"), Src: netip.MustParseAddr("fd00::1"), OnLink: true, Metric: 7}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{n}, Sysctl: map[string]string{"net.ipv4.tcp_sack": "1"},
		Routes: []*fabric.MainRoute{{Route: r, Name: "storage", Host: "a", NIC: n.Ref()}},
		Policy: []*fabric.PolicyRoute{{Name: "rail0", Host: "a", NIC: n.Ref(), Table: 100, Priority: 10100, Routes: []fabric.Route{r}}}}
	var order []string
	for _, k := range Kinds() {
		order = append(order, k.Name)
	}
	if !slices.Equal(order, []string{KindNIC, KindBond, KindVLAN, KindSysctl, KindRoute, KindPolicyRoute}) {
		t.Fatal(order)
	}
	order = slices.DeleteFunc(order, func(kind string) bool { return kind == KindBond || kind == KindVLAN })
	got := Desired(nil, h)
	for i, w := range got {
		if w.Addr.Kind != order[i] {
			t.Errorf("%d is %s, not %s", i, w.Addr, order[i])
		}
		if waits := slices.Equal(w.After, []resource.Addr{{Host: "a", Kind: KindNIC, Name: "rail0"}}); waits != (i >= 2) {
			t.Errorf("%s waits for %v", w.Addr, w.After)
		}
	}
	if len(got) != len(order) {
		t.Fatal(got)
	}
	var spec MainRouteSpec
	if err := json.Unmarshal(got[2].Spec, &spec); err != nil {
		t.Fatal(err)
	}
	want := MainRouteSpec{NIC: facts.Selector{Netdev: "ff0"}, Route: RouteSpec{To: r.To, Via: r.Via, Src: r.Src, OnLink: true, Metric: 7}}
	if !reflect.DeepEqual(spec, want) {
		t.Errorf("%+v, not %+v", spec, want)
	}
}

// TestNICsAreFollowedThroughANewName, which a driver's installation may bring: what its block matches by
// MAC, PCI address or (where that stayed) RDMA device is planned on as before, and what is recorded of
// the old name is nobody's any more.
func TestNICsAreFollowedThroughANewName(t *testing.T) {
	snap := func(netdev string) *facts.Snapshot {
		return &facts.Snapshot{Sysctls: map[string]string{}, RDMA: []facts.RDMADevice{{Name: "rocep1s0", Netdev: netdev}},
			Links: []host.Link{{Index: 2, Name: netdev, MAC: "02:00:00:00:00:01", PCI: "0000:01:00.0", MTU: 1500, Up: true}}}
	}
	kind := Kinds()[0]
	for _, by := range []facts.Selector{{MAC: "02:00:00:00:00:01"}, {PCI: "0000:01:00.0"}, {RDMA: "rocep1s0"}} {
		raw, err := json.Marshal(NICSpec{Select: by, MTU: 9000, Up: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, netdev := range []string{"eth1", "enp1s0f0np0"} {
			d, err := kind.Plan(snap(netdev), raw)
			if err != nil || len(d.Changes) != 1 || d.Changes[0].To != "9000" || d.Changes[0].Atom.Thing() != netdev {
				t.Errorf("%+v on %s: %+v, %v", by, netdev, d, err)
			}
		}
	}
	if undo, _, err := kind.Undo(snap("enp1s0f0np0"), resource.NewAtom(KindNIC, "eth1", "mtu"), "1500"); err != nil || undo.From != "" {
		t.Errorf("the old name's MTU is %s", undo.From)
	}
	raw, err := json.Marshal(NICSpec{Select: facts.Selector{Netdev: "eth1"}, MTU: 9000})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kind.Plan(snap("enp1s0f0np0"), raw); err == nil || !strings.Contains(err.Error(), "there are enp1s0f0np0") {
		t.Errorf("a name that is gone: %v", err)
	}
}

// TestSysctlNames: messages name a sysctl as sysctl(8) prints it, also one of an interface whose name has a dot.
func TestSysctlNames(t *testing.T) {
	for path, want := range map[string]string{
		"net/ipv4/tcp_mtu_probing":              "net.ipv4.tcp_mtu_probing",
		"net/ipv4/conf/eth0.100/arp_ignore":     "net.ipv4.conf.eth0/100.arp_ignore",
		"net/ipv6/neigh/ff0/retrans_time_ms":    "net.ipv6.neigh.ff0.retrans_time_ms",
		"kernel/random/urandom_min_reseed_secs": "kernel.random.urandom_min_reseed_secs",
	} {
		if got := sysctlName(path); got != want {
			t.Errorf("%s is named %s, want %s", path, got, want)
		}
		if got := (SysctlSpec{Key: want}).Path(); got != path {
			t.Errorf("%s is at %s, want %s", want, got, path)
		}
	}
}
