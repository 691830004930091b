package netmanager

import (
	"fmt"
	"strings"
	"testing"
)

// TestTheLinesOfALinkAreFound in the files of managers that have several links in one.
func TestTheLinesOfALinkAreFound(t *testing.T) {
	const yaml = `network:
  version: 2
  ethernets:
    eth1: {dhcp4: false} # one
    "eth2":
      mtu: 9000

      addresses:
        - 10.0.0.1/24
    # of the storage
    eth22: {}
  bonds:
    bond0:
      interfaces: [eth1, eth2]
`
	const stanzas = `source /etc/network/interfaces.d/*
auto lo eth1
auto eth1
iface eth1 inet static
	address 10.0.0.1/24

	# of the rail
	mtu 9000
iface eth1 inet6 static
	address fd00::1/64
allow-hotplug eth2
iface eth2 inet manual
auto eth1
`
	const holed = "network:\n  ethernets:\n    eth1:\n      mtu: 9000\n# of the rail\n      addresses: [10.0.0.1/24]\n\n    'id0':\n      match: {name: eth2}\n  vlans:\n    eth1.5: {id: 5, link: eth1}\n"
	for _, c := range []struct {
		of    func(text string, names []string) [][2]int
		text  string
		names string
		want  string
	}{
		{netplanStanzas, yaml, "eth1", "[[4 4]]"},
		{netplanStanzas, yaml, "eth2", "[[5 9]]"},
		{netplanStanzas, yaml, "eth1 eth2", "[[4 9]]"},
		{netplanStanzas, yaml, "eth22", "[[11 11]]"},
		{netplanStanzas, yaml, "bond0", "[[12 14]]"},
		{netplanStanzas, yaml, "eth22 eth2 eth1", "[[3 11]]"},
		{netplanStanzas, yaml, "eth3", "[]"},
		{netplanStanzas, "network: {ethernets: {eth1: {}}}", "eth1", "[]"},
		{netplanStanzas, holed, "eth1", "[[3 6]]"},
		{netplanStanzas, holed, "id0 eth1.5", "[[8 11]]"},
		{netplanStanzas, holed, "id0 eth1", "[[2 9]]"},
		{ifupdownStanzas, stanzas, "eth1", "[[3 10] [13 13]]"},
		{ifupdownStanzas, stanzas, "eth2", "[[11 12]]"},
		{ifupdownStanzas, stanzas, "eth1 eth2", "[[3 13]]"},
		{ifupdownStanzas, stanzas, "eth3", "[]"},
		{ifupdownStanzas, "auto eth1 eth2\niface eth1 inet manual\n", "eth1 eth2", "[[1 2]]"},
		{ifupdownStanzas, "auto eth1 eth2\niface\nauto\niface eth1 inet manual\n", "eth1", "[[4 4]]"},
	} {
		if got := fmt.Sprint(c.of(c.text, strings.Fields(c.names))); got != c.want {
			t.Errorf("%s: %s, want %s", c.names, got, c.want)
		}
	}
}

// TestWhatAPersonRemoves of each file: its lines, all of it, or what it says of a link, and never the file of a link that stays.
func TestWhatAPersonRemoves(t *testing.T) {
	const behind = "/run/systemd/network/10-netplan-"
	r := etc(t, map[string]string{
		"/etc/netplan/50-rails.yaml": "network:\n  ethernets:\n    port0:\n      match: {name: eth1}\n    eth2: {mtu: 9000}\n    eth3: {}\n",
		"/etc/netplan/60-more.yaml":  "network:\n  ethernets:\n    eth2: {dhcp4: false}\n",
		"/etc/network/interfaces":    "iface eth1 inet manual\n",
	})
	claim := func(manager, file string, exact bool) Claim { return Claim{Manager: manager, File: file, Exact: exact} }
	for _, c := range []struct {
		netdevs string
		claims  map[string]Claim
		want    string
	}{
		{"eth1 eth2", map[string]Claim{"eth1": claim("netplan", behind+"port0.network", true), "eth2": claim("netplan", behind+"eth2.network", true)},
			"eth1 eth2: remove lines 3 to 5 of /etc/netplan/50-rails.yaml, a file of netplan, then run `netplan generate`\n" +
				"eth2: remove lines 2 to 3 of /etc/netplan/60-more.yaml, a file of netplan, then run `netplan generate`\n"},
		{"eth9", map[string]Claim{"eth9": claim("netplan", behind+"all.network", true)},
			"eth9: remove all from the files in /etc/netplan, from which netplan made " + behind + "all.network, then run `netplan generate`\n"},
		{"eth1", map[string]Claim{"eth1": claim("ifupdown", "/etc/network/interfaces", true)}, "eth1: remove line 1 of /etc/network/interfaces, a file of ifupdown\n"},
		{"eth2", map[string]Claim{"eth2": claim("ifupdown", "/etc/network/interfaces", true)}, "eth2: remove eth2 from /etc/network/interfaces, a file of ifupdown\n"},
		{"eth1 eth2", map[string]Claim{"eth1": claim("systemd-networkd", "/etc/systemd/network/x.network", true), "eth2": claim("systemd-networkd", "/etc/systemd/network/x.network", true)},
			"eth1 eth2: remove /etc/systemd/network/x.network, a file of systemd-networkd\n"},
		{"eth1", map[string]Claim{"eth1": claim("systemd-networkd", "/etc/systemd/network/x.network", true), "mgmt0": claim("systemd-networkd", "/etc/systemd/network/x.network", true)},
			"eth1: remove eth1 from /etc/systemd/network/x.network, a file of systemd-networkd\n"},
		{"eth1", map[string]Claim{"eth1": claim("systemd-networkd", "/etc/systemd/network/00.network", false)},
			"eth1: exclude eth1 from the pattern in /etc/systemd/network/00.network, a file of systemd-networkd, or rename the file so that it sorts after ours\n"},
	} {
		got := ""
		for _, x := range Removals(t.Context(), r, strings.Fields(c.netdevs), c.claims) {
			got += strings.Join(x.Links, " ") + ": " + x.Text + "\n"
		}
		if got != c.want {
			t.Errorf("%s:\n%swant\n%s", c.netdevs, got, c.want)
		}
	}
}
