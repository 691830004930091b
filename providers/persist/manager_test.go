package persist

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/netmanager"
)

func claim(manager, file string, exact bool) map[string]netmanager.Claim {
	return map[string]netmanager.Claim{"ens1f0": {Manager: manager, File: file, Exact: exact}}
}

func TestOwner(t *testing.T) {
	netplanned := []string{netplan, networkd}
	both := []string{networkManager, networkd}
	for name, c := range map[string]struct {
		active   []string
		claims   map[string]netmanager.Claim
		declared string
		want     string // manager, or what the error says
	}{
		"nobody":                                   {nil, nil, "", ""},
		"the one manager":                          {[]string{networkManager}, nil, "", networkManager},
		"netplan is a front":                       {netplanned, nil, "", netplan},
		"netplan, and another one beside it":       {[]string{netplan, networkManager, networkd}, nil, "", "several network managers are active"},
		"two of them":                              {both, claimOf("mgmt0", networkd, "/etc/systemd/network/10-m.network"), "", "systemd-networkd (configures mgmt0 by /etc/systemd/network/10-m.network)"},
		"two of them, and one is named":            {both, nil, networkd, networkd},
		"who configures the NIC by a pattern":      {both, claim(networkManager, "/etc/NetworkManager/system-connections/any", false), "", networkManager},
		"a file of ours":                           {both, claim(networkd, "/etc/systemd/network/05-fabricform-lab-ens1f0.network", true), "", networkd},
		"netplan's output of ours":                 {netplanned, claim(netplan, "/run/systemd/network/10-netplan-00-fabricform-lab-ens1f0.network", true), "", netplan},
		"another fabric's":                         {both, claim(networkd, "/etc/systemd/network/05-fabricform-old-ens1f0.network", true), "", "of another fabric"},
		"a file of others for this NIC":            {both, claim(networkd, "/etc/systemd/network/20-x.network", true), "", "20-x.network configures ens1f0 already"},
		"a pattern that is read before our file":   {both, claim(networkd, "/etc/systemd/network/00-all.network", false), "", "comes before our file"},
		"a pattern that is read after our file":    {both, claim(networkd, "/etc/systemd/network/80-all.network", false), "", networkd},
		"a manager that is not active is named":    {both, nil, ifupdown, "is not active here"},
		"one is named that leaves all to others":   {both, nil, ifcfg, ifcfg},
		"a claim of a manager that has stopped":    {[]string{networkd}, claim(networkManager, "/etc/NetworkManager/system-connections/any", false), "", networkd},
		"interfaces.d is not read":                 {[]string{ifupdown}, nil, "", "nic rail0: it does not read interfaces.d"},
		"ifupdown's file of ours, without dots":    {[]string{ifupdown}, claim(ifupdown, "/etc/network/interfaces.d/fabricform-lab_2-ens1f0_7", true), "", ifupdown},
		"ifupdown's of another fabric":             {[]string{ifupdown}, claim(ifupdown, "/etc/network/interfaces.d/fabricform-lab-ens1f0", true), "", "of another fabric"},
		"netplan's own file of others for the NIC": {netplanned, claim(netplan, "/run/systemd/network/10-netplan-ens1f0.network", true), "", "10-netplan-ens1f0.network configures ens1f0 already"},
	} {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(c.active...)
			f := netmanager.Part.Of(snap)
			f.Claims, f.Idle = c.claims, []string{ifcfg}
			if c.claims == nil {
				f.Deaf = map[string]string{ifupdown: "it does not read interfaces.d"}
			}
			s := rich()
			l := netmanager.Link{NIC: s.NICs[0], Link: snap.Links[0], Fabric: s.Fabric}
			if c.claims["ens1f0"].Manager == ifupdown {
				l.Link.Name, l.Fabric = "ens1f0.7", "lab.2"
				f.Claims = map[string]netmanager.Claim{l.Link.Name: c.claims["ens1f0"]}
			}
			l, err := managerOf(f, c.declared, l)
			if err == nil {
				err = conflict(f, l)
			}
			got := ""
			if err != nil {
				got = err.Error()
			} else if l.Manager != nil {
				got = l.Manager.Name
			}
			if err == nil && got != c.want || err != nil && !strings.Contains(got, c.want) || err != nil && c.want == "" {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func claimOf(netdev, manager, file string) map[string]netmanager.Claim {
	return map[string]netmanager.Claim{netdev: {Manager: manager, File: file, Exact: true}}
}

func TestOthersGiveTheAddressesAndGoOn(t *testing.T) {
	snap := snapshot(networkd)
	found(snap, func(f *netmanager.Found) {
		f.Claims = claimOf("ens-3.7", networkd, "/etc/systemd/network/20-storage.network")
	})
	files, _, err := Files(snap, rich())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if strings.Contains(f.Path, "ens-3.7") {
			t.Errorf("%s would take the NIC from the file that gives its addresses", f.Path)
		}
	}
}

func TestNamesThatCannotStandInFiles(t *testing.T) {
	snap := snapshot(networkd)
	snap.Links[0].Name, snap.Links[0].AltNames = "eth0;reboot\n", []string{"ens1f0"}
	if _, _, err := Files(snap, rich()); err == nil || !strings.Contains(err.Error(), "cannot be written to files") {
		t.Error(err)
	}
	s := rich()
	s.Fabric = "../x"
	if _, _, err := Files(snapshot(networkd), s); err == nil {
		t.Error("a fabric's name leads out of the folder")
	}
}
