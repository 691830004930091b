package netmanager

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// tree is a host of files below a folder. Nobody may look into homes: one may be on a file server that
// only the fabric leads to.
type tree struct {
	host.Reader
	t    *testing.T
	root string
}

func (t tree) ReadFile(_ context.Context, p string) ([]byte, error) {
	t.look(p)
	return os.ReadFile(filepath.Join(t.root, p))
}

func (t tree) look(p string) {
	for _, home := range []string{"/home", "/root"} {
		if p == home || strings.HasPrefix(p, home+"/") {
			t.t.Errorf("%s is looked at", p)
		}
	}
}

func (t tree) ReadDir(_ context.Context, p string) ([]string, error) {
	t.look(p)
	entries, err := os.ReadDir(filepath.Join(t.root, p))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// etc writes a host's files below a folder.
func etc(t *testing.T, files map[string]string) tree {
	t.Helper()
	root := t.TempDir()
	for p, text := range files {
		if err := os.MkdirAll(filepath.Dir(root+p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tree{t: t, root: root}
}

const (
	runsNetworkd = "/sys/fs/cgroup/system.slice/systemd-networkd.service/cgroup.procs"
	ranNetwork   = "/var/lock/subsys/network"
	runsNM       = "/sys/fs/cgroup/systemd/system.slice/NetworkManager.service/cgroup.procs"
)

func TestManagersAsTheirFilesTell(t *testing.T) {
	deaf := map[string]string{ifupdownName: "/etc/network/interfaces does not read interfaces.d, the folder of our file: add `source /etc/network/interfaces.d/*` there"}
	for name, c := range map[string]struct {
		files map[string]string
		want  Found
	}{
		"none": {nil, Found{}},
		"networkd, by a pattern and by a MAC": {map[string]string{
			runsNetworkd:                          "1\n",
			"/run/systemd/netif/links/2":          "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/80-all.network\n",
			"/run/systemd/netif/links/3":          "NETWORK_FILE=/run/systemd/network/20-x.network\n",
			"/run/systemd/netif/links/4":          "ADMIN_STATE=unmanaged\n",
			"/etc/systemd/network/80-all.network": "[Match]\nName=eth*\n[Network]\nDHCP=yes\n",
			"/run/systemd/network/20-x.network":   "[Link]\nMACAddress=02:00:00:00:00:09\n[Match]\nPermanentMACAddress=02:00:00:00:00:03 02:00:00:00:00:08\n",
		}, Found{Active: []string{networkdName}, Claims: map[string]Claim{
			"eth0": {networkdName, "/etc/systemd/network/80-all.network", false}, "eth1": {networkdName, "/run/systemd/network/20-x.network", true}}}},
		"netplan before networkd": {map[string]string{
			runsNetworkd:                                   "1\n",
			"/etc/netplan/50-cloud.yaml":                   "# by cloud-init\nnetwork:\n    version: 2\n    ethernets:\n        eth0:\n            renderer: NetworkManager\n",
			"/run/systemd/netif/links/2":                   "NETWORK_FILE=/run/systemd/network/10-netplan-eth0.network\n",
			"/run/systemd/network/10-netplan-eth0.network": "[Match]\nName=eth0\n",
		}, Found{Active: []string{netplan.Name, networkdName}, Behind: networkdName, Claims: map[string]Claim{"eth0": {netplan.Name, "/run/systemd/network/10-netplan-eth0.network", true}}}},
		"netplan before NetworkManager": {map[string]string{
			runsNM: "1\n", runsNetworkd: "1\n",
			"/lib/netplan/00-network-manager-all.yaml":                          "network:\n  version: 2\n  renderer: NetworkManager\n",
			"/run/NetworkManager/devices/2":                                     "[device]\nmanaged=true\nconnection-uuid=23e12276-3c0e-3e91-bd00-95bdee13fea4\n",
			"/run/NetworkManager/system-connections/netplan-mgmt0.nmconnection": "[connection]\nid=netplan-mgmt0\ntype=ethernet\ninterface-name=eth0\n[ethernet]\nuuid=other\n",
		}, Found{Active: []string{netplan.Name, networkManagerName, networkdName}, InCharge: []string{"eth0"}, Behind: networkManagerName,
			Claims: map[string]Claim{"eth0": {netplan.Name, "/run/NetworkManager/system-connections/netplan-mgmt0.nmconnection", true}}}},
		"NetworkManager, by MAC, and a device without a profile": {map[string]string{
			runsNM:                          "1\n",
			"/run/NetworkManager/devices/3": "[device]\nconnection-uuid=u-2\n", "/run/NetworkManager/devices/2": "[device]\nconnection-uuid=3707b97c-49ea-4bc3-8043-5b8c326ef4ae\n",
			"/etc/NetworkManager/system-connections/wired":             "[connection]\nid=wired\nuuid=u-2\n[ethernet]\nmac-address=02:00:00:00:00:03\n",
			"/run/NetworkManager/system-connections/eth0.nmconnection": "[connection]\nid=eth0\nuuid=3707b97c-49ea-4bc3-8043-5b8c326ef4ae\ninterface-name=eth0\n\n[.nmmeta]\nnm-generated=true\nvolatile=true\nexternal=true\n",
		}, Found{Active: []string{networkManagerName}, Claims: map[string]Claim{"eth1": {networkManagerName, "/etc/NetworkManager/system-connections/wired", true}}}},
		"NetworkManager, with a profile whose file is gone, and one of a plugin": {map[string]string{
			runsNM:                          "1\n",
			"/run/NetworkManager/devices/2": "[device]\nmanaged=true\nconnection-uuid=4bfb8e5d-bdff-40aa-b0e9-993f25e0420b\n",
			"/run/NetworkManager/devices/3": "[device]\nmanaged=true\nconnection-uuid=7daa3fb7-1040-4aca-80bb-87f4238d5e56\n",
			"/run/NetworkManager/devices/4": "[device]\nmanaged=true\nconnection-uuid=bad\n",
			"/etc/network/interfaces":       "iface eth1 inet dhcp\n",
		}, Found{Active: []string{networkManagerName}, InCharge: []string{"eth0", "eth1", "eth2"}, Orphans: map[string]string{"eth0": "4bfb8e5d-bdff-40aa-b0e9-993f25e0420b"},
			Claims: map[string]Claim{"eth1": {ifupdownName, "/etc/network/interfaces", true}}}},
		"NetworkManager, with a profile of two links": {map[string]string{
			runsNM: "1\n", "/run/NetworkManager/devices/2": "[device]\nconnection-uuid=4bfb8e5d-bdff-40aa-b0e9-993f25e0420b\n",
			"/run/NetworkManager/devices/3": "[device]\nconnection-uuid=4bfb8e5d-bdff-40aa-b0e9-993f25e0420b\n",
			"/run/NetworkManager/devices/4": "[device]\nconnection-uuid=7daa3fb7-1040-4aca-80bb-87f4238d5e56\n",
		}, Found{Active: []string{networkManagerName}, Orphans: map[string]string{"eth2": "7daa3fb7-1040-4aca-80bb-87f4238d5e56"}}},
		"NetworkManager with files of network-scripts": {map[string]string{
			runsNM: "1\n", "/run/NetworkManager/devices/2": "[device]\nconnection-uuid=4bfb8e5d-bdff-40aa-b0e9-993f25e0420b\n",
			ifcfgFolder + "/ifcfg-uplink": "TYPE=Ethernet\n",
		}, Found{Active: []string{networkManagerName}}},
		"ifupdown": {map[string]string{
			"/run/network/ifstate": "lo=lo\n", "/etc/network/interfaces": "source /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\niface eth0 inet dhcp\n",
			"/etc/network/interfaces.d/rail": "auto eth1\niface eth1 inet static\n",
		}, Found{Active: []string{ifupdownName}, Claims: map[string]Claim{
			"eth0": {ifupdownName, "/etc/network/interfaces", true}, "eth1": {ifupdownName, "/etc/network/interfaces.d/rail", true}}}},
		"ifupdown for loopback alone leaves the rest to NetworkManager": {map[string]string{
			runsNM: "1\n", "/run/network/ifstate": "lo=lo\n", "/etc/network/interfaces": "auto lo\niface lo inet loopback\n",
		}, Found{Active: []string{networkManagerName}, Idle: []string{ifupdownName}, Deaf: deaf}},
		"ifupdown, which reads no folder": {map[string]string{
			"/run/network/ifstate": "lo=lo\n", "/etc/network/interfaces": "auto lo\niface lo inet loopback\n",
		}, Found{Active: []string{ifupdownName}, Deaf: deaf}},
		"network-scripts": {map[string]string{
			ranNetwork: "", ifcfgFolder + "/ifcfg-eth0": "# by hand\nDEVICE=\"eth0\"\nBOOTPROTO=dhcp\nONBOOT='yes'\n", ifcfgFolder + "/ifcfg-eth0:1": "DEVICE=eth0:1\n",
			ifcfgFolder + "/ifcfg-System_eth1": "TYPE=Ethernet\nHWADDR=02:00:00:00:00:03\nBOOTPROTO=none\n", ifcfgFolder + "/ifcfg-eth2": "BOOTPROTO=none\nONBOOT=no\n",
			ifcfgFolder + "/ifcfg-eth2.bak": "DEVICE=eth2\n", ifcfgFolder + "/route-eth2": "10.0.0.0/8 via 10.1.1.1\n",
		}, Found{Active: []string{ifcfgName}, Claims: map[string]Claim{
			"eth0": {ifcfgName, ifcfgFolder + "/ifcfg-eth0", true}, "eth1": {ifcfgName, ifcfgFolder + "/ifcfg-System_eth1", true}}}},
		"network-scripts beside NetworkManager have what is kept from it": {map[string]string{
			runsNM: "1\n", ranNetwork: "", ifcfgFolder + "/ifcfg-eth0": "DEVICE=eth0\nONBOOT=yes\n", ifcfgFolder + "/ifcfg-eth1": "DEVICE=eth1\nNM_CONTROLLED=No # not yet\n",
		}, Found{Active: []string{ifcfgName, networkManagerName}, Claims: map[string]Claim{"eth1": {ifcfgName, ifcfgFolder + "/ifcfg-eth1", true}}}},
		"network-scripts that leave all to NetworkManager": {map[string]string{
			runsNM: "1\n", ranNetwork: "", ifcfgFolder + "/ifcfg-eth0": "DEVICE=eth0\nONBOOT=yes\n",
		}, Found{Active: []string{networkManagerName}, Idle: []string{ifcfgName}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", MAC: "02:00:00:00:00:02"}, {Index: 3, Name: "eth1", MAC: "02:00:00:00:00:03", PermMAC: "02:00:00:00:00:03"}, {Index: 4, Name: "eth2"}}}
			if c.want.Claims == nil {
				c.want.Claims = map[string]Claim{}
			}
			Gather(t.Context(), etc(t, c.files), s)
			got := Part.Of(s)
			got.renderer = ""
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

func TestALabOfNamespacesHasNoManager(t *testing.T) {
	s := &facts.Snapshot{System: facts.System{Lab: true}}
	Gather(t.Context(), etc(t, map[string]string{runsNetworkd: "1\n"}), s)
	if got := Part.Of(s); len(got.Active)+len(got.Claims) > 0 {
		t.Error(got)
	}
}

func FuzzManagersFiles(f *testing.F) {
	f.Add("network:\n  renderer: NetworkManager\n", "[connection]\nuuid=\n", "[Match]\nName=\n")
	f.Fuzz(func(t *testing.T, yaml, keyfile, network string) {
		netplanRenderer(yaml)
		keyValue(keyfile, "connection", "uuid")
		networkdNames(network, host.Link{Name: "eth0"})
		(&Found{Claims: map[string]Claim{}}).stanzas("f", yaml)
	})
}
