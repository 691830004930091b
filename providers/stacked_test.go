package providers

import (
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/resource"
)

// TestThePlanNamesWhatGoesWithABondOrVLAN: the kernel removes what others have put on them, with their addresses and routes.
func TestThePlanNamesWhatGoesWithABondOrVLAN(t *testing.T) {
	a := &fabric.Host{Name: "a"}
	nic := func(name, netdev string) *fabric.NIC {
		n := &fabric.NIC{Host: "a", Name: name, Netdev: netdev, Up: true}
		a.NICs = append(a.NICs, n)
		return n
	}
	p0, p1 := nic("p0", "eth0"), nic("p1", "eth1")
	nic("b0", "b0").Bond = &fabric.Bond{NICs: []fabric.NICRef{p0.Ref(), p1.Ref()}, Mode: "active-backup", MIIMon: 100}
	vlan := &fabric.VLAN{On: fabric.NICRef{Host: "a", NIC: "b0"}, ID: 200}
	nic("s", "s").VLAN = vlan
	snap := &facts.Snapshot{Sysctls: map[string]string{}, Links: []host.Link{
		{Index: 2, Name: "eth0", MTU: 1500, Up: true, Master: 4, PermMAC: "02:00:00:00:00:01"}, {Index: 3, Name: "eth1", MTU: 1500, Up: true, Master: 4, PermMAC: "02:00:00:00:00:02"},
		{Index: 4, Name: "b0", Kind: "bond", MTU: 1500, Up: true, Bond: &host.Bond{Mode: "active-backup", MIIMon: 100}},
		{Index: 5, Name: "s", Kind: "vlan", Parent: 4, MTU: 1500, Up: true, VLAN: &host.VLAN{ID: 200, Protocol: "802.1q"}},
		{Index: 6, Name: "hand300", Kind: "vlan", Parent: 4, MTU: 1500, Up: true, VLAN: &host.VLAN{ID: 300, Protocol: "802.1q"}},
		{Index: 7, Name: "mac0", Kind: "macvlan", Parent: 5, MTU: 1500, Up: true},
	}}
	for _, kind := range []string{netif.KindBond, netif.KindVLAN} {
		facts.Part[string](kind).Put(snap, "")
	}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{a}}
	plan := func(record resource.Record) planner.HostPlan {
		record.Fabric = f.Name
		return planner.Make(f.Name, Kinds(), []planner.HostInput{{Name: "a", Snapshot: snap, Records: []resource.Record{record}, Resources: Desired(f, a)}}).Hosts[0]
	}
	says := func(p planner.HostPlan) (out []string) {
		for _, n := range p.Notes {
			if strings.Contains(n, "is not ours") {
				out = append(out, n)
			}
		}
		return out
	}
	if p := plan(resource.Record{}); len(p.Problems) > 0 || says(p) != nil {
		t.Fatalf("as declared: %+v %q", p.Problems, says(p))
	}
	vlan.ID = 201
	if got := says(plan(resource.Record{})); !slices.Equal(got, []string{"mac0 on s is not ours and is removed with it"}) {
		t.Errorf("the VLAN is made again: %q", got)
	}
	a.NICs = nil
	var record resource.Record
	for _, device := range []resource.Atom{"bond b0 device", "vlan s device"} {
		record.Note([]resource.Change{device.Change("", device.Kind())})
	}
	got := says(plan(record))
	slices.Sort(got)
	if !slices.Equal(got, []string{"hand300 on b0 is not ours and is removed with it", "mac0 on b0 is not ours and is removed with it", "mac0 on s is not ours and is removed with it"}) {
		t.Errorf("both are removed: %q", got)
	}
}
