package netmanager

import (
	"fmt"
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
	for _, c := range []struct {
		of     func(text, netdev string) [][2]int
		text   string
		netdev string
		want   string
	}{
		{netplanStanzas, yaml, "eth1", "[[4 4]]"},
		{netplanStanzas, yaml, "eth2", "[[5 9]]"},
		{netplanStanzas, yaml, "eth22", "[[11 11]]"},
		{netplanStanzas, yaml, "bond0", "[[13 14]]"},
		{netplanStanzas, yaml, "eth3", "[]"},
		{netplanStanzas, "network: {ethernets: {eth1: {}}}", "eth1", "[]"},
		{ifupdownStanzas, stanzas, "eth1", "[[3 10] [13 13]]"},
		{ifupdownStanzas, stanzas, "eth2", "[[11 12]]"},
		{ifupdownStanzas, stanzas, "eth3", "[]"},
	} {
		if got := fmt.Sprint(c.of(c.text, c.netdev)); got != c.want {
			t.Errorf("%s: %s, want %s", c.netdev, got, c.want)
		}
	}
	for want, c := range map[string]Claim{
		"remove /etc/sysconfig/x, a file of NetworkManager, or what it says of eth1":  {Manager: "NetworkManager", File: "/etc/sysconfig/x", Exact: true},
		"exclude eth1 from the pattern in /etc/systemd/x.network, a file of networkd": {Manager: "networkd", File: "/etc/systemd/x.network"},
	} {
		if got := Removal(t.Context(), nil, "eth1", c); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
