package facts

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host"
)

// tree reads files below a folder as if it were /; all else of a Reader is absent.
type tree struct {
	host.Reader
	root string
}

func (t tree) ReadFile(_ context.Context, p string) ([]byte, error) {
	return os.ReadFile(filepath.Join(t.root, p))
}

func (t tree) ReadDir(_ context.Context, p string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(t.root, p))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (t tree) Readlink(_ context.Context, p string) (string, error) {
	return os.Readlink(filepath.Join(t.root, p))
}

// port writes one RDMA port; an empty slot's type and netdev cannot be read, as in the kernel.
func port(t *testing.T, root, dev string, slots ...[3]string) {
	t.Helper()
	dir := filepath.Join(root, sysInfiniband, dev, "ports/1")
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("state", "4: ACTIVE")
	write("link_layer", "Ethernet")
	for i, s := range slots {
		at := string(rune('0' + i))
		write("gids/"+at, s[0])
		if s[1] != "" {
			write("gid_attrs/types/"+at, s[1])
			write("gid_attrs/ndevs/"+at, s[2])
		}
	}
}

func TestRDMAReadsTheGIDTable(t *testing.T) {
	root := t.TempDir()
	port(t, root, "mlx5_0",
		[3]string{"fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "eth0"},
		[3]string{"0000:0000:0000:0000:0000:0000:0000:0000", "", ""},
		[3]string{"0000:0000:0000:0000:0000:ffff:c0a8:5801", "RoCE v2", "eth0"})
	got, err := rdma(t.Context(), tree{root: root})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	(&Snapshot{RDMA: got}).ReadGIDs(t.Context(), tree{root: root})
	d := got[0]
	if d.State != "ACTIVE" || d.Netdev != "eth0" || len(d.GIDs) != 2 || d.GIDs[1].Index != 2 || d.GIDs[1].Version != 2 || d.GIDs[1].Addr.Unmap().String() != "192.168.88.1" {
		t.Fatalf("%+v", d)
	}
	if none, err := rdma(t.Context(), tree{root: t.TempDir()}); err != nil || none != nil {
		t.Fatal("a host without RDMA is no error", none, err)
	}
}

// TestRDMAOfVLANsIsThatOfTheNICBelow: the netdevs of its GIDs are VLANs and macvlans, and nothing else in sysfs names them.
func TestRDMAOfVLANsIsThatOfTheNICBelow(t *testing.T) {
	root := t.TempDir()
	port(t, root, "mlx5_bond_0",
		[3]string{"fe80:0000:0000:0000:0000:0000:0000:0001", "IB/RoCE v1", "bond0"},
		[3]string{"0000:0000:0000:0000:0000:ffff:0a07:0001", "RoCE v2", "bond0.7"},
		[3]string{"0000:0000:0000:0000:0000:ffff:0a08:0001", "RoCE v2", "elsewhere"}) // a macvlan whose parent is not in this namespace
	found, err := rdma(t.Context(), tree{root: root})
	(&Snapshot{RDMA: found}).ReadGIDs(t.Context(), tree{root: root})
	if err != nil || found[0].Netdev != "bond0" || found[0].GIDs[1].Netdev != "bond0.7" {
		t.Fatalf("%+v %v", found, err)
	}
	s := &Snapshot{RDMA: found, Links: []host.Link{{Index: 2, Name: "bond0", Kind: "bond"}, {Index: 3, Name: "bond0.7", Kind: "vlan", Parent: 2},
		{Index: 4, Name: "bond0.9", Kind: "vlan", Parent: 2}, {Index: 5, Name: "mv", Kind: "macvlan", Parent: 4}, {Index: 6, Name: "elsewhere", Kind: "macvlan", Parent: 77}, {Index: 7, Name: "gre0", Kind: "gre", Parent: 2}}}
	for netdev, want := range map[string]int{"bond0": 1, "bond0.7": 1, "bond0.9": 1, "mv": 1, "elsewhere": 1, "gre0": 0, "missing": 0} {
		if got := s.RDMAOn(netdev); len(got) != want {
			t.Errorf("%s: %v", netdev, got)
		}
	}
}

func TestCarriersFollowBridgesBondsAndVLANs(t *testing.T) {
	links := []host.Link{
		{Index: 1, Name: "lo"}, {Index: 2, Name: "eth0", Master: 4}, {Index: 3, Name: "eth1", Master: 4}, {Index: 4, Name: "bond0"},
		{Index: 5, Name: "bond0.7", Parent: 4}, {Index: 6, Name: "br0"}, {Index: 7, Name: "eth2", Master: 6}, {Index: 8, Name: "eth3"},
	}
	for start, want := range map[int]string{
		5: "bond0 bond0.7 eth0 eth1", // a VLAN on a bond stands on the bond and its members
		6: "br0 eth2",                // a bridge stands on its ports
		2: "bond0 eth0 eth1",         // an address left on a member is the bond's path
		8: "eth3",
	} {
		if got := strings.Join(carriers(links, []int{start}), " "); got != want {
			t.Errorf("from %d: %s, want %s", start, got, want)
		}
	}
}

func TestLinkSysctlKeepsDotsOfInterfaceNames(t *testing.T) {
	if got := LinkSysctl("ipv4.conf.arp_ignore", "eth0.5"); got != "net/ipv4/conf/eth0.5/arp_ignore" {
		t.Fatal(got)
	}
}

// TestThePathIsUnknownUnlessTheTransportStatesIt: only a pipe may say that there is none, and no login can say so.
func TestThePathIsUnknownUnlessTheTransportStatesIt(t *testing.T) {
	for _, by := range []Connection{{}, {SSH: "none"}, {SSH: "UNKNOWN 65535 UNKNOWN 65535"}, {SSH: "fe80::1%gone 1 fe80::2%gone 2"}, {None: true},
		{None: true, Others: []string{"none"}}} {
		m := management(t.Context(), nil, &Snapshot{}, by)
		if unknown := !by.None || by.Others != nil; (m.Unknown != "") != unknown || m.Devices != nil {
			t.Errorf("%+v: %+v", by, m)
		}
	}
}

// TestEachPathIsFenced: what touches one of the paths is refused, with the reason of the first.
func TestEachPathIsFenced(t *testing.T) {
	s := &Snapshot{Management: Management{Server: netip.MustParseAddr("10.0.0.1"), Others: []Management{
		{Server: netip.MustParseAddr("10.0.0.2"), By: "Slurm"}, {Server: netip.MustParseAddr("10.0.0.3"), By: "Slurm"}}}}
	for refused, want := range map[string]string{"10.0.0.1": "SSH connection", "10.0.0.2": "connection by Slurm", "10.0.0.3": "connection by Slurm", "10.0.0.4": ""} {
		why := s.Fenced(func(one *Snapshot) string {
			if one.Management.Server.String() == refused {
				return one.Management.Connection()
			}
			return ""
		})
		if why != want {
			t.Errorf("%s: %q", refused, why)
		}
	}
}

func FuzzSSHConnection(f *testing.F) {
	for _, s := range []string{"10.0.0.5 50000 10.0.0.11 22", "fe80::1%eth0 1 fe80::2%eth0 22", "::ffff:1.2.3.4 1 ::1 2", "UNKNOWN 65535 UNKNOWN 65535"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		client, server, err := ParseSSHConnection(s)
		if err == nil && (!client.IsValid() || !server.IsValid() || client.Is4In6()) {
			t.Fatalf("%v %v", client, server)
		}
	})
}

func FuzzGID(f *testing.F) {
	f.Add("fe80:0000:0000:0000:0000:0000:0000:0001")
	f.Add("0000:0000:0000:0000:0000:0000:0000:0000")
	f.Fuzz(func(t *testing.T, s string) {
		if a, ok := parseGID(s); ok && (!a.IsValid() || a.Zone() != "") {
			t.Fatal(a)
		}
	})
}

func TestSystemReadsOSRelease(t *testing.T) {
	if got := osName("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n"); got != "Debian GNU/Linux 12" {
		t.Fatal(got)
	}
	if slices.Contains([]string{"", " "}, osName("PRETTY_NAME='x y'")) {
		t.Fatal("quotes")
	}
}

func TestFindHitsExactlyOne(t *testing.T) {
	s := &Snapshot{Links: []host.Link{
		{Index: 1, Name: "lo", Loopback: true}, {Index: 2, Name: "eth0", MAC: "02:00:00:00:00:02", PermMAC: "02:00:00:00:00:01", PCI: "0000:27:00.0", AltNames: []string{"enp39s0"}},
		{Index: 3, Name: "eth0.5", Kind: "vlan", MAC: "02:00:00:00:00:01", Parent: 2}, {Index: 4, Name: "eth1", MAC: "02:00:00:00:00:04"}, {Index: 5, Name: "eth2", MAC: "02:00:00:00:00:04"},
	}}
	for _, sel := range []Selector{{Netdev: "eth0"}, {Netdev: "enp39s0"}, {MAC: "02:00:00:00:00:01"}, {PCI: "0000:27:00.0"}} {
		if l, err := s.Find(sel); err != nil || l.Name != "eth0" {
			t.Errorf("%+v: %v %v", sel, l, err)
		}
	}
	for sel, want := range map[Selector]string{
		{Netdev: "eth9"}: "there are eth0 (02:00:00:00:00:02, pci 0000:27:00.0)", {MAC: "02:00:00:00:00:04"}: "several devices match (eth1, eth2)", {PCI: "0000:28:00.0"}: "no device matches",
	} {
		if _, err := s.Find(sel); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", sel, err)
		}
	}
}
