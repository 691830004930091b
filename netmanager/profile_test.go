package netmanager

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/providers/netif"
)

// TestProfilesOfOurFiles: what NetworkManager keeps in memory of our files is read from them, also of a profile that our file continues.
func TestProfilesOfOurFiles(t *testing.T) {
	const continued = "9ac87def-a154-3df4-8933-9f769ede330e"
	addresses := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("10.0.1.1/24"), netip.MustParsePrefix("fd00::1/64")}
	texts := []string{"10.0.0.1/24", "10.0.1.1/24", "fd00::1/64"}
	links := func(m, behind *Manager) []Link {
		first := Link{Fabric: "lab-2", Manager: m, Behind: behind, Continues: continued,
			Link: host.Link{Name: "ens1-f0", MAC: "02:00:00:00:00:01", PermMAC: "02:00:00:00:00:01"}}
		first.Addresses, first.AddressesSet, first.Up, first.MTU = addresses, true, true, 9000
		second := first
		second.Link.Name, second.Continues, second.MTU, second.Addresses = "ens2f0", "", 0, nil
		return []Link{first, second}
	}

	ls := links(networkManager, nil)
	for i, want := range []Profile{
		{"ens1-f0", keyfileFolder + "/fabricform-lab-2-ens1-f0.nmconnection", continued, texts, "eui64", "", false},
		{"ens2f0", keyfileFolder + "/fabricform-lab-2-ens2f0.nmconnection", ls[1].uuid(), nil, "", "", false},
	} {
		f := keyfile(ls[i])
		if got := keyfileProfiles(f.Path, f.Text); !reflect.DeepEqual(got, []Profile{want}) {
			t.Errorf("%+v\nof\n%s", got, f.Text)
		}
	}
	if got := keyfileProfiles("/p", "[connection]\nid=rail0\nuuid="+continued+"\n"); got != nil {
		t.Errorf("of others: %+v", got)
	}

	withBond := func(ls []Link) (bond Link) {
		bond = ls[0]
		bond.Link.Name, bond.Device, bond.Continues = "bond0", &netif.DeviceSpec{Name: "bond0", Bond: &netif.BondSpec{}}, ""
		bond.Ports, ls[1].Master = []*Link{&ls[1]}, &bond
		return bond
	}
	bond := withBond(ls)
	for i, want := range []Profile{
		{"bond0", keyfileFolder + "/fabricform-lab-2-bond0.nmconnection", bond.uuid(), texts, "eui64", "bond", false},
		{"ens2f0", keyfileFolder + "/fabricform-lab-2-ens2f0.nmconnection", ls[1].uuid(), nil, "", "", true},
	} {
		f := keyfile([]Link{bond, ls[1]}[i])
		if got := keyfileProfiles(f.Path, f.Text); !reflect.DeepEqual(got, []Profile{want}) {
			t.Errorf("%+v\nof\n%s", got, f.Text)
		}
	}

	ls = links(netplan, networkManager)
	bond = withBond(ls)
	f := netplanFile(append(ls, bond))
	want := []Profile{
		{"ens1-f0", "/run/NetworkManager/system-connections/netplan-00-fabricform-lab-2-ens1-f0.nmconnection", continued, texts, "eui64", "", false},
		{"ens2f0", "/run/NetworkManager/system-connections/netplan-00-fabricform-lab-2-ens2f0.nmconnection", "", nil, "", "", true},
		{"bond0", "/run/NetworkManager/system-connections/netplan-bond0.nmconnection", "", texts, "eui64", "bond", false},
	}
	if got := netplanProfiles(f.Path, f.Text); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nof\n%s", got, f.Text)
	}
}
