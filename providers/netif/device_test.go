package netif

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// bonded is a host with a bond of two NICs and a VLAN on it.
func bonded() *fabric.Host {
	h := &fabric.Host{Name: "a"}
	nic := func(name, netdev string) *fabric.NIC {
		n := &fabric.NIC{Name: name, Host: "a", Netdev: netdev, Up: true, MTU: 9000}
		h.NICs = append(h.NICs, n)
		return n
	}
	p0, p1 := nic("p0", "eth0"), nic("p1", "eth1")
	b := nic("b0", "b0")
	b.Bond = &fabric.Bond{NICs: []fabric.NICRef{p0.Ref(), p1.Ref()}, Mode: "802.3ad", MIIMon: 100}
	v := nic("storage", "storage")
	v.VLAN = &fabric.VLAN{On: b.Ref(), ID: 200, PriorityMap: map[int]int{4: 3}}
	v.AddressesSet, v.Addresses = true, []netip.Prefix{netip.MustParsePrefix("10.2.0.1/24")}
	return h
}

// plain is that host before an apply.
func plain() *facts.Snapshot {
	snap := &facts.Snapshot{Sysctls: map[string]string{}, Links: []host.Link{
		{Index: 2, Name: "eth0", MTU: 9000, Up: true, PermMAC: "02:00:00:00:00:01"},
		{Index: 3, Name: "eth1", MTU: 9000, Up: true, PermMAC: "02:00:00:00:00:02"},
	}}
	modules(KindBond).Put(snap, "")
	modules(KindVLAN).Put(snap, "")
	return snap
}

func specs(t *testing.T, all []resource.Resource) (nics []NICSpec, devices map[string]DeviceSpec) {
	t.Helper()
	devices = map[string]DeviceSpec{}
	for _, r := range all {
		var n NICSpec
		var d DeviceSpec
		if r.Addr.Kind == KindNIC {
			if err := json.Unmarshal(r.Spec, &n); err != nil {
				t.Fatal(err)
			}
			nics = append(nics, n)
		} else if err := json.Unmarshal(r.Spec, &d); err != nil {
			t.Fatal(err)
		} else {
			devices[r.Addr.Name] = d
		}
	}
	return nics, devices
}

// TestDevicesComeBetweenTheirNICs: a bond after its members, a VLAN after its bond, and the NIC that has the settings after the device.
func TestDevicesComeBetweenTheirNICs(t *testing.T) {
	var order []string
	for _, r := range Desired(nil, bonded()) {
		line := r.Addr.Kind + "." + r.Addr.Name + ":"
		for _, a := range r.After {
			line += " " + a.Kind + "." + a.Name
		}
		order = append(order, line)
	}
	want := []string{"nic.p0:", "nic.p1:", "bond.b0: nic.p0 nic.p1", "nic.b0: bond.b0", "vlan.storage: nic.b0", "nic.storage: vlan.storage"}
	if !slices.Equal(order, want) {
		t.Errorf("%v, want %v", order, want)
	}
}

// TestPlansSeeDevicesThatDoNotExistYet: what is on a device, or on a VLAN on it, is planned before the device is made.
func TestPlansSeeDevicesThatDoNotExistYet(t *testing.T) {
	snap := plain()
	nics, devices := specs(t, Desired(nil, bonded()))
	predict(snap, nics)
	predict(snap, nics) // each is there once
	b, v := snap.Link("b0"), snap.Link("storage")
	if len(snap.Links) != 4 || !b.Planned || b.Index >= 0 || v.Parent != b.Index || v.MTU != 9000 {
		t.Fatalf("%+v", snap.Links)
	}
	got, err := nic{}.Observe(snap, nics[3])
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, c := range (nic{}).Diff(nics[3], got) {
		said = append(said, c.Attribute+" "+c.To)
	}
	if !slices.Equal(said, []string{"state up", "address 10.2.0.1/24"}) {
		t.Error(said)
	}
	for name, want := range map[string]string{"b0": "device bond, mode 802.3ad, miimon 100, mtu 9000, member eth0, member eth1",
		"storage": "device vlan, on b0, id 200, priority_map 4:3, mtu 9000"} {
		d, p := devices[name], resource.Provider[DeviceSpec, DeviceStatus](bond{})
		if d.VLAN != nil {
			p = vlan{}
		}
		got, err := p.Observe(snap, d)
		if err != nil || !got.Absent() {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		var said []string
		for _, c := range p.Diff(d, got) {
			said = append(said, c.Attribute+" "+c.To)
		}
		if strings.Join(said, ", ") != want {
			t.Errorf("%s: %v", name, said)
		}
	}
	if carriers := (NICSpec{Select: facts.Selector{Netdev: "eth0"}, Bond: "b0", AddressesSet: true}).WantedSysctls(); len(carriers) != 0 {
		t.Errorf("a member accepts no advertisements anyway: %v", carriers)
	}
}

// TestDevicesThatCannotBeMadeAreRefused names what is in the way, and the cure.
func TestDevicesThatCannotBeMadeAreRefused(t *testing.T) {
	_, devices := specs(t, Desired(nil, bonded()))
	for _, test := range []struct {
		device string
		change func(snap *facts.Snapshot)
		want   string
	}{
		{"b0", func(s *facts.Snapshot) { s.Links = append(s.Links, host.Link{Index: 9, Name: "b0", Kind: "bridge"}) }, "is of kind bridge: set netdev to another name"},
		{"b0", func(s *facts.Snapshot) { s.Links = append(s.Links, host.Link{Index: 9, Name: "b0"}) }, "is a NIC: set netdev"},
		{"b0", func(s *facts.Snapshot) { s.Links[1].AltNames = []string{"b0"} }, "b0 is an alternative name of eth1"},
		{"b0", func(s *facts.Snapshot) {
			s.Links[0].Master = 9
			s.Links = append(s.Links, host.Link{Index: 9, Name: "br0", Kind: "bridge"})
		}, "eth0 is a member of br0, and a NIC has one bond or bridge: remove it there first"},
		{"b0", func(s *facts.Snapshot) {
			s.Links[1].Master = 9
			s.Links = append(s.Links, host.Link{Index: 9, Name: "b1", Kind: "bond"})
		}, `If these files moved it, apply once without it in b0; if they gave the bond another name, write netdev = "b1"`},
		{"b0", func(s *facts.Snapshot) {
			s.Links = append(s.Links, host.Link{Index: 9, Name: "eth0.7", Kind: "vlan", Parent: 2, VLAN: &host.VLAN{ID: 7}})
		}, "VLAN eth0.7 is on eth0, which is a member of a bond: remove the VLAN, and make it on b0. If these files moved it, apply once without its block"},
		{"b0", func(s *facts.Snapshot) { s.Links = s.Links[:1] }, `netdev "eth1" does not exist`},
		{"b0", func(s *facts.Snapshot) { modules(KindBond).Put(s, "no bonding") }, "no bonding"},
		{"storage", func(s *facts.Snapshot) {
			s.Links = append(s.Links, host.Link{Index: 9, Name: "b0", Kind: "bond", MTU: 9000},
				host.Link{Index: 10, Name: "vlan200", Kind: "vlan", Parent: 9, VLAN: &host.VLAN{ID: 200, Protocol: "802.1q"}})
		}, `is named vlan200: write netdev = "vlan200" to take it over, also if only its block has a new name, or remove it. If these files exchanged IDs, apply once without this block`},
		{"storage", func(s *facts.Snapshot) {
			s.Links = append(s.Links, host.Link{Index: 9, Name: "storage", Kind: "vlan", VLAN: &host.VLAN{ID: 200, Protocol: "802.1ad"}})
		}, "with protocol 802.1ad instead of 802.1q"},
		{"b0", func(s *facts.Snapshot) {
			s.Management = facts.Management{Client: netip.MustParseAddr("192.0.2.9"), Server: netip.MustParseAddr("192.0.2.1"), Devices: []string{"eth0"}}
		}, "eth0 carries your SSH connection, and b0 would have its MAC address beside it: name another member first in nics"},
	} {
		snap := plain()
		test.change(snap)
		d := devices[test.device]
		var err error
		if d.Bond != nil {
			_, err = bond{}.Observe(snap, d)
		} else {
			_, err = vlan{}.Observe(snap, d)
		}
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v, want %q", err, test.want)
		}
	}
	snap := plain()
	snap.Links = append(snap.Links, host.Link{Index: 9, Name: "b0", Kind: "bond", MTU: 9000},
		host.Link{Index: 10, Name: "b0.s200", Kind: "vlan", Parent: 9, VLAN: &host.VLAN{ID: 200, Protocol: "802.1ad"}})
	if got, err := (vlan{}).Observe(snap, devices["storage"]); err != nil || !got.Absent() {
		t.Errorf("an 802.1ad VLAN of the same ID is another one: %+v, %v", got, err)
	}
	snap = plain()
	small := DeviceSpec{Name: "v", MTU: 9001, VLAN: &VLANSpec{On: facts.Selector{Netdev: "eth0"}, ID: 7}}
	if _, err := (vlan{}).Observe(snap, small); err == nil || !strings.Contains(err.Error(), "mtu 9001: eth0 has 9000") {
		t.Error(err)
	}
}

// TestDevicesKeepOffTheOperatorsPath: a member that carries the connection is fenced, and joins a bond after the new path was proven.
func TestDevicesKeepOffTheOperatorsPath(t *testing.T) {
	snap := plain()
	snap.Management = facts.Management{Client: netip.MustParseAddr("192.0.2.9"), Server: netip.MustParseAddr("192.0.2.1"), Devices: []string{"eth1"}}
	_, devices := specs(t, Desired(nil, bonded()))
	got, err := bond{}.Observe(snap, devices["b0"])
	if err != nil {
		t.Fatal(err)
	}
	changes := bond{}.Diff(devices["b0"], got)
	if why := (bond{}).Touches(snap, devices["b0"], changes); !strings.Contains(why, "eth1 carries your SSH connection") {
		t.Error(why)
	}
	for _, c := range changes {
		if c.Removes() != (c.Attribute == attrMember) {
			t.Errorf("%s: removes %v", c, c.Removes())
		}
	}
	snap.Links = append(snap.Links, host.Link{Index: 9, Name: "b0", Kind: KindBond, Bond: &host.Bond{}})
	snap.Management.Devices = []string{"b0", "eth0"}
	if _, err := (bond{}).Observe(snap, devices["b0"]); err != nil {
		t.Errorf("a bond that exists has a MAC already: %v", err)
	}
	snap.Links = snap.Links[:2]
	snap.Management.Devices = []string{"eth7"}
	if why := (bond{}).Touches(snap, devices["b0"], changes); why != "" {
		t.Error(why)
	}
	snap.Links = append(snap.Links, host.Link{Index: 9, Name: "storage", Kind: "vlan", Parent: 2, VLAN: &host.VLAN{ID: 200}})
	snap.Management.Devices = []string{"eth0", "storage"}
	if c, why := (vlan{}).Undo(snap, "vlan storage device", ""); !strings.Contains(why, "storage carries") || c.From != "vlan" || c.Downs != "storage" {
		t.Errorf("%s, %q", c, why)
	}
}

// TestDevicesAreOwned: what the block sets is claimed, and an option that it leaves alone is not.
func TestDevicesAreOwned(t *testing.T) {
	_, devices := specs(t, Desired(nil, bonded()))
	for _, test := range []struct {
		atom          resource.Atom
		named, claims bool
	}{
		{"bond b0 device", true, true}, {"bond b0 mode", true, true}, {"bond b0 member eth7", true, true}, {"bond b0 lacp_rate", true, false},
		{"bond b1 device", true, false}, {"bond b0 member", false, false}, {"bond b0 colour", false, false},
		{"vlan storage id", true, true}, {"vlan storage priority_map", true, true}, {"vlan other id", true, false}, {"vlan storage mode", false, false},
	} {
		kind, _ := Kinds().Lookup(test.atom.Kind())
		d := devices["b0"]
		if test.atom.Kind() == KindVLAN {
			d = devices["storage"]
		}
		raw, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		if named := kind.Names(test.atom); named != test.named {
			t.Errorf("%s: named %v", test.atom, named)
		}
		if claims := kind.Claims(plain(), raw, test.atom); claims != test.claims {
			t.Errorf("%s: claimed %v", test.atom, claims)
		}
		_, err = new(backup).reach(plain().Links, []resource.Atom{test.atom})
		if (err == nil) != test.named {
			t.Errorf("%s: %v", test.atom, err)
		}
	}
	if _, err := new(backup).reach(plain().Links, []resource.Atom{"bond b0 device", "nic b0 mtu"}); err != nil {
		t.Error(err)
	}
	if _, err := new(backup).reach(plain().Links, []resource.Atom{"bond b0 device", "nic b1 mtu"}); err == nil {
		t.Error("a device that nobody makes")
	}
}

// TestWhatComesWithAValue is the device, or the member of a bond.
func TestWhatComesWithAValue(t *testing.T) {
	for a, want := range map[resource.Atom]string{"bond b0 device": "b0", "vlan b0.7 device": "b0.7", "bond b0 member eth1": "eth1",
		"bond b0 mode": "", "vlan b0.7 id": "", "nic eth1 state": "", "nic eth1 device": ""} {
		if got := Comes(a); got != want {
			t.Errorf("%s: %q, want %q", a, got, want)
		}
	}
}

// TestAPriorityThatIsNotInTheMapGetsPCP0, because the kernel keeps an entry that is not named.
func TestAPriorityThatIsNotInTheMapGetsPCP0(t *testing.T) {
	entries, err := parseAttrs(egressMap(map[int]int{1: 2, 4: 3}, map[int]int{4: 5, 6: 7}).value)
	if err != nil {
		t.Fatal(err)
	}
	got := map[uint32]uint32{}
	for _, e := range entries {
		got[u32(e.value, 0)] = u32(e.value, 4)
	}
	if want := map[uint32]uint32{1: 0, 4: 5, 6: 7}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestUndoingAnOptionThatNeedsTheBondDownSaysSo, and undoing another does not.
func TestUndoingAnOptionThatNeedsTheBondDownSaysSo(t *testing.T) {
	snap := plain()
	snap.Links = append(snap.Links, host.Link{Index: 9, Name: "b0", Kind: "bond", Up: true, Bond: &host.Bond{Mode: "802.3ad", LACPRate: "fast", MIIMon: 100}})
	for attribute, c := range map[string]struct {
		to    string
		flaps bool
	}{"mode": {"active-backup", true}, "lacp_rate": {"slow", true}, "miimon": {"50", false}, "device": {"", true}} {
		got, _ := bond{}.Undo(snap, deviceAtom(KindBond, "b0", attribute, ""), c.to)
		if got.From == "" || (got.Disruption == resource.LinkFlap) != c.flaps || (got.Downs == "b0") != c.flaps {
			t.Errorf("%s: %+v", attribute, got)
		}
	}
}
