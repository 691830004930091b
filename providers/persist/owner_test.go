package persist

import (
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/netmanager"
)

func claim(manager, file string, exact bool) map[string]facts.Claim {
	return map[string]facts.Claim{"ens1f0": {Manager: manager, File: file, Exact: exact}}
}

func TestOwner(t *testing.T) {
	netplanned := []string{facts.Netplan, facts.Networkd}
	both := []string{facts.NetworkManager, facts.Networkd}
	for name, c := range map[string]struct {
		active   []string
		claims   map[string]facts.Claim
		declared string
		want     string // manager, or what the error says
	}{
		"nobody":                                   {nil, nil, "", ""},
		"the one manager":                          {[]string{facts.NetworkManager}, nil, "", facts.NetworkManager},
		"netplan is a front":                       {netplanned, nil, "", facts.Netplan},
		"netplan, and another one beside it":       {[]string{facts.Netplan, facts.NetworkManager, facts.Networkd}, nil, "", "several network managers are active"},
		"two of them":                              {both, claimOf("mgmt0", facts.Networkd, "/etc/systemd/network/10-m.network"), "", "systemd-networkd (configures mgmt0 by /etc/systemd/network/10-m.network)"},
		"two of them, and one is named":            {both, nil, facts.Networkd, facts.Networkd},
		"who configures the NIC by a pattern":      {both, claim(facts.NetworkManager, "/etc/NetworkManager/system-connections/any", false), "", facts.NetworkManager},
		"a file of ours":                           {both, claim(facts.Networkd, "/etc/systemd/network/05-fabricform-lab-ens1f0.network", true), "", facts.Networkd},
		"netplan's output of ours":                 {netplanned, claim(facts.Netplan, "/run/systemd/network/10-netplan-00-fabricform-lab-ens1f0.network", true), "", facts.Netplan},
		"another fabric's":                         {both, claim(facts.Networkd, "/etc/systemd/network/05-fabricform-old-ens1f0.network", true), "", "of another fabric"},
		"a file of others for this NIC":            {both, claim(facts.Networkd, "/etc/systemd/network/20-x.network", true), "", "20-x.network configures ens1f0 already"},
		"a pattern that is read before our file":   {both, claim(facts.Networkd, "/etc/systemd/network/00-all.network", false), "", "comes before our file"},
		"a pattern that is read after our file":    {both, claim(facts.Networkd, "/etc/systemd/network/80-all.network", false), "", facts.Networkd},
		"a manager that is not active is named":    {both, nil, facts.Ifupdown, "it is not active here"},
		"a manager that nothing is written for":    {both, nil, "ifcfg", "does not write its files"},
		"a claim of a manager that has stopped":    {[]string{facts.Networkd}, claim(facts.NetworkManager, "/etc/NetworkManager/system-connections/any", false), "", facts.Networkd},
		"interfaces.d is not read":                 {[]string{facts.Ifupdown}, nil, "", "does not read interfaces.d"},
		"ifupdown's file of ours, without dots":    {[]string{facts.Ifupdown}, claim(facts.Ifupdown, "/etc/network/interfaces.d/fabricform-lab_2-ens1f0_7", true), "", facts.Ifupdown},
		"ifupdown's of another fabric":             {[]string{facts.Ifupdown}, claim(facts.Ifupdown, "/etc/network/interfaces.d/fabricform-lab-ens1f0", true), "", "of another fabric"},
		"netplan's own file of others for the NIC": {netplanned, claim(facts.Netplan, "/run/systemd/network/10-netplan-ens1f0.network", true), "", "10-netplan-ens1f0.network configures ens1f0 already"},
	} {
		t.Run(name, func(t *testing.T) {
			snap := snapshot(c.active...)
			snap.Managers.Claims, snap.Managers.Sourced = c.claims, c.claims != nil
			s := rich()
			l := netmanager.Link{NIC: s.NICs[0], Link: snap.Links[0], Fabric: s.Fabric}
			if c.claims["ens1f0"].Manager == facts.Ifupdown {
				l.Link.Name, l.Fabric = "ens1f0.7", "lab.2"
				snap.Managers.Claims = map[string]facts.Claim{l.Link.Name: c.claims["ens1f0"]}
			}
			l, err := owned(snap.Managers, c.declared, l)
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

func claimOf(netdev, manager, file string) map[string]facts.Claim {
	return map[string]facts.Claim{netdev: {Manager: manager, File: file, Exact: true}}
}

func TestOthersGiveTheAddressesAndGoOn(t *testing.T) {
	snap := snapshot(facts.Networkd)
	snap.Managers.Claims = claimOf("ens-3.7", facts.Networkd, "/etc/systemd/network/20-storage.network")
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
	snap := snapshot(facts.Networkd)
	snap.Links[0].Name, snap.Links[0].AltNames = "eth0;reboot\n", []string{"ens1f0"}
	if _, _, err := Files(snap, rich()); err == nil || !strings.Contains(err.Error(), "cannot stand in files") {
		t.Error(err)
	}
	s := rich()
	s.Fabric = "../x"
	if _, _, err := Files(snapshot(facts.Networkd), s); err == nil {
		t.Error("a fabric's name leads out of the folder")
	}
}
