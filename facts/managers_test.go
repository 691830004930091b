package facts

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/fabricform/fabricform/host"
)

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
	return tree{root: root}
}

const (
	runsNetworkd = "/sys/fs/cgroup/system.slice/systemd-networkd.service/cgroup.procs"
	runsNM       = "/sys/fs/cgroup/systemd/system.slice/NetworkManager.service/cgroup.procs"
)

func TestManagersAsTheirFilesTell(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  Managers
	}{
		"none": {nil, Managers{}},
		"networkd, by a pattern and by a MAC": {map[string]string{
			runsNetworkd:                          "1\n",
			"/run/systemd/netif/links/2":          "ADMIN_STATE=configured\nNETWORK_FILE=/etc/systemd/network/80-all.network\n",
			"/run/systemd/netif/links/3":          "NETWORK_FILE=/run/systemd/network/20-x.network\n",
			"/run/systemd/netif/links/4":          "ADMIN_STATE=unmanaged\n",
			"/etc/systemd/network/80-all.network": "[Match]\nName=eth*\n[Network]\nDHCP=yes\n",
			"/run/systemd/network/20-x.network":   "[Link]\nMACAddress=02:00:00:00:00:09\n[Match]\nPermanentMACAddress=02:00:00:00:00:03 02:00:00:00:00:08\n",
		}, Managers{Active: []string{Networkd}, Claims: map[string]Claim{
			"eth0": {Networkd, "/etc/systemd/network/80-all.network", false}, "eth1": {Networkd, "/run/systemd/network/20-x.network", true}}}},
		"netplan before networkd": {map[string]string{
			runsNetworkd:                                   "1\n",
			"/etc/netplan/50-cloud.yaml":                   "# by cloud-init\nnetwork:\n    version: 2\n    ethernets:\n        eth0:\n            renderer: NetworkManager\n",
			"/run/systemd/netif/links/2":                   "NETWORK_FILE=/run/systemd/network/10-netplan-eth0.network\n",
			"/run/systemd/network/10-netplan-eth0.network": "[Match]\nName=eth0\n",
		}, Managers{Active: []string{Netplan, Networkd}, Behind: Networkd, Claims: map[string]Claim{"eth0": {Netplan, "/run/systemd/network/10-netplan-eth0.network", true}}}},
		"netplan before NetworkManager": {map[string]string{
			runsNM: "1\n", runsNetworkd: "1\n",
			"/lib/netplan/00-network-manager-all.yaml":                          "network:\n  version: 2\n  renderer: NetworkManager\n",
			"/run/NetworkManager/devices/2":                                     "[device]\nmanaged=true\nconnection-uuid=23e12276-3c0e-3e91-bd00-95bdee13fea4\n",
			"/run/NetworkManager/system-connections/netplan-mgmt0.nmconnection": "[connection]\nid=netplan-mgmt0\ntype=ethernet\ninterface-name=eth0\n[ethernet]\nuuid=other\n",
		}, Managers{Active: []string{Netplan, NetworkManager, Networkd}, InCharge: []string{"eth0"}, Behind: NetworkManager,
			Claims: map[string]Claim{"eth0": {Netplan, "/run/NetworkManager/system-connections/netplan-mgmt0.nmconnection", true}}}},
		"NetworkManager, by MAC, and a device without a profile": {map[string]string{
			runsNM:                          "1\n",
			"/run/NetworkManager/devices/3": "[device]\nconnection-uuid=u-2\n", "/run/NetworkManager/devices/2": "[device]\nconnection-uuid=u-external\n",
			"/etc/NetworkManager/system-connections/wired":             "[connection]\nid=wired\nuuid=u-2\n[ethernet]\nmac-address=02:00:00:00:00:03\n",
			"/run/NetworkManager/system-connections/eth0.nmconnection": "[connection]\nid=eth0\nuuid=u-external\ninterface-name=eth0\n\n[.nmmeta]\nnm-generated=true\nvolatile=true\nexternal=true\n",
		}, Managers{Active: []string{NetworkManager}, Claims: map[string]Claim{"eth1": {NetworkManager, "/etc/NetworkManager/system-connections/wired", true}}}},
		"ifupdown": {map[string]string{
			"/run/network/ifstate": "lo=lo\n", "/etc/network/interfaces": "source /etc/network/interfaces.d/*\nauto lo\niface lo inet loopback\niface eth0 inet dhcp\n",
			"/etc/network/interfaces.d/rail": "auto eth1\niface eth1 inet static\n",
		}, Managers{Active: []string{Ifupdown}, Sourced: true, Claims: map[string]Claim{
			"eth0": {Ifupdown, "/etc/network/interfaces", true}, "eth1": {Ifupdown, "/etc/network/interfaces.d/rail", true}}}},
		"ifupdown for loopback alone leaves the rest to NetworkManager": {map[string]string{
			runsNM: "1\n", "/run/network/ifstate": "lo=lo\n", "/etc/network/interfaces": "auto lo\niface lo inet loopback\n",
		}, Managers{Active: []string{NetworkManager}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{Links: []host.Link{{Index: 2, Name: "eth0", MAC: "02:00:00:00:00:02"}, {Index: 3, Name: "eth1", MAC: "02:00:00:00:00:03", PermMAC: "02:00:00:00:00:03"}, {Index: 4, Name: "eth2"}}}
			if c.want.Claims == nil {
				c.want.Claims = map[string]Claim{}
			}
			if got := ReadManagers(etc(t, c.files), s); !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
}

func TestALabOfNamespacesHasNoManager(t *testing.T) {
	s := &Snapshot{System: System{Lab: true}}
	if got := ReadManagers(etc(t, map[string]string{runsNetworkd: "1\n"}), s); len(got.Active)+len(got.Claims) > 0 {
		t.Error(got)
	}
}

func (t tree) Stat(p string) (host.FileStat, error) {
	info, err := os.Lstat(t.root + p)
	if err != nil {
		return host.FileStat{}, err
	}
	return host.FileStat{Mode: info.Mode()}, nil
}

func TestSnapshotsHoldOurFilesAndNoOthers(t *testing.T) {
	r := etc(t, map[string]string{"/etc/netplan/90-fabricform-lab.yaml": "ours", "/etc/netplan/50-wifi.yaml": "password", "/etc/netplan/.90-fabricform-lab.yaml.new": "half"})
	if err := os.Symlink("50-wifi.yaml", r.root+"/etc/netplan/91-fabricform-link.yaml"); err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{}
	if err := s.ReadFiles(r, "/etc/netplan", "/etc/sysctl.d"); err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 1 || s.Files["/etc/netplan/90-fabricform-lab.yaml"].Text != "ours" || len(s.Folders) != 1 {
		t.Errorf("%+v %v", s.Files, s.Folders)
	}
}

func FuzzManagersFiles(f *testing.F) {
	f.Add("network:\n  renderer: NetworkManager\n", "[connection]\nuuid=\n", "[Match]\nName=\n")
	f.Fuzz(func(t *testing.T, yaml, keyfile, network string) {
		globalRenderer(yaml)
		keyValue(keyfile, "connection", "uuid")
		networkdNames(network, host.Link{Name: "eth0"})
		(&Managers{Claims: map[string]Claim{}}).stanzas("f", yaml)
	})
}
