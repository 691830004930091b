package providers

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers/rxe"
	"github.com/fabricform/fabricform/resource"
)

// cables is a host a with a cable to b (rail0) and one to c (rail1). All that can depend on rail0 is declared, and nothing
// was applied yet.
func cables() (*fabric.Fabric, *facts.Snapshot) {
	nic := func(h, name, netdev, address string) *fabric.NIC {
		return &fabric.NIC{Host: h, Name: name, Netdev: netdev, MTU: 9000, Up: true, Persist: true, AddressesSet: true, Addresses: []netip.Prefix{netip.MustParsePrefix(address)}}
	}
	a := &fabric.Host{Name: "a", NICs: []*fabric.NIC{nic("a", "rail0", "eth0", "10.0.0.1/30"), nic("a", "rail1", "eth1", "10.0.1.1/30")}, Sysctl: map[string]string{"net.core.rmem_max": "2"}}
	rail0, rail1 := a.NICs[0].Ref(), a.NICs[1].Ref()
	to := netip.MustParsePrefix("10.9.0.0/16")
	a.RXE = []*fabric.RXE{{Name: "rxe0", Host: "a", NIC: rail0, Persist: true}}
	a.Routes = []*fabric.MainRoute{{Name: "far", Host: "a", NIC: rail0, Route: fabric.Route{To: to, Via: netip.MustParseAddr("10.0.0.2")}}}
	a.Policy = []*fabric.PolicyRoute{
		{Name: "of0", Host: "a", NIC: rail0, Table: 100, Priority: 10100, From: netip.MustParsePrefix("10.0.0.1/32")},
		{Name: "of1", Host: "a", NIC: rail1, Table: 101, Priority: 10101, From: netip.MustParsePrefix("10.0.1.1/32")},
	}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{a}, Links: []*fabric.Link{
		{Name: "l0", Role: "training", Endpoints: []fabric.NICRef{rail0, {Host: "b", NIC: "rail0"}}},
		{Name: "l1", Role: "training", Endpoints: []fabric.NICRef{rail1, {Host: "c", NIC: "rail0"}}},
	}}
	f.NCCL.Pos = fabric.Pos{File: "f.hcl", Line: 1}
	snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "lo"}, {Index: 2, Name: "eth0", MTU: 1500, Up: true}, {Index: 3, Name: "eth1", MTU: 1500, Up: true}},
		Sysctls: map[string]string{"net/core/rmem_max": "1"}, Files: map[string]facts.File{}}
	netmanager.Part.Put(snap, netmanager.Found{Active: []string{"systemd-networkd"}})
	facts.Part[map[string]rxe.Module](rxe.KindModule).Put(snap, map[string]rxe.Module{"rdma_rxe": rxe.ModuleAvailable})
	return f, snap
}

// planOf plans host a while other hosts are missing. The record is a's.
func planOf(f *fabric.Fabric, snap *facts.Snapshot, record resource.Record, missing ...string) planner.HostPlan {
	a := f.Hosts[0]
	record.Fabric = f.Name
	in := planner.HostInput{Name: "a", Snapshot: snap, Records: []resource.Record{record}, Resources: slices.Concat(Desired(f, a), Derived(f, a, snap, nil))}
	away := map[string]bool{}
	for _, h := range missing {
		away[h] = true
	}
	return planner.Make(f.Name, Kinds(), []planner.HostInput{in}, planner.Leave(f, Kinds(), []planner.HostInput{in}, away)...).Hosts[0]
}

// shown is what a plan changes, and what it leaves out.
func shown(p planner.HostPlan) (acts, left []string) {
	for _, a := range p.Actions {
		name := a.Resource.Addr.Kind + "." + a.Resource.Addr.Name
		if a.Stage != resource.StagePersist {
			acts = append(acts, string(a.Op)+" "+name)
			continue
		}
		for _, c := range a.Changes {
			if strings.HasPrefix(c.Attribute, "file ") {
				acts = append(acts, name+" "+c.Attribute)
			}
		}
	}
	for _, l := range p.LeftOut {
		left = append(left, l.Kind+"."+l.Name)
	}
	return acts, left
}

// TestWhatDependsOnALinkIsLeftOutWithIt: the NIC, its device with the module, its routes, rules and files, and NCCL's
// settings; nothing of the other link.
func TestWhatDependsOnALinkIsLeftOutWithIt(t *testing.T) {
	f, snap := cables()
	acts, left := shown(planOf(f, snap, resource.Record{}, "b"))
	if d := cmp.Diff([]string{"update nic.rail1", "update sysctl.net.core.rmem_max", "create policy_route.of1", "persist.files file /etc/systemd/network/05-fabricform-f-eth1.network"}, acts); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"nic.rail0", "route.far", "policy_route.of0", "module.rdma_rxe", "rxe.rxe0", "persist.files", "nccl.file"}, left); d != "" {
		t.Error(d)
	}
	if acts, left := shown(planOf(f, snap, resource.Record{})); len(left) > 0 || len(acts) != 15 {
		t.Errorf("with all hosts %d actions: %q, left out %q", len(acts), acts, left)
	}
}

// TestARouteThroughAnAddressOfALeftOutNICIsLeftOut: although it belongs to another NIC, whose file waits with it.
func TestARouteThroughAnAddressOfALeftOutNICIsLeftOut(t *testing.T) {
	for name, p := range map[string]fabric.PolicyRoute{
		"a rule":  {From: netip.MustParsePrefix("10.0.0.1/32")},
		"a route": {Routes: []fabric.Route{{To: netip.MustParsePrefix("10.9.0.0/16"), Src: netip.MustParseAddr("10.0.0.1")}}},
	} {
		f, snap := cables()
		a := f.Hosts[0]
		p.Name, p.Host, p.NIC, p.Table, p.Priority = "through0", "a", a.NICs[1].Ref(), 102, 10102
		a.Policy = append(a.Policy, &p)
		plan := planOf(f, snap, resource.Record{}, "b")
		acts, left := shown(plan)
		if !slices.Contains(left, "policy_route.through0") || !slices.Contains(acts, "update nic.rail1") || !slices.Contains(acts, "create policy_route.of1") {
			t.Errorf("%s: changed %q, left out %q", name, acts, left)
		}
		const file = "/etc/systemd/network/05-fabricform-f-eth1.network"
		if slices.Contains(acts, "persist.files file "+file) || !slices.ContainsFunc(plan.Notes, func(n string) bool { return strings.HasPrefix(n, file+" stays as it is") }) {
			t.Errorf("%s: changed %q, notes %q", name, acts, plan.Notes)
		}
	}
}

// TestWhatIsRemovedIsNotLeftOut: what was a block of its own is undone. What is the other half of a change that is left out
// waits for it: an MTU that the files no longer declare, and the old route.
func TestWhatIsRemovedIsNotLeftOut(t *testing.T) {
	f, snap := cables()
	a := f.Hosts[0]
	snap.Links[1].MTU = 9000
	snap.Routes = []host.Route{{Table: 254, Dst: netip.MustParsePrefix("10.8.0.0/16"), Via: netip.MustParseAddr("10.0.0.2"), OutIndex: 2}}
	snap.RDMA = []facts.RDMADevice{{Name: "old0", Driver: "rxe", Netdev: "eth2", Virtual: true}}
	record := resource.Record{Atoms: map[resource.Atom]resource.Owned{
		"nic eth0 mtu": {Earlier: "1500", Ours: "9000"}, "route 254 10.8.0.0/16 0": {Ours: "via 10.0.0.2 dev eth0"}, "rxe old0 netdev": {Ours: "eth2"},
	}}
	a.RXE = nil
	a.NICs[0].MTU = 0
	undone := func(p planner.HostPlan) (out []string) {
		for _, act := range p.Actions {
			if act.Op == planner.Undo {
				out = append(out, act.Resource.Addr.Kind)
			}
		}
		return out
	}
	if d := cmp.Diff([]string{"rxe", "route", "nic"}, undone(planOf(f, snap, record))); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"rxe"}, undone(planOf(f, snap, record, "b"))); d != "" {
		t.Error(d)
	}
	a.Routes = nil // the block was taken out
	if d := cmp.Diff([]string{"rxe", "route"}, undone(planOf(f, snap, record, "b"))); d != "" {
		t.Error(d)
	}
}

// TestOnlyTheOldRoutesOfALeftOutLinkWaitForIt: the old route and rule of another NIC are removed, although there are others
// of the same table at the link that is left out.
func TestOnlyTheOldRoutesOfALeftOutLinkWaitForIt(t *testing.T) {
	f, snap := cables()
	at := func(address string) netip.Prefix { return netip.MustParsePrefix(address) }
	snap.Addrs = []host.Addr{{Index: 2, Prefix: at("10.0.0.5/30")}, {Index: 3, Prefix: at("10.0.1.5/30")}}
	snap.Routes = []host.Route{
		{Table: 254, Dst: at("10.7.0.0/16"), Via: netip.MustParseAddr("10.0.0.6"), OutIndex: 2},
		{Table: 254, Dst: at("10.8.0.0/16"), Via: netip.MustParseAddr("10.0.1.6"), OutIndex: 3},
	}
	snap.Rules = []host.Rule{{From: at("10.0.0.5/32"), Table: 100, Priority: 10090}, {From: at("10.0.1.5/32"), Table: 101, Priority: 10091}}
	record := resource.Record{Atoms: map[resource.Atom]resource.Owned{}}
	for _, atom := range []resource.Atom{"route 254 10.7.0.0/16 0", "route 254 10.8.0.0/16 0", "policy_route rule 10090 100 10.0.0.5/32 all", "policy_route rule 10091 101 10.0.1.5/32 all"} {
		kind, _ := Kinds().Lookup(atom.Kind())
		c, _, _ := kind.Undo(snap, atom, "")
		record.Atoms[atom] = resource.Owned{Ours: c.From}
	}
	var undone []string
	for _, act := range planOf(f, snap, record, "b").Actions {
		for _, c := range act.Changes {
			if act.Op == planner.Undo {
				undone = append(undone, string(c.Atom))
			}
		}
	}
	if d := cmp.Diff([]string{"policy_route rule 10091 101 10.0.1.5/32 all", "route 254 10.8.0.0/16 0"}, undone); d != "" {
		t.Error(d)
	}
}

// TestANetworkGoesOnWithoutAMember: except for a change of its MTU or subnet.
func TestANetworkGoesOnWithoutAMember(t *testing.T) {
	const eth0 = 2
	has := func(address string) []host.Addr {
		return []host.Addr{{Index: eth0, Prefix: netip.MustParsePrefix(address)}}
	}
	for _, c := range []struct {
		name   string
		undone bool // the files declare no MTU any more
		mtu    int
		addrs  []host.Addr
		atoms  map[resource.Atom]resource.Owned
		leaves bool
	}{
		{name: "a NIC that joins", mtu: 1500},
		{name: "another MTU", mtu: 1500, addrs: has("10.0.0.1/30"), leaves: true},
		{name: "an MTU that was applied before", mtu: 1500, addrs: has("10.0.0.1/30"), atoms: map[resource.Atom]resource.Owned{"nic eth0 mtu": {Earlier: "1280", Ours: "1500"}}, leaves: true},
		{name: "an MTU that drifted", mtu: 1500, addrs: has("10.0.0.1/30"), atoms: map[resource.Atom]resource.Owned{"nic eth0 mtu": {Earlier: "1500", Ours: "9000"}}},
		{name: "an MTU that is no longer declared", undone: true, mtu: 9000, addrs: has("10.0.0.1/30"), atoms: map[resource.Atom]resource.Owned{"nic eth0 mtu": {Earlier: "1500", Ours: "9000"}}, leaves: true},
		{name: "another subnet", mtu: 9000, addrs: has("10.7.0.1/30"), leaves: true},
		{name: "another address", mtu: 9000, addrs: has("10.0.0.2/30")},
		{name: "a foreign address", mtu: 9000, addrs: append(has("10.7.0.1/30"), has("10.0.0.1/30")...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, snap := cables()
			f.Networks = []*fabric.Network{{Name: "n", Role: "training", Members: f.Links[0].Endpoints}}
			f.Links = nil
			if c.undone {
				f.Hosts[0].NICs[0].MTU = 0
			}
			snap.Links[1].MTU, snap.Addrs = c.mtu, c.addrs
			acts, left := shown(planOf(f, snap, resource.Record{Atoms: c.atoms}, "b"))
			if slices.Contains(left, "nic.rail0") != c.leaves || slices.Contains(acts, "update nic.rail0") == c.leaves || slices.Contains(acts, "undo nic.eth0") || !slices.Contains(acts, "update nic.rail1") {
				t.Errorf("changed %q, left out %q", acts, left)
			}
		})
	}
}

// TestAFileOfSeveralNICsIsLeftOutAsAWhole: netplan has one file. The plan says that the other NIC's changes do not last yet.
func TestAFileOfSeveralNICsIsLeftOutAsAWhole(t *testing.T) {
	f, snap := cables()
	netmanager.Part.Put(snap, netmanager.Found{Active: []string{"netplan", "systemd-networkd"}, Behind: "systemd-networkd"})
	p := planOf(f, snap, resource.Record{}, "b")
	acts, _ := shown(p)
	if slices.ContainsFunc(acts, func(a string) bool { return strings.Contains(a, "netplan") }) || !slices.Contains(acts, "update nic.rail1") {
		t.Errorf("changed %q", acts)
	}
	if !slices.ContainsFunc(p.Notes, func(n string) bool {
		return strings.Contains(n, "/etc/netplan/90-fabricform-f.yaml stays as it is, because it depends on nic rail0, which is left out")
	}) {
		t.Errorf("notes %q", p.Notes)
	}
}
