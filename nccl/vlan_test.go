package nccl

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// above is a host whose rail0 is a netdev on top of the one with the RDMA device.
func above(kind, netdev string, d facts.RDMADevice, addresses ...string) (*fabric.Fabric, *fabric.Host, *facts.Snapshot) {
	n := &fabric.NIC{Name: "rail0", Host: "a", Netdev: netdev, Up: true}
	for _, a := range addresses {
		n.AddressesSet, n.Addresses = true, append(n.Addresses, netip.MustParsePrefix(a))
	}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{n}}
	f := &fabric.Fabric{Hosts: []*fabric.Host{h}, Links: []*fabric.Link{cable("l", "", "a.rail0", "bb.rail0")}}
	d.Port, d.State, d.LinkLayer = 1, "ACTIVE", "Ethernet"
	return f, h, &facts.Snapshot{RDMA: []facts.RDMADevice{d}, Links: []host.Link{
		{Index: 2, Name: "eth0", Driver: "mlx5_core", Master: 4}, {Index: 3, Name: "eth1", Driver: "mlx5_core", Master: 4}, {Index: 4, Name: "bond0", Kind: "bond"},
		{Index: 5, Name: "eth0.7", Kind: "vlan", Parent: 2}, {Index: 6, Name: "bond0.7", Kind: "vlan", Parent: 4}, {Index: 7, Name: "mv0", Kind: "macvlan", Parent: 2},
		{Index: 8, Name: "mv1", Kind: "macvlan", Parent: 5}, {Index: 9, Name: "br0", Kind: "bridge"}, {Index: 10, Name: "x", Kind: "vlan", Parent: 11}, {Index: 11, Name: "y", Kind: "vlan", Parent: 10}}}
}

func TestVLANsAndMacvlansUseTheDeviceBelow(t *testing.T) {
	const ll = "fe80::1"
	plain := []string{ll + " v1", ll + " v2"}
	vlan := func(netdev string) []string {
		return append(plain, ll+" v1 "+netdev, ll+" v2 "+netdev, "10.7.0.1 v1 "+netdev, "10.7.0.1 v2 "+netdev)
	}
	// both have an address: NCCL would take the lower one's.
	both := append(plain, "192.168.0.5 v1", "192.168.0.5 v2", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7")
	for name, c := range map[string]struct {
		kind, netdev string
		device       facts.RDMADevice
		addresses    string
		want         string // settings
		gid          int
		wrong        string
	}{
		"a VLAN over mlx5":       {"vlan", "eth0.7", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(vlan("eth0.7")...)}, "10.7.0.1/24", "IB_HCA==mlx5_0 SOCKET_IFNAME==eth0.7", 5, ""},
		"a macvlan over mlx5":    {"macvlan", "mv0", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(vlan("mv0")...)}, "10.7.0.1/24", "IB_HCA==mlx5_0 SOCKET_IFNAME==mv0", 5, ""},
		"a macvlan on a VLAN":    {"macvlan", "mv1", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(plain...)}, "10.7.0.1/24", "IB_HCA==mlx5_0 SOCKET_IFNAME==mv1", 3, ""},
		"a bond":                 {"bond", "bond0", facts.RDMADevice{Name: "mlx5_bond_0", Netdev: "bond0", GIDs: tableOf("bond0", vlan("bond0")...)}, "10.7.0.1/24", "IB_HCA==mlx5_bond_0 SOCKET_IFNAME==bond0", 5, ""},
		"a bond without default": {"bond", "bond0", facts.RDMADevice{Name: "mlx5_bond_0", Netdev: "eth0", GIDs: tableOf("bond0", "-", "-", "10.7.0.1 v1", "10.7.0.1 v2")}, "10.7.0.1/24", "IB_HCA==mlx5_bond_0 SOCKET_IFNAME==bond0", 3, ""},
		"a VLAN over a bond":     {"vlan", "bond0.7", facts.RDMADevice{Name: "mlx5_bond_0", Netdev: "bond0", GIDs: tableOf("bond0", vlan("bond0.7")...)}, "10.7.0.1/24", "IB_HCA==mlx5_bond_0 SOCKET_IFNAME==bond0.7", 5, ""},
		"a VLAN over rxe": {"vlan", "eth0.7", facts.RDMADevice{Name: "rxe0", Netdev: "eth0", Driver: "rxe", Virtual: true, GIDs: table(ll+" v2", "10.7.0.1 v2 eth0.7")}, "10.7.0.1/24",
			"IB_HCA==rxe0 SOCKET_IFNAME==eth0.7", 1, ""},
		"the NIC below has an address, too": {"vlan", "eth0.7", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(both...)}, "10.7.0.1/24", "IB_HCA==mlx5_0 IB_ADDR_RANGE=10.7.0.1/32 SOCKET_IFNAME==eth0.7", 5, ""},
		"the VLAN's addresses are its own":  {"vlan", "eth0.7", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(both...)}, "", "IB_HCA==mlx5_0 IB_ADDR_RANGE=10.7.0.1/32", 5, ""},
		"the VLAN has no address": {"vlan", "eth0.7", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(both[:4]...)}, "", "IB_HCA==mlx5_0", 3,
			"NCCL would use GID 3, which is 192.168.0.5 of eth0 and not an address of eth0.7, and no one address range excludes it: remove that address from eth0"},
		"no device below":                    {"bridge", "br0", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(plain...)}, "10.7.0.1/24", "IB_DISABLE=1 SOCKET_IFNAME==br0", 0, ""},
		"a circle, by indexes of two spaces": {"vlan", "x", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table(plain...)}, "10.7.0.1/24", "IB_DISABLE=1 SOCKET_IFNAME==x", 0, ""},
	} {
		var addresses []string
		if c.addresses != "" {
			addresses = []string{c.addresses}
		}
		f, h, snap := above(c.kind, c.netdev, c.device, addresses...)
		snap = AfterApply(h, snap)
		env, _ := Derive(f, h, snap)
		p := Ports(f, h, snap)[0]
		if got := said(env); got != c.want || p.GID != c.gid || p.Wrong != c.wrong {
			t.Errorf("%s: %s, GID %d %q", name, got, p.GID, p.Wrong)
		}
	}
}

func TestAVLANsAddressIsInTheTableAfterApply(t *testing.T) {
	d := facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table("fe80::1 v1", "fe80::1 v2", "192.168.0.5 v1", "192.168.0.5 v2")}
	_, h, snap := above("vlan", "eth0.7", d, "10.7.0.1/24")
	snap.RDMA[0].State = "DOWN"
	got := AfterApply(h, snap).RDMA[0]
	want := table("fe80::1 v1", "fe80::1 v2", "192.168.0.5 v1", "192.168.0.5 v2", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7")
	if d := cmp.Diff(want, got.GIDs, cmpopts.EquateComparable(netip.Addr{})); d != "" || got.State != "ACTIVE" {
		t.Error(d, got.State)
	}
	// The NIC's own address goes, the VLAN's stays; a VLAN that is down says nothing of the port.
	h.NICs = append(h.NICs, &fabric.NIC{Name: "rail1", Host: "a", Netdev: "eth0", Up: true, AddressesSet: true})
	h.NICs[0].Up = false
	got = AfterApply(h, &facts.Snapshot{Links: snap.Links, RDMA: []facts.RDMADevice{got}}).RDMA[0]
	if len(got.GIDs) != 4 || got.GIDs[2].Index != 4 || got.State != "ACTIVE" {
		t.Errorf("%+v", got)
	}
}

func TestTwoNetdevsOfOnePortAreNotTwoRails(t *testing.T) {
	d := facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table("fe80::1 v1", "fe80::1 v2", "192.168.0.5 v1", "192.168.0.5 v2", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7")}
	f, h, snap := above("vlan", "eth0.7", d, "10.7.0.1/24")
	n := &fabric.NIC{Name: "rail1", Host: "a", Netdev: "eth0", Up: true, AddressesSet: true, Addresses: []netip.Prefix{netip.MustParsePrefix("192.168.0.5/24")}}
	h.NICs, f.Links = append(h.NICs, n), append(f.Links, cable("m", "", "a.rail1", "bb.rail1"))
	env, problems := Derive(f, h, AfterApply(h, snap))
	if v, _ := env.Get("NCCL_IB_HCA"); v != "=mlx5_0" {
		t.Error(v)
	}
	if len(problems) != 1 || problems[0].Of != WrongGID || !strings.Contains(problems[0].Text, "rail1 has the same RDMA port as rail0") {
		t.Errorf("%q", problems)
	}
}

func TestAPinnedGIDIsOfTheNICsNetdev(t *testing.T) {
	d := facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0", GIDs: table("fe80::1 v1", "fe80::1 v2", "192.168.0.5 v1", "192.168.0.5 v2", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7")}
	f, h, snap := above("vlan", "eth0.7", d)
	for pin, want := range map[int]string{3: "pinned GID 3 is 192.168.0.5 of eth0 instead of an address of eth0.7; the right index is now 5", 5: ""} {
		f.NCCL.GIDIndex = &pin
		if got := Ports(f, h, snap)[0].Wrong; got != want {
			t.Errorf("%d: %q", pin, got)
		}
	}
	if !slices.ContainsFunc(snap.RDMAOn("mv1"), func(d *facts.RDMADevice) bool { return d.Name == "mlx5_0" }) {
		t.Error("a macvlan on a VLAN")
	}
}

// TestABondThatDoesNotExistYetSaysSo: whether its members' RDMA devices become one is known once it exists.
func TestABondThatDoesNotExistYetSaysSo(t *testing.T) {
	f, h, snap := above("bond", "b0", facts.RDMADevice{Name: "mlx5_0", Netdev: "eth0"}, "10.7.0.1/24")
	snap.Links = append(snap.Links, host.Link{Index: -12, Name: "b0", Kind: "bond", Planned: true})
	if p := Ports(f, h, snap)[0]; p.HCA != "" || !strings.Contains(p.Why, "b0, which does not exist yet: plan again") {
		t.Errorf("%+v", p)
	}
}
