package persist

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

func uncharged(s *facts.Snapshot) { found(s, func(f *netmanager.Found) { f.InCharge = nil }) }

func TestNetworkManagerKeepsOffUntilItsFileIsThere(t *testing.T) {
	nm := func(change func(*facts.Snapshot)) func() *facts.Snapshot {
		return func() *facts.Snapshot {
			s := snapshot(networkManager)
			s.Files = map[string]facts.File{}
			change(s)
			return s
		}
	}
	const first = "/etc/NetworkManager/system-connections/fabricform-lab-ens1f0.nmconnection"
	for name, c := range map[string]struct {
		snap func() *facts.Snapshot
		want string
	}{
		"it is in charge": {nm(func(*facts.Snapshot) {}), "ens1f0 ens2f0"},
		"it keeps off":    {nm(uncharged), ""},
		"our file is there": {nm(func(s *facts.Snapshot) {
			s.Files[first] = facts.File{Text: netmanager.Header("lab")}
		}), "ens2f0"},
		"a file of others is in its place": {nm(func(s *facts.Snapshot) {
			s.Files[first] = facts.File{Text: "[connection]\n"}
		}), "ens1f0 ens2f0"},
		"a profile without a file, and one with other addresses": {nm(func(s *facts.Snapshot) {
			found(s, func(f *netmanager.Found) {
				f.Orphans = map[string]string{"ens1f0": "4bfb8e5d-bdff-40aa-b0e9-993f25e0420b", "ens2f0": "7daa3fb7-1040-4aca-80bb-87f4238d5e56"}
			})
			for _, p := range rich().NICs[0].Addresses {
				s.Addrs = append(s.Addrs, host.Addr{Index: 2, Prefix: p})
			}
			s.Addrs = append(s.Addrs, host.Addr{Index: 2, Prefix: netip.MustParsePrefix("fe80::1/64"), Scope: 253}, host.Addr{Index: 3, Prefix: netip.MustParsePrefix("10.9.9.9/24")})
		}), "ens2f0"},
		"another manager configures": {func() *facts.Snapshot { return snapshot(networkd) }, ""},
		"nobody does":                {func() *facts.Snapshot { return snapshot() }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := handsOff{}.Observe(c.snap(), rich())
			if err != nil || strings.Join(got.NICs, " ") != c.want {
				t.Errorf("%v, %v; want %q", got, err, c.want)
			}
			if n := len(handsOff{}.Diff(rich(), got)); n != len(got.NICs) {
				t.Errorf("%d changes for %v", n, got.NICs)
			}
		})
	}
	atom := resource.NewAtom(KindManager, "ens1f0", "charge")
	for want, s := range map[string]*facts.Snapshot{inCharge: nm(func(*facts.Snapshot) {})(), unmanaged: nm(uncharged)(), "": snapshot(networkd)} {
		if got := (handsOff{}).live(s, atom); got != want {
			t.Errorf("live %q, want %q", got, want)
		}
	}
	if !(handsOff{}).Claims(snapshot(networkManager), rich(), atom) || (handsOff{}).Claims(snapshot(networkManager), Spec{Fabric: "lab"}, atom) {
		t.Error("claims")
	}
}

// TestOnlyAMemberIsAsDeclaredInABond: a NIC that has yet to join the bond is released, because its profile does not know the bond.
func TestOnlyAMemberIsAsDeclaredInABond(t *testing.T) {
	l := netmanager.Link{Link: host.Link{Index: 2, Name: "ens1f0"}}
	if !asDeclared(&facts.Snapshot{}, l) {
		t.Error("a NIC without addresses, and none are declared")
	}
	l.Master = &netmanager.Link{}
	if asDeclared(&facts.Snapshot{}, l) {
		t.Error("a NIC that is in no bond")
	}
	if l.Link.Master = 7; !asDeclared(&facts.Snapshot{}, l) {
		t.Error("a member")
	}
}

// remembering is a host whose NetworkManager manages all NICs, which have addresses, and a bond. ens2f0 may be in the bond.
type remembering struct {
	managed
	addrs []host.Addr
	bond  int // the index of the bond that has ens2f0
}

func (r *remembering) Links(ctx context.Context) ([]host.Link, error) {
	links, err := r.managed.Links(ctx)
	links = append(slices.Clone(links), host.Link{Index: 9, Name: "bond0", Kind: "bond"})
	links[1].Master = r.bond
	return links, err
}

func (r *remembering) Addrs(context.Context) ([]host.Addr, error) { return r.addrs, nil }

// TestNetworkManagerKeepsTheProfileOfWhatStays: it forgets a profile whose file is gone only if it is told to, and would then remove what stays.
func TestNetworkManagerKeepsTheProfileOfWhatStays(t *testing.T) {
	const dir, orphan = "/etc/NetworkManager/system-connections/", "4bfb8e5d-bdff-40aa-b0e9-993f25e0420b"
	profile := func(netdev, address string) step {
		return step{path: dir + "fabricform-lab-" + netdev + ".nmconnection", was: &facts.File{Text: netmanager.Header("lab") +
			"[connection]\nid=fabricform-lab-" + netdev + "\ntype=ethernet\n\n[ipv4]\naddress1=" + address + "\n\n[ipv6]\naddress1=fd00::1/64\n"}}
	}
	stays, goes := profile("ens1f0", "10.0.0.1/24"), profile("ens2f0", "10.0.1.1/24")
	written := step{path: goes.path, put: true, text: goes.was.Text}
	yaml := step{path: "/etc/netplan/90-fabricform-lab.yaml", was: &facts.File{Text: netmanager.Header("lab") +
		"network:\n  version: 2\n  ethernets:\n    00-fabricform-lab-ens1f0:\n      # device: ens1f0\n      addresses:\n        - \"10.0.0.1/24\"\n        - \"fd00::1/64\"\n"}}
	removed := func(netdev, text string) step {
		return step{path: dir + "fabricform-lab-" + netdev + ".nmconnection", was: &facts.File{Text: netmanager.Header("lab") +
			"[connection]\nid=fabricform-lab-" + netdev + "\n" + text}}
	}
	member := removed("ens2f0", "type=ethernet\nmaster=4bfb8e5d-bdff-40aa-b0e9-993f25e0420b\nslave-type=bond\n")
	yamlMember := step{path: yaml.path, was: &facts.File{Text: netmanager.Header("lab") + "network:\n  version: 2\n  ethernets:\n    00-fabricform-lab-ens2f0:\n" +
		"      # device: ens2f0\n  bonds:\n    bond0:\n      # device: bond0\n      interfaces: [00-fabricform-lab-ens3f0, 00-fabricform-lab-ens2f0]\n"}}
	yamlVLAN := step{path: yaml.path, was: &facts.File{Text: netmanager.Header("lab") + "network:\n  version: 2\n  vlans:\n    ens-3.7:\n      # device: ens-3.7\n      id: 7\n"}}
	for name, c := range map[string]struct {
		todo    []step
		changed []resource.Atom // by the transaction
		orphan  bool            // of ens2f0
		want    string
	}{
		"a member of a bond stays":          {[]step{member}, nil, false, ""},
		"a member has left its bond":        {[]step{member}, nil, false, "nmcli connection reload"},
		"a member was taken again":          {[]step{member}, []resource.Atom{"bond b0 device", "bond b0 member ens2f0"}, false, "nmcli connection reload"},
		"another member goes":               {[]step{member}, []resource.Atom{"bond b0 mode", "bond b0 member ens1f0"}, false, ""},
		"a member of a bond of netplan":     {[]step{yamlMember}, nil, false, "netplan generate"},
		"one that has left that of netplan": {[]step{yamlMember}, []resource.Atom{"bond bond0 device", "bond bond0 member ens2f0"}, false, "netplan generate; nmcli connection reload"},
		"a VLAN stays":                      {[]step{removed("ens-3.7", "type=vlan\n")}, []resource.Atom{"vlan ens-3.7 id"}, false, ""},
		"a VLAN is made again":              {[]step{removed("ens-3.7", "type=vlan\n")}, []resource.Atom{"vlan ens-3.7 device"}, false, "nmcli connection reload"},
		"a VLAN of netplan stays":           {[]step{yamlVLAN}, nil, false, "netplan generate"},
		"that of netplan is made again":     {[]step{yamlVLAN}, []resource.Atom{"vlan ens-3.7 device"}, false, "netplan generate; nmcli connection reload"},
		"a VLAN is gone":                    {[]step{removed("ens-3.8", "type=vlan\n")}, nil, false, "nmcli connection reload"},
		"another device has its name":       {[]step{removed("ens-3.7", "type=bond\n")}, nil, false, "nmcli connection reload"},
		"one stays":                         {[]step{stays}, nil, false, ""},
		"one goes":                          {[]step{goes}, nil, false, "nmcli connection reload"},
		"one stays, and one goes":           {[]step{stays, goes}, nil, false, "nmcli connection load " + goes.path},
		"one stays, and one is written":     {[]step{stays, written}, nil, false, "nmcli connection load " + written.path},
		"one is written":                    {[]step{written}, nil, false, "nmcli connection reload"},
		"one continues a profile":           {[]step{written}, nil, true, "nmcli connection reload"},
		"beside a profile without a file":   {[]step{{path: stays.path, put: true, text: stays.was.Text}}, nil, true, "nmcli connection load " + stays.path},
		"one of netplan stays":              {[]step{yaml}, nil, false, "netplan generate"},
		"one of netplan is written":         {[]step{{path: yaml.path, put: true, text: yaml.was.Text}}, nil, false, "netplan generate; nmcli connection reload"},
		"one of netplan beside one without": {[]step{{path: yaml.path, put: true, text: yaml.was.Text}}, nil, true, "netplan generate; nmcli connection load /run/NetworkManager/system-connections/netplan-00-fabricform-lab-ens1f0.nmconnection"},
	} {
		h := &remembering{managed: managed{newFake(t)}}
		services := h.root + "/sys/fs/cgroup/system.slice/"
		if err := errors.Join(os.MkdirAll(h.root+"/run/NetworkManager/devices", 0o755),
			os.Rename(services+"systemd-networkd.service", services+"NetworkManager.service")); err != nil {
			t.Fatal(err)
		}
		links, err := h.Links(t.Context())
		for _, l := range links {
			err = errors.Join(err, os.WriteFile(fmt.Sprintf("%s/run/NetworkManager/devices/%d", h.root, l.Index), []byte("[device]\nmanaged=true\n"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		if c.orphan {
			if err := os.WriteFile(h.root+"/run/NetworkManager/devices/3", []byte("[device]\nmanaged=true\nconnection-uuid="+orphan+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(name, "left") {
			h.bond = 9
		}
		h.addrs = []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}, {Index: 2, Prefix: netip.MustParsePrefix("fd00::1/64")}}
		if err := reread(resource.WithChanged(t.Context(), c.changed), h, c.todo); err != nil || strings.Join(h.asked, "; ") != c.want {
			t.Errorf("%s: %v\n%s", name, err, strings.Join(h.asked, "; "))
		}
	}
}

// TestOurFileContinuesAProfileWithoutAFile, from its first text on.
func TestOurFileContinuesAProfileWithoutAFile(t *testing.T) {
	const first, second = "4bfb8e5d-bdff-40aa-b0e9-993f25e0420b", "7daa3fb7-1040-4aca-80bb-87f4238d5e56"
	for _, name := range []string{"networkmanager", "netplan-networkmanager"} {
		snap := *managedHosts[name]
		found(&snap, func(f *netmanager.Found) { f.Orphans = map[string]string{"ens1f0": first} })
		files, _ := wantFiles(t, &snap)
		snap.Files = map[string]facts.File{}
		has := false
		for _, f := range files {
			snap.Files[f.Path] = facts.File{Text: f.Text}
			has = has || strings.Contains(f.Text, first)
		}
		found(&snap, func(f *netmanager.Found) { f.Orphans = map[string]string{"ens1f0": second, "ens2f0": second} })
		again, _ := wantFiles(t, &snap)
		if !has || !slices.Equal(files, again) {
			t.Errorf("%s: %v\n%v\n%v", name, has, files, again)
		}
	}
}

// TestWhatNetworkManagerIsKeptOffIsSaid: it takes such a NIC up when it is told to, and not at boot.
func TestWhatNetworkManagerIsKeptOffIsSaid(t *testing.T) {
	for name, want := range map[string]string{"networkd": "", "ifupdown": "", "networkmanager": "rail0 rail1", "netplan-networkmanager": "rail0 rail1"} {
		for _, charge := range []bool{true, false} {
			snap := *managedHosts[name]
			if !charge {
				uncharged(&snap)
			}
			_, notes := wantFiles(t, &snap)
			var said []string
			for _, n := range notes {
				if nic, _, is := strings.Cut(strings.TrimPrefix(n, "nic "), ": NetworkManager does not manage "); is {
					said = append(said, nic)
				}
			}
			if got := strings.Join(said, " "); charge && got != "" || !charge && got != want {
				t.Errorf("%s, in charge %v: %q", name, charge, notes)
			}
		}
	}
}

// gone is a host whose reads end with their context, as those of a dead file server do.
type gone struct{ host.Host }

func (gone) Links(ctx context.Context) ([]host.Link, error) { return nil, ctx.Err() }

func TestTheSnapshotOfManagedNICsEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (handsOff{}).Restorer().Save(ctx, gone{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
