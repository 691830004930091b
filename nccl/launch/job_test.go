package launch

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
)

// Gloo and TensorPipe accept whole names, and UCX ports of RDMA devices or interfaces.
func TestTorchAndUCXUseNCCLsInterface(t *testing.T) {
	rail := []NIC{{Netdev: "ens1", UCX: "mlx5_0:1"}, {Netdev: "ens2", UCX: "mlx5_1:1"}}
	for name, c := range map[string]struct {
		h    Host
		want string
	}{
		"RDMA":                      {Host{Socket: "ens2", NICs: rail}, "GLOO_SOCKET_IFNAME=ens2 TP_SOCKET_IFNAME=ens2 UCX_NET_DEVICES=mlx5_1:1"},
		"sockets of another NIC":    {Host{Socket: "eth0", NICs: rail}, "GLOO_SOCKET_IFNAME=eth0 TP_SOCKET_IFNAME=eth0 UCX_NET_DEVICES=eth0"},
		"RDMA is off":               {Host{Socket: "ens1", NICs: rail, Env: nccl.Env{{Name: "NCCL_IB_DISABLE", Value: "1"}}}, "GLOO_SOCKET_IFNAME=ens1 TP_SOCKET_IFNAME=ens1 UCX_NET_DEVICES=ens1"},
		"no interface is known":     {Host{NICs: rail}, ""},
		"the files declare another": {Host{Socket: "ens1", NICs: rail, Env: nccl.Env{{Name: "GLOO_SOCKET_IFNAME", Value: "eth0"}}}, "TP_SOCKET_IFNAME=ens1 UCX_NET_DEVICES=mlx5_0:1"},
	} {
		var got []string
		for _, s := range append(c.h.torch(), c.h.ucx()...) {
			got = append(got, s.Name+"="+s.Value)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %s", name, got, c.want)
		}
	}
}

// TestUCXGetsTheDeviceThatChoosesNCCLsGID: UCX has no range of addresses, so that it could take another GID.
func TestUCXGetsTheDeviceThatChoosesNCCLsGID(t *testing.T) {
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{{Name: "r", Host: "a", Netdev: "ens1"}}}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}
	f.NCCL.HCA = []fabric.NICRef{h.NICs[0].Ref()}
	snap := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "ens1", Up: true}},
		RDMA: []facts.RDMADevice{{Name: "mlx5_0", Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "ens1", GIDs: []facts.GID{{Index: 1, Addr: netip.MustParseAddr("::ffff:10.0.0.1"), Version: 2, Netdev: "ens1"}}}}}
	for ranged, want := range map[string]string{"": "mlx5_0:1", "10.0.0.0/24": ""} {
		f.NCCL.Env = map[string]string{}
		if ranged != "" {
			f.NCCL.Env["NCCL_IB_ADDR_RANGE"] = ranged
		}
		if got := NewHost(f, h, snap, AddressOwners(f, nil)); len(got.NICs) != 1 || got.NICs[0].UCX != want {
			t.Errorf("range %q: %+v", ranged, got.NICs)
		}
	}
}

// A launcher of the whole job gives each host its own interface.
func TestLaunchersNameTheInterfacesOfTorchAndUCX(t *testing.T) {
	common, rest := hostile().common()
	if v, found := common.Get("GLOO_SOCKET_IFNAME"); found {
		t.Errorf("both hosts get %s", v)
	}
	for i, want := range []string{"eth0", "eth1"} {
		for _, name := range []string{"GLOO_SOCKET_IFNAME", "TP_SOCKET_IFNAME", "UCX_NET_DEVICES"} {
			if v, _ := rest[i].Get(name); v != want {
				t.Errorf("%s of host %d is %q", name, i, v)
			}
		}
	}
}

// TestNoHostNamesAddressesOfAnother: the others log in and connect to addresses of the files and those at which we reached a host.
// What a host says of itself neither adds an address of another host, nor changes which addresses all are reached at.
func TestNoHostNamesAddressesOfAnother(t *testing.T) {
	for name, c := range map[string]struct {
		lie  func(f *fabric.Fabric, b *facts.Snapshot)
		want string // where the hosts log in to a and b, and what b's ranks listen on
	}{
		"sound":                              {nil, "10.9.0.1 10.9.0.2 192.168.88.2"},
		"another network":                    {func(_ *fabric.Fabric, b *facts.Snapshot) { b.Addrs[0].Prefix = netip.MustParsePrefix("10.9.0.2/32") }, "10.9.0.1 10.9.0.2 192.168.88.2"},
		"no network":                         {func(_ *fabric.Fabric, b *facts.Snapshot) { b.Management.Server = netip.Addr{} }, "10.9.0.1 10.9.0.2 192.168.88.2"},
		"reached in another network":         {func(_ *fabric.Fabric, b *facts.Snapshot) { b.Management.Dialled = netip.MustParseAddr("10.8.0.2") }, "192.168.88.1 192.168.88.2 192.168.88.2"},
		"reached at a's NIC":                 {func(_ *fabric.Fabric, b *facts.Snapshot) { b.Management.Dialled = netip.MustParseAddr("192.168.88.1") }, "10.9.0.1 b.example 192.168.88.2"},
		"a's NIC on an interface of its own": {says("192.168.88.1/30"), "10.9.0.1 10.9.0.2 <none>"},
		"a's login on an interface":          {says("10.9.0.1/24"), "10.9.0.1 10.9.0.2 <none>"},
		"loopback on an interface":           {says("127.0.0.1/8"), "10.9.0.1 10.9.0.2 <none>"},
		"a mapped address on an interface":   {says("::ffff:192.168.88.1/128"), "10.9.0.1 10.9.0.2 <none>"},
		"an address of nobody on it":         {says("10.7.0.2/24"), "10.9.0.1 10.9.0.2 10.7.0.2"},
		"the same, reached in another network": {func(f *fabric.Fabric, b *facts.Snapshot) {
			says("10.7.0.2/24")(f, b)
			b.Management.Dialled = netip.MustParseAddr("10.8.0.2")
		}, "192.168.88.1 10.8.0.2 10.7.0.2"},
	} {
		f, snaps := meshOfTwo()
		if c.lie != nil {
			c.lie(f, snaps["b"])
		}
		j := New(f, snaps)
		listens := "<none>"
		if at := j.Hosts[1].SocketAddr; at.IsValid() {
			listens = at.String()
		}
		if got := j.Hosts[0].At() + " " + j.Hosts[1].At() + " " + listens; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// says makes b bootstrap over an interface that the files do not declare, and that has the address.
func says(address string) func(*fabric.Fabric, *facts.Snapshot) {
	return func(f *fabric.Fabric, b *facts.Snapshot) {
		f.Hosts[1].NCCL.SocketIfname = "eth9"
		b.Links = append(b.Links, host.Link{Index: 9, Name: "eth9", Up: true, Carrier: true})
		b.Addrs = append(b.Addrs, host.Addr{Index: 9, Prefix: netip.MustParsePrefix(address)})
	}
}

func TestTooManyGPUsAreRefused(t *testing.T) {
	for _, format := range Names() {
		if _, err := Render(format, Job{Fabric: "f", Hosts: []Host{{Name: "a", Hostname: "a", Address: "a", GPUs: MaxGPUs + 1}}}); err == nil || !strings.Contains(err.Error(), "host a reports 257 GPUs") {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// Open MPI reads a list of networks as IPv4 alone: with another one it starts no rank.
func TestMpirunGetsIPv4Networks(t *testing.T) {
	for name, c := range map[string]struct{ addresses, want string }{
		"management over IPv6":          {"2001:db8::1/64 192.0.2.1/24", "192.0.2.0/24"},
		"management over IPv6 alone":    {"2001:db8::1/64", ""},
		"IPv4 on another interface":     {"2001:db8::1/64 other 192.0.2.1/24", ""},
		"management over IPv4 and IPv6": {"198.51.100.1/24 2001:db8::9/64", "198.51.100.0/24"},
	} {
		snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "mgmt0"}, {Index: 2, Name: "other"}}}
		index := 1
		for word := range strings.FieldsSeq(c.addresses) {
			if word == "other" {
				index = 2
				continue
			}
			snap.Addrs = append(snap.Addrs, host.Addr{Index: index, Prefix: netip.MustParsePrefix(word)})
		}
		snap.Management.Server = snap.Addrs[0].Prefix.Addr()
		f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a", Address: "a"}}}
		text := string(rendered(t, "mpirun", New(f, map[string]*facts.Snapshot{"a": snap})))
		_, got, _ := strings.Cut(text, "--mca btl_tcp_if_include ")
		got, _, _ = strings.Cut(got, " ")
		if got != c.want || strings.Contains(text, "oob_tcp_if_include") != (c.want != "") {
			t.Errorf("%s: %q, want %q\n%s", name, got, c.want, text)
		}
	}
	socket := []netip.Prefix{netip.MustParsePrefix("fd00::1/64"), netip.MustParsePrefix("10.1.0.1/24")}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{{Name: "r", Host: "a", Netdev: "ens1", Addresses: socket, AddressesSet: true}}}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{h}}
	f.NCCL.HCA, f.NCCL.SocketIfname = []fabric.NICRef{h.NICs[0].Ref()}, "ens1"
	if got := NewHost(f, h, &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "ens1", Up: true}}}, AddressOwners(f, nil)); got.Socket4 != netip.MustParsePrefix("10.1.0.0/24") {
		t.Errorf("the IPv4 network of the sockets is %s", got.Socket4)
	}
}

// TestOpenMPIGetsNoNetworkByTheWordOfOneHost: all hosts use the networks of the lists, so these are declared, or those of the
// management path.
func TestOpenMPIGetsNoNetworkByTheWordOfOneHost(t *testing.T) {
	at := func(b *facts.Snapshot, index int, address string) {
		b.Addrs = append(b.Addrs, host.Addr{Index: index, Prefix: netip.MustParsePrefix(address)})
	}
	v6 := func(j map[string]*facts.Snapshot, last ...string) { // both are managed over IPv6, and have these addresses as well
		for i, name := range []string{"a", "b"} {
			address := netip.MustParseAddr("2001:db8::" + string(rune('1'+i)))
			s := j[name]
			s.Management.Server, s.Management.Dialled = address, address
			s.Addrs[0].Prefix = netip.PrefixFrom(address, 64)
			if last != nil {
				at(s, 1, last[i])
			}
		}
	}
	apart := func(j map[string]*facts.Snapshot) { // no network has both management addresses
		j["b"].Management.Dialled = netip.MustParseAddr("10.8.0.2")
	}
	for name, c := range map[string]struct {
		change func(f *fabric.Fabric, j map[string]*facts.Snapshot)
		want   string
	}{
		"they agree": {func(*fabric.Fabric, map[string]*facts.Snapshot) {}, "10.9.0.0/24"},
		"the first says that its network is everything": {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) {
			j["a"].Addrs[0].Prefix = netip.MustParsePrefix("10.9.0.1/0")
		}, "10.9.0.0/30"},
		"the other one says so": {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) {
			j["b"].Addrs[0].Prefix = netip.MustParsePrefix("10.9.0.2/0")
		}, "10.9.0.0/30"},
		"management over IPv6, and they agree":  {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) { v6(j, "10.9.0.1/24", "10.9.0.2/24") }, "10.9.0.0/24"},
		"management over IPv6, and one differs": {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) { v6(j, "10.9.0.1/24", "172.17.0.1/16") }, ""},
		"management over IPv6 alone":            {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) { v6(j) }, ""},
		"no common management network":          {func(_ *fabric.Fabric, j map[string]*facts.Snapshot) { apart(j) }, "192.168.88.0/30"},
		"the same, and one bootstraps elsewhere": {func(f *fabric.Fabric, j map[string]*facts.Snapshot) {
			apart(j)
			says("172.17.0.1/16")(f, j["b"])
		}, ""},
	} {
		f, snaps := meshOfTwo()
		c.change(f, snaps)
		text := string(rendered(t, "mpirun", New(f, snaps)))
		for _, option := range []string{"--mca btl_tcp_if_include ", "--mca oob_tcp_if_include "} {
			_, got, _ := strings.Cut(text, option)
			if got, _, _ = strings.Cut(got, " "); strings.TrimSpace(got) != c.want {
				t.Errorf("%s: %s%q, want %q", name, option, got, c.want)
			}
		}
		if c.want == "" && strings.Contains(text, "_if_include") {
			t.Errorf("%s: an empty list", name)
		}
	}
}

// meshOfTwo returns hosts with a login_mesh that were reached at 10.9.0.1 and 10.9.0.2, and have a declared rail.
func meshOfTwo() (*fabric.Fabric, map[string]*facts.Snapshot) {
	f := &fabric.Fabric{LoginMeshes: []*fabric.LoginMesh{{Name: "train", User: "ann", Hosts: []fabric.HostRef{"a", "b"}}},
		Links: []*fabric.Link{{Name: "l", Role: "training", Endpoints: []fabric.NICRef{{Host: "a", NIC: "rail"}, {Host: "b", NIC: "rail"}}}}}
	snaps := map[string]*facts.Snapshot{}
	for i, name := range []string{"a", "b"} {
		management := netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)}), 24)
		rail := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, 88, byte(i + 1)}), 30)
		f.Hosts = append(f.Hosts, &fabric.Host{Name: name, Address: name + ".example", NICs: []*fabric.NIC{{Name: "rail", Host: name, Netdev: "eth0", Addresses: []netip.Prefix{rail}}}})
		snaps[name] = &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "mgmt0", Up: true, Carrier: true}, {Index: 2, Name: "eth0", Up: true, Carrier: true}},
			Addrs: []host.Addr{{Index: 1, Prefix: management}, {Index: 2, Prefix: rail}}, Management: facts.Management{Server: management.Addr(), Dialled: management.Addr()}}
	}
	return f, snaps
}

// MPICH over ch4:ofi chooses an interface by itself; ch3 ends if both Hydra and the environment choose one.
func TestHydraNamesLibfabricsInterface(t *testing.T) {
	j := hostile()
	j.Hosts[1].Env = append(j.Hosts[1].Env, nccl.Setting{Name: "FI_TCP_IFACE", Value: "declared", Reason: "r"})
	for i, want := range []string{"eth0", "declared"} {
		args, _ := run(t, rendered(t, "hydra", one(j, i)), "launcher", "tell")
		text := strings.Join(args, " ")
		if !strings.Contains(text, "-genv FI_TCP_IFACE "+want+" ") || strings.Contains(text, "NETWORK_IFACE") {
			t.Errorf("%s", text)
		}
	}
}
