package netif

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
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
	if !slices.Equal(order, []string{KindNIC, KindSysctl, KindRoute, KindPolicyRoute}) {
		t.Fatal(order)
	}
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
