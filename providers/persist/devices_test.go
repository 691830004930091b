package persist

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/providers/netif"
	"github.com/fabricform/fabricform/providers/rxe"
)

// devices has a bond of two NICs, of which one is declared by its MAC, VLANs on the bond and on a NIC whose addresses are not declared, and
// a Soft-RoCE device on a VLAN. Neither the bond nor the VLANs exist yet.
func devices() Spec {
	one := 1
	name := func(netdev string) facts.Selector { return facts.Selector{Netdev: netdev} }
	port := func(block string, on facts.Selector) netmanager.NIC {
		return netmanager.NIC{Name: block, NICSpec: netif.NICSpec{Select: on, MTU: 9000, Up: true, Bond: "b0"}}
	}
	p0, p1 := name("ens1f0"), facts.Selector{MAC: "02:00:00:00:00:03"}
	bond := netif.BondSpec{Members: []facts.Selector{p0, p1}, Mode: "802.3ad", LACPRate: "fast", XmitHash: "layer3+4", MIIMon: 100, MinLinks: &one}
	vlan := netif.VLANSpec{On: name("b0"), ID: 200, PriorityMap: map[int]int{0: 1, 5: 5}}
	on := func(d netif.DeviceSpec, mtu int, addresses ...string) netif.NICSpec {
		return netif.NICSpec{Select: name(d.Name), MTU: mtu, Up: true, Addresses: prefixes(addresses...), AddressesSet: len(addresses) > 0, Device: &d}
	}
	return Spec{Fabric: "lab", NICs: []netmanager.NIC{
		{Name: "astore", NICSpec: on(netif.DeviceSpec{Name: "astore", VLAN: &vlan}, 8000, "10.2.0.1/24", "fd00:2::1/64")}, // its name sorts before the bond's
		{Name: "b0", NICSpec: on(netif.DeviceSpec{Name: "b0", Bond: &bond}, 9000)},
		port("p0", p0), port("p1", p1),
		{Name: "rail", NICSpec: netif.NICSpec{Select: name("ens3f0"), Up: true}},
		{Name: "v7", NICSpec: on(netif.DeviceSpec{Name: "v7", VLAN: &netif.VLANSpec{On: name("ens3f0"), ID: 7}}, 0, "10.7.0.1/24")},
	}, Modules: []string{"rdma_rxe"}, RXE: []rxe.Spec{{Device: "rxe0", On: name("astore")}}}
}

// deviceHosts are the hosts of managedHosts with one more NIC, on which others may stand.
func deviceHost(snap *facts.Snapshot) *facts.Snapshot {
	s := *snap
	s.Links = append(slices.Clone(snap.Links[:2]), host.Link{Index: 5, Name: "ens3f0", MAC: "02:00:00:00:00:05", PermMAC: "02:00:00:00:00:05"})
	return &s
}

// TestFilesOfDevices compares the files of bonds and VLANs with testdata/devices-OWNER.txt.
func TestFilesOfDevices(t *testing.T) {
	for name, snap := range managedHosts {
		t.Run(name, func(t *testing.T) {
			files, notes, err := Files(deviceHost(snap), devices())
			if err != nil {
				t.Fatal(err)
			}
			compareFiles(t, filepath.Join("testdata", "devices-"+name+".txt"), files, notes)
		})
	}
}

// TestBondsAndVLANsAreTakenOverByTheRulesOfNICs: a file of others for a member or for a bond is an error. A NIC below a VLAN may keep its
// file, unless the manager makes VLANs by the file of the NIC below.
func TestBondsAndVLANsAreTakenOverByTheRulesOfNICs(t *testing.T) {
	for _, c := range []struct {
		manager, netdev, file, want string
	}{
		{networkd, "ens1f0", "/etc/systemd/network/20-x.network", "nic p0: /etc/systemd/network/20-x.network configures ens1f0 already"},
		{networkd, "b0", "/etc/systemd/network/20-x.network", "nic b0: /etc/systemd/network/20-x.network configures b0 already"},
		{networkd, "ens3f0", "/etc/systemd/network/20-x.network", "nic rail: /etc/systemd/network/20-x.network configures ens3f0 already"},
		{networkManager, "ens3f0", "/etc/NetworkManager/system-connections/x", ""},
		{ifupdown, "ens3f0", "/etc/network/interfaces", ""},
		{netplan, "b0", "/run/systemd/network/10-netplan-b0.network", "nic b0: /run/systemd/network/10-netplan-b0.network configures b0 already"},
	} {
		active := []string{c.manager}
		if c.manager == netplan {
			active = append(active, networkd)
		}
		snap := deviceHost(snapshot(active...))
		found(snap, func(f *netmanager.Found) {
			f.Claims = map[string]netmanager.Claim{c.netdev: {Manager: c.manager, File: c.file, Exact: true}}
		})
		_, _, err := Files(snap, devices())
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s configures %s by %s: %v; want %q", c.manager, c.netdev, c.file, err, c.want)
		}
		if c.manager != netplan {
			continue
		}
		files, _, err := Files(deviceHost(snapshot(active...)), devices())
		if err != nil {
			t.Fatal(err)
		}
		snap.Files = map[string]facts.File{}
		for _, f := range files {
			snap.Files[f.Path] = facts.File{Text: f.Text}
		}
		if _, _, err := Files(snap, devices()); err != nil {
			t.Errorf("our own output of netplan: %v", err)
		}
	}
}

// TestWhatStandsOnALeftOutNICWaits: the files of a bond, its other members and its VLANs stay as they are while one member is left out.
func TestWhatStandsOnALeftOutNICWaits(t *testing.T) {
	s := devices()
	s.LeftOut = []string{"p0"}
	got, err := Observe(deviceHost(snapshot(networkd)), s)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range got.Wanted {
		if strings.HasPrefix(f.Path, "/etc/systemd/network/") {
			names = append(names, strings.TrimPrefix(f.Path, "/etc/systemd/network/05-fabricform-lab-"))
		}
	}
	if want := []string{"ens3f0.network", "v7.netdev", "v7.network"}; !slices.Equal(names, want) {
		t.Errorf("the files that do not wait are %q, want %q", names, want)
	}
}

// TestABondSurvivesAsAWhole: nothing of a bond is kept unless the bond, its members and what is below them are.
func TestABondSurvivesAsAWhole(t *testing.T) {
	for name, c := range map[string]struct {
		not  string
		want []string
	}{
		"all":               {"", []string{"b0", "p0", "p1", "s", "v"}},
		"the bond is not":   {"b0", []string{"v"}},
		"a member is not":   {"p1", []string{"v"}},
		"the VLAN is not":   {"s", []string{"b0", "p0", "p1", "v"}},
		"the lower NIC not": {"rail", []string{"b0", "p0", "p1", "s"}},
	} {
		ref := func(n string) fabric.NICRef { return fabric.NICRef{Host: "a", NIC: n} }
		nic := func(n string) *fabric.NIC {
			return &fabric.NIC{Name: n, Host: "a", Netdev: n, Up: true, Persist: n != c.not}
		}
		bond, vlan, rail := nic("b0"), nic("s"), nic("v")
		bond.Bond = &fabric.Bond{NICs: []fabric.NICRef{ref("p0"), ref("p1")}, Mode: "802.3ad"}
		vlan.VLAN = &fabric.VLAN{On: ref("b0"), ID: 200}
		rail.VLAN = &fabric.VLAN{On: ref("rail"), ID: 7}
		h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{bond, nic("p0"), nic("p1"), nic("rail"), vlan, rail}}
		var got []string
		for _, n := range h.NICs {
			if n.Name != "rail" && persists(h, n) {
				got = append(got, n.Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q survive, want %q", name, got, c.want)
		}
	}
}

// TestDevicesThatExistAreTakenByARestart: networkd does not see on a reload that the device of a new file exists, also behind netplan; files
// without devices are read by a reload, and NetworkManager is never restarted.
func TestDevicesThatExistAreTakenByARestart(t *testing.T) {
	vlanAlone := devices()
	vlanAlone.NICs, vlanAlone.RXE = vlanAlone.NICs[len(vlanAlone.NICs)-2:], nil
	for name, snap := range managedHosts {
		restarted := func(files []netmanager.File) bool {
			return slices.ContainsFunc(files, func(f netmanager.File) bool {
				m := step{path: f.Path}.manager()
				return m != nil && m.Restarts != nil && m.Restarts(f.Path, f.Text)
			})
		}
		devices, _, err := Files(deviceHost(snap), devices())
		if err != nil {
			t.Fatal(err)
		}
		vlans, _, err := Files(deviceHost(snap), vlanAlone)
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := wantFiles(t, snap)
		want := slices.Contains([]string{"networkd", "netplan", "netplan-networkmanager"}, name) // a front asks for those behind it that have to
		if restarted(devices) != want || restarted(vlans) != want || restarted(plain) {
			t.Errorf("%s: a restart for a bond %t, for a VLAN %t, for others %t; want %t and false", name, restarted(devices), restarted(vlans), restarted(plain), want)
		}
	}
}

// TestAProfileFindsWhatCarriesItsVLAN by the profile of the NIC if that is declared by its MAC: such a NIC may get another name.
func TestAProfileFindsWhatCarriesItsVLAN(t *testing.T) {
	snap := deviceHost(snapshot(networkManager))
	for want, on := range map[string]facts.Selector{"parent=ens3f0\n": {Netdev: "ens3f0"}, "parent=" + "UUID": {MAC: "02:00:00:00:00:05"}} {
		s := devices()
		s.NICs = s.NICs[len(s.NICs)-2:]
		s.NICs[0].Select, s.NICs[0].AddressesSet = on, true // its file is ours
		d := *s.NICs[1].Device
		d.VLAN = &netif.VLANSpec{On: on, ID: 7}
		s.NICs[1].Device, s.RXE = &d, nil
		files, _, err := Files(snap, s)
		if err != nil {
			t.Fatal(err)
		}
		text := map[string]string{}
		for _, f := range files {
			text[filepath.Base(f.Path)] = f.Text
		}
		_, after, _ := strings.Cut(text["fabricform-lab-ens3f0.nmconnection"], "\nuuid=")
		uuid, _, _ := strings.Cut(after, "\n")
		if got := text["fabricform-lab-v7.nmconnection"]; uuid == "" || !strings.Contains(got, strings.Replace(want, "UUID", uuid+"\n", 1)) {
			t.Errorf("on %+v: %s", on, got)
		}
	}
}

// TestAHashThatNetworkdDoesNotKnowIsSaid, also behind netplan; NetworkManager and ifupdown know it.
func TestAHashThatNetworkdDoesNotKnowIsSaid(t *testing.T) {
	for name, snap := range managedHosts {
		s := devices()
		s.NICs[1].Device.Bond.XmitHash = "vlan+srcmac"
		_, notes, err := Files(deviceHost(snap), s)
		if err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(notes, func(n string) bool {
			return strings.HasPrefix(n, `nic b0: networkd does not know xmit_hash = "vlan+srcmac"`)
		})
		if want := name == "networkd" || name == "netplan"; said != want {
			t.Errorf("%s: %q", name, notes)
		}
	}
}

// TestAMadeDeviceIsNotReleased: a bond appears in the middle of an apply, and then belongs to the claimer; nothing must be released for it.
func TestAMadeDeviceIsNotReleased(t *testing.T) {
	snap := deviceHost(snapshot(networkManager))
	snap.Links = append(snap.Links, host.Link{Index: 9, Name: "b0", Kind: "bond"})
	found(snap, func(f *netmanager.Found) { f.InCharge = []string{"b0", "ens1f0"} })
	got, err := handsOff{}.Observe(snap, devices())
	if err != nil || !slices.Equal(got.NICs, []string{"ens1f0"}) {
		t.Errorf("%+v, %v; want the member alone", got, err)
	}
}

// TestANewDeviceGetsTheKernelsDefaultMode of link-local addresses, since it has no live one.
func TestANewDeviceGetsTheKernelsDefaultMode(t *testing.T) {
	snap := deviceHost(snapshot(networkd))
	snap.Sysctls = map[string]string{"net/ipv6/conf/default/addr_gen_mode": "2"}
	for range 2 { // whether or not the snapshot has the planned device
		files, _, err := Files(snap, devices())
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f.Path, "-astore.network") && !strings.Contains(f.Text, "GenerationMode=stable-privacy\n") {
				t.Error(f.Text)
			}
		}
		snap.Links = append(snap.Links, host.Link{Index: -1, Name: "astore", Planned: true})
	}
}

// TestTwoDevicesDoNotShareAFile where a manager's file names have no dots.
func TestTwoDevicesDoNotShareAFile(t *testing.T) {
	for manager, refused := range map[string]bool{networkd: false, networkManager: false, ifupdown: true, ifcfg: true} {
		s := devices()
		twin := s.NICs[len(s.NICs)-1]
		for _, name := range []string{"ens3f0.9", "ens3f0_9"} {
			d := *twin.Device
			d.Name = name
			twin.Name, twin.Device, twin.Select = name, &d, facts.Selector{Netdev: name}
			s.NICs = append(s.NICs, twin)
		}
		if _, _, err := Files(deviceHost(snapshot(manager)), s); (err != nil) != refused || refused && !strings.Contains(err.Error(), "rename one of the interfaces") {
			t.Errorf("%s: %v", manager, err)
		}
	}
}
