package nccl

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// machine is a host of a test fabric: "eth0 10.0.0.1/24" lines are NICs with an RDMA device each.
func machine(name string, nics ...string) (*fabric.Host, *facts.Snapshot) {
	h := &fabric.Host{Name: name, Address: "192.0.2." + fmt.Sprint(len(name))}
	s := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "mgmt0"}}, Addrs: []host.Addr{{Index: 1, Prefix: netip.MustParsePrefix(h.Address + "/24")}}}
	for i, line := range nics {
		netdev, cidr, _ := strings.Cut(line, " ")
		p := netip.MustParsePrefix(cidr)
		h.NICs = append(h.NICs, &fabric.NIC{Name: "rail" + fmt.Sprint(i), Host: name, Netdev: netdev, Addresses: []netip.Prefix{p}, AddressesSet: true})
		s.Links = append(s.Links, host.Link{Index: i + 2, Name: netdev, Up: true, Driver: "mlx5_core", MAC: fmt.Sprintf("02:00:00:00:00:1%d", i), PCI: fmt.Sprintf("000%d:01:00.0", i)})
		s.Addrs = append(s.Addrs, host.Addr{Index: i + 2, Prefix: p})
		s.RDMA = append(s.RDMA, facts.RDMADevice{Name: "mlx5_" + fmt.Sprint(i), Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: netdev,
			GIDs: tableOf(netdev, "fe80::1 v1", "fe80::1 v2", p.Addr().String()+" v1", p.Addr().String()+" v2")})
	}
	return h, s
}

func cable(name, group, a, b string) *fabric.Link {
	l := &fabric.Link{Name: name, Role: "training", PortGroup: group}
	for _, end := range []string{a, b} {
		h, n, _ := strings.Cut(end, ".")
		l.Endpoints = append(l.Endpoints, fabric.NICRef{Host: h, NIC: n})
	}
	return l
}

// said is an environment on one line.
func said(e Env) string {
	var out []string
	for _, s := range e {
		out = append(out, strings.TrimPrefix(s.Name, "NCCL_")+"="+s.Value)
	}
	return strings.Join(out, " ")
}

func TestThreeHostsInARingChooseNICsBySubnet(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.1/30", "eth1 10.0.0.13/30")
	b, _ := machine("bb", "eth0 10.0.0.5/30", "eth1 10.0.0.2/30")
	c, _ := machine("ccc", "eth0 10.0.0.14/30", "eth1 10.0.0.6/30")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a, b, c}, Links: []*fabric.Link{cable("ab", "", "a.rail0", "bb.rail1"), cable("bc", "", "bb.rail0", "ccc.rail1"), cable("ca", "", "ccc.rail0", "a.rail1")}}
	const want = "IB_HCA==mlx5_0,mlx5_1 SOCKET_IFNAME==mgmt0 IB_MERGE_NICS=0 NET_PLUGIN=none IB_SUBNET_AWARE_ROUTING=1 IB_SUBNET_PREFIX_LEN=30"
	env, problems := Derive(f, a, snap)
	if got := said(env); got != want || len(problems) > 0 {
		t.Fatalf("%s %q", got, problems)
	}
	snap.NCCL = []facts.Library{{Version: "2.27.5"}, {Version: "2.30.7"}}
	if _, problems := Derive(f, a, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "2.30.7 or later") {
		t.Fatalf("%q", problems)
	}
	a.Address, snap.NCCL = "elsewhere", nil
	if _, problems := Derive(f, a, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "does not reach ccc") {
		t.Fatalf("%q", problems)
	}
	d, _ := machine("dddd", "eth0 10.0.0.18/30")
	f.Hosts, f.Links = append(f.Hosts, d), append(f.Links, cable("cd", "", "dddd.rail0", "ccc.rail2"))
	if _, problems := Derive(f, a, snap); !strings.Contains(fmt.Sprint(problems), "no cable connects a and dddd") {
		t.Fatalf("%q", problems)
	}
}

// chainOf cables the host in the middle, by its rail0 and rail1, to rail0 of the two others.
func chainOf(left, middle, right *fabric.Host) *fabric.Fabric {
	return &fabric.Fabric{Hosts: []*fabric.Host{middle, left, right}, Links: []*fabric.Link{
		cable("ab", "", middle.Name+".rail0", left.Name+".rail0"), cable("ac", "", middle.Name+".rail1", right.Name+".rail0")}}
}

func TestCablesOfDifferentPrefixLengthsAreToldApart(t *testing.T) {
	a, _ := machine("a", "eth0 10.0.0.0/31", "eth1 10.0.1.1/30")
	b, _ := machine("bb", "eth0 10.0.0.1/31")
	c, _ := machine("ccc", "eth0 10.0.1.2/30")
	f := chainOf(b, a, c)
	if bits, problem := prefixLength(f); bits != 30 || problem != "" {
		t.Fatal(bits, problem)
	}
	a.NICs[1].Addresses, c.NICs[0].Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.2/30")}, []netip.Prefix{netip.MustParsePrefix("10.0.0.3/30")}
	if _, problem := prefixLength(f); !strings.Contains(problem, "10.0.0.0/30") {
		t.Fatal(problem)
	}
}

// TestAHostAtTheEndOfAChainIsTold: of three hosts with two cables, those at the ends have one neighbour each.
func TestAHostAtTheEndOfAChainIsTold(t *testing.T) {
	a, _ := machine("a", "eth0 10.0.0.1/30", "eth1 10.0.0.5/30")
	b, snap := machine("bb", "eth0 10.0.0.2/30")
	c, _ := machine("ccc", "eth0 10.0.0.6/30")
	f := chainOf(b, a, c)
	if _, problems := Derive(f, b, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "no cable connects bb and ccc") {
		t.Errorf("%q", problems)
	}
	other := cable("ce", "", "ccc.rail1", "eeeee.rail0")
	other.Role = "storage"
	f.Links = append(f.Links, other)
	if _, problems := Derive(f, b, snap); len(problems) != 1 {
		t.Errorf("a storage cable carries no collectives: %q", problems)
	}
	f.Networks = []*fabric.Network{{Name: "switch", Role: "storage", Members: []fabric.NICRef{{Host: "bb", NIC: "rail1"}, {Host: "ccc", NIC: "rail1"}}}}
	if _, problems := Derive(f, b, snap); len(problems) != 1 {
		t.Errorf("a storage network carries no collectives: %q", problems)
	}
	f.Networks[0].Role = "training"
	if _, problems := Derive(f, b, snap); len(problems) != 0 {
		t.Errorf("with a switch: %q", problems)
	}
	f.Networks, f.Links = nil, []*fabric.Link{f.Links[0], cable("cd", "", "ccc.rail0", "dddd.rail0")} // two pairs
	if _, problems := Derive(f, b, snap); len(problems) != 0 {
		t.Errorf("two pairs: %q", problems)
	}
}

// TestIPv6CablesNeedAPrefixOf64BitsEach: NCCL compares no more and no fewer bits, whatever NCCL_IB_SUBNET_PREFIX_LEN is.
func TestIPv6CablesNeedAPrefixOf64BitsEach(t *testing.T) {
	a, snap := machine("a", "eth0 fd00::1/126", "eth1 fd00:0:0:1::1/64")
	b, _ := machine("bb", "eth0 fd00::2/126")
	c, _ := machine("ccc", "eth0 fd00:0:0:1::2/64")
	f := chainOf(b, a, c)
	f.NCCL.Env = map[string]string{"NCCL_IB_ADDR_FAMILY": "AF_INET6"}
	for _, n := range []*fabric.NIC{a.NICs[0], b.NICs[0]} { // of the other family: NCCL does not look at them
		n.Addresses = append(n.Addresses, netip.MustParsePrefix("10.0.0.1/30"))
	}
	env, _ := Derive(f, a, snap)
	if bits, problem := prefixLength(f); bits != 0 || problem != "" || strings.Contains(said(env), "PREFIX_LEN") || !strings.Contains(said(env), "SUBNET_AWARE_ROUTING=1") {
		t.Error(bits, problem, said(env))
	}
	a.NICs[1].Addresses, c.NICs[0].Addresses = []netip.Prefix{netip.MustParsePrefix("fd00::5/126")}, []netip.Prefix{netip.MustParsePrefix("fd00::6/126")}
	const want = "link ab and link ac are both in fd00::/64: NCCL compares the first 64 bits of IPv6 addresses, so use a /64 for each"
	if _, problem := prefixLength(f); problem != want {
		t.Error(problem)
	}
}

func TestBothFunctionsOfAPortAreMerged(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.0/31", "eth1 10.0.1.0/31")
	b, _ := machine("bb", "eth0 10.0.0.1/31", "eth1 10.0.1.1/31")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a, b}, Links: []*fabric.Link{cable("l", "qsfp0", "a.rail0", "bb.rail0"), cable("u", "qsfp0", "a.rail1", "bb.rail1")}}
	env, problems := Derive(f, a, snap)
	if got := said(env); got != "IB_HCA==mlx5_0,mlx5_1 SOCKET_IFNAME==eth0 NET_FORCE_MERGE=mlx5_0,mlx5_1 CROSS_NIC=0" || len(problems) > 0 {
		t.Fatalf("%s %q", got, problems)
	}
	f.Links[1].PortGroup = ""
	f.Links[0].Endpoints[1].NIC = "rail1" // of the other host, whatever it is called
	f.Links[1].Endpoints[1].NIC = "rail0"
	b.NICs[0].Netdev, b.NICs[1].Netdev = "eth1", "eth0"
	if env, _ := Derive(f, a, snap); strings.Contains(said(env), "FORCE_MERGE") {
		t.Errorf("merged by the name of another host's NIC: %s", said(env))
	}
	a.NICs, f.Links = a.NICs[:1], f.Links[:1]
	if got := Findings(f, a, snap); len(got) != 1 || !strings.Contains(got[0], "its other half, eth1") {
		t.Fatalf("%q", got)
	}
	a.NICs[0].Single = true
	if got := Findings(f, a, snap); len(got) != 0 {
		t.Fatalf("%q", got)
	}
}

func TestRailsStayApart(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.1/24", "eth1 10.0.1.1/24")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a}}
	for _, rail := range []string{"rail0", "rail1"} {
		f.Networks = append(f.Networks, &fabric.Network{Name: rail, Role: "training", Members: []fabric.NICRef{{Host: "a", NIC: rail}, {Host: "bb", NIC: rail}}})
	}
	env, _ := Derive(f, a, snap)
	if got := said(env); got != "IB_HCA==mlx5_0,mlx5_1 SOCKET_IFNAME==eth0 CROSS_NIC=0" {
		t.Fatal(got)
	}
	f.Networks[1].Role = "storage"
	if env, _ := Derive(f, a, snap); said(env) != "IB_HCA==mlx5_0 SOCKET_IFNAME==eth0" {
		t.Error(said(env))
	}
	f.Networks[1].Role = "training"
	snap.RDMA[1].GIDs = nil
	snap.RDMA = append(snap.RDMA, facts.RDMADevice{Name: "mlx5_0", Port: 2, State: "DOWN"})
	env, problems := Derive(f, a, snap)
	if v, _ := env.Get("NCCL_IB_HCA"); v != "=mlx5_0:1,mlx5_1" || len(problems) != 1 {
		t.Fatalf("%s %q", v, problems)
	}
}

func TestAForeignAddressIsKeptOutByARange(t *testing.T) {
	a, snap := machine("a", "eth0 10.1.0.1/24", "eth1 10.1.1.1/24")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a}, Networks: []*fabric.Network{{Name: "w", Role: "training", Members: []fabric.NICRef{{Host: "a", NIC: "rail0"}, {Host: "a", NIC: "rail1"}}}}}
	snap.RDMA[1].GIDs = tableOf("eth1", "fe80::1 v1", "fe80::1 v2", "172.17.0.1 v1", "172.17.0.1 v2", "10.1.1.1 v1", "10.1.1.1 v2")
	env, problems := Derive(f, a, snap)
	if v, _ := env.Get("NCCL_IB_ADDR_RANGE"); v != "10.1.0.0/23" || len(problems) > 0 {
		t.Fatalf("%s %q", v, problems)
	}
	if p := Ports(f, a, snap); p[1].GID != 5 {
		t.Fatalf("%+v", p[1])
	}
	snap.RDMA[1].GIDs = tableOf("eth1", "fe80::1 v1", "fe80::1 v2", "10.1.1.7 v1", "10.1.1.7 v2", "10.1.1.1 v1", "10.1.1.1 v2")
	if _, problems := Derive(f, a, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "no one address range") {
		t.Fatalf("%q", problems)
	}
}

func TestAnOldNCCLIsToldTheIndex(t *testing.T) {
	f, h := pairOf()
	snap := snapshot("ACTIVE")
	snap.NCCL = []facts.Library{{Version: "2.18.3-1"}}
	env, _ := Derive(f, h, snap)
	if v, _ := env.Get("NCCL_IB_GID_INDEX"); v != "3" {
		t.Fatal(said(env))
	}
	f.NCCL.Env = map[string]string{"NCCL_IB_ADDR_RANGE": "10.0.0.0/8"}
	if _, problems := Derive(f, h, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "does not read") {
		t.Fatalf("%q", problems)
	}
}

func TestRoCEv1IsNCCLsOnlyWhereAskedFor(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.1/30")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a}, Links: []*fabric.Link{cable("l", "", "a.rail0", "bb.rail0")}}
	a.NICs[0].GID.Version = 1
	env, problems := Derive(f, a, snap)
	if got := said(env); got != "IB_HCA==mlx5_0 IB_ROCE_VERSION_NUM=1 SOCKET_IFNAME==eth0" || len(problems) > 0 {
		t.Fatalf("%s %q", got, problems)
	}
}

func TestARailThatIsNotItsGPUsNearestIsNamed(t *testing.T) {
	at := func(bus, slot string, numa int) facts.Slot {
		return facts.Slot{Path: "pci0000:" + bus + "/0000:" + bus + ":01.0/0000:" + slot + ":00.0", NUMA: numa}
	}
	topology := (&facts.Snapshot{
		GPUs: []facts.GPU{{Index: 0, Slot: at("00", "01", 0)}, {Index: 1, Slot: at("80", "81", 1)}},
		RDMA: []facts.RDMADevice{{Name: "mlx5_0", Slot: at("80", "82", 1)}, {Name: "mlx5_1", Slot: at("00", "02", 0)}},
	}).Topology()
	if got := Misplaced(topology, []string{"mlx5_1", "mlx5_0"}); len(got) != 0 {
		t.Errorf("%q", got)
	}
	if got := Misplaced(topology, []string{"mlx5_0", "mlx5_1"}); len(got) != 2 || !strings.Contains(got[0], "rail 0 (mlx5_0) is SYS from GPU0, whose nearest NIC is mlx5_1 (PIX)") {
		t.Errorf("%q", got)
	}
}

// TestTheBootstrapInterfaceMustRun: NCCL counts what is running (IFF_RUNNING), not only up, and takes any address.
func TestTheBootstrapInterfaceMustRun(t *testing.T) {
	for name, c := range map[string]struct {
		state string
		up    bool
		carry bool // there is a carrier
		addrs []string
		wrong string
	}{
		"running":                  {"up", true, true, []string{"10.0.0.1/30"}, ""},
		"a driver without a state": {"unknown", true, true, []string{"10.0.0.1/30"}, ""},
		"down":                     {"down", false, false, []string{"10.0.0.1/30"}, "which is down"},
		"no carrier":               {"down", true, false, []string{"10.0.0.1/30"}, "which has no carrier: NCCL 2.28.3 and later do not start, and earlier versions cannot connect"},
		"its VLAN's NIC is down":   {"lower-layer-down", true, false, []string{"10.0.0.1/30"}, "has no carrier"},
		"802.1X has not answered":  {"dormant", true, true, []string{"10.0.0.1/30"}, "has no carrier"},
		"the state follows late":   {"down", true, true, []string{"10.0.0.1/30"}, ""},
		"fe80 alone":               {"up", true, true, []string{"fe80::1/64"}, "only a link-local address: NCCL starts, but other hosts cannot connect to it"},
		"no address":               {"up", true, true, nil, "has no address: NCCL will not start"},
	} {
		for _, declared := range []fabric.Netdev{"", "eth0"} {
			a, snap := machine("a", "eth0 10.0.0.1/30")
			f := &fabric.Fabric{Hosts: []*fabric.Host{a}, Links: []*fabric.Link{cable("l", "", "a.rail0", "bb.rail0")}, NCCL: fabric.NCCL{SocketIfname: declared}}
			snap.Links[1].Up, snap.Links[1].Carrier, snap.Links[1].OperState, snap.Addrs = c.up, c.carry, c.state, nil
			for _, p := range c.addrs {
				snap.Addrs = append(snap.Addrs, host.Addr{Index: 2, Prefix: netip.MustParsePrefix(p)})
			}
			_, problems := Derive(f, a, snap)
			if (len(problems) > 0) != (c.wrong != "") || c.wrong != "" && (problems[0].Of != SocketInterface || !strings.Contains(problems[0].Text, c.wrong)) {
				t.Errorf("%s: %q", name, problems)
			}
			// What an apply makes is not a problem of its plan, and neither is an unplugged cable.
			a.NICs[0].Up = true
			if _, problems := Derive(f, a, AfterApply(a, snap)); len(problems) > 0 {
				t.Errorf("%s, after apply: %q", name, problems)
			}
		}
	}
}

// TestTheBootstrapInterfaceHasAnAddressOfNCCLsFamily: NCCL leaves out the others, and then finds no interface.
func TestTheBootstrapInterfaceHasAnAddressOfNCCLsFamily(t *testing.T) {
	for family, wrong := range map[string]string{"": "", "inet6": "", "AF_INET": "", "AF_INET6": "has only a link-local address of NCCL_SOCKET_FAMILY = AF_INET6"} {
		a, snap := machine("a", "eth0 10.0.0.1/30")
		snap.Addrs = append(snap.Addrs, host.Addr{Index: 2, Prefix: netip.MustParsePrefix("fe80::1/64")})
		f := &fabric.Fabric{Hosts: []*fabric.Host{a}, Links: []*fabric.Link{cable("l", "", "a.rail0", "bb.rail0")}}
		f.NCCL.Env = map[string]string{"NCCL_SOCKET_FAMILY": family}
		if _, problems := Derive(f, a, snap); (len(problems) > 0) != (wrong != "") || wrong != "" && !strings.Contains(problems[0].Text, wrong) {
			t.Errorf("%s: %q", family, problems)
		}
		snap.Addrs = snap.Addrs[:2] // without fe80
		if _, problems := Derive(f, a, snap); wrong != "" && (len(problems) != 1 || !strings.Contains(problems[0].Text, "has no address of NCCL_SOCKET_FAMILY = AF_INET6: NCCL will not start")) {
			t.Errorf("%s without fe80: %q", family, problems)
		}
	}
}

// joinedAs is two hosts with two NICs each; pairs are "a's NIC, b's NIC", on cables or on networks.
func joinedAs(networks bool, pairs ...[2]int) (*fabric.Fabric, *fabric.Host, *facts.Snapshot) {
	a, snap := machine("a", "eth0 10.0.0.1/30", "eth1 10.0.0.5/30")
	b, _ := machine("bb", "eth0 10.0.0.6/30", "eth1 10.0.0.2/30")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a, b}}
	for i, p := range pairs {
		ends := []fabric.NICRef{{Host: "a", NIC: fmt.Sprint("rail", p[0])}, {Host: "bb", NIC: fmt.Sprint("rail", p[1])}}
		if networks {
			f.Networks = append(f.Networks, &fabric.Network{Name: fmt.Sprint("w", i), Role: "training", Members: ends})
		} else {
			f.Links = append(f.Links, &fabric.Link{Name: fmt.Sprint("l", i), Role: "training", Endpoints: ends})
		}
	}
	return f, a, snap
}

// TestCrossedCablesAndRailsChooseNICsBySubnet: NCCL connects the first NIC of a host to the first of the next, whatever is
// cabled to it.
func TestCrossedCablesAndRailsChooseNICsBySubnet(t *testing.T) {
	const bySubnet = " IB_MERGE_NICS=0 NET_PLUGIN=none IB_SUBNET_AWARE_ROUTING=1 IB_SUBNET_PREFIX_LEN=30 CROSS_NIC=0"
	for name, networks := range map[string]bool{"cables": false, "rails": true} {
		f, a, snap := joinedAs(networks, [2]int{0, 0}, [2]int{1, 1})
		if env, problems := Derive(f, a, snap); strings.Contains(said(env), "SUBNET") || len(problems) > 0 {
			t.Errorf("straight %s: %s %q", name, said(env), problems)
		}
		f, a, snap = joinedAs(networks, [2]int{0, 1}, [2]int{1, 0})
		env, problems := Derive(f, a, snap)
		if got := said(env); !strings.HasSuffix(got, bySubnet) || len(problems) > 0 {
			t.Errorf("crossed %s: %s %q", name, got, problems)
		}
		if why := env[len(env)-1].Reason; strings.Contains(why, "parallel") {
			t.Errorf("crossed %s are called parallel: %s", name, why)
		}
		// The other host gets the same: NCCL compares the subnets on both.
		_, b := machine("bb", "eth0 10.0.0.6/30", "eth1 10.0.0.2/30")
		if env, problems := Derive(f, f.Hosts[1], b); !strings.HasSuffix(said(env), bySubnet) || len(problems) > 0 {
			t.Errorf("crossed %s, other end: %s %q", name, said(env), problems)
		}
		f.NCCL.Version = "2.27.5"
		if _, problems := Derive(f, a, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "swap the cables or rails at one end, or install 2.30.7 or later") {
			t.Errorf("crossed %s: %q", name, problems)
		}
		// Merged halves of a port would be joined crosswise, too.
		for _, l := range f.Links {
			l.PortGroup = "qsfp0"
		}
		if env, _ := Derive(f, a, snap); strings.Contains(said(env), "FORCE_MERGE") {
			t.Errorf("crossed %s: %s", name, said(env))
		}
	}
}

func TestTheOrderOfNICsIsThatOfTheirPCIAddresses(t *testing.T) {
	f, a, snap := joinedAs(false, [2]int{0, 1}, [2]int{1, 0})
	b := f.Hosts[1]
	b.NICs[0].Netdev, b.NICs[1].Netdev = "eth10", "eth2" // 2 comes before 10
	if env, problems := Derive(f, a, snap); strings.Contains(said(env), "SUBNET") || len(problems) > 0 {
		t.Errorf("%s %q", said(env), problems)
	}
	for i, n := range b.NICs {
		n.Netdev, n.Match.PCI = "", []string{"0000:09:00.0", "0000:1a:00.0"}[i] // hexadecimal
	}
	if env, _ := Derive(f, a, snap); !strings.Contains(said(env), "SUBNET") {
		t.Error(said(env))
	}
	// verify has both hosts' facts.
	f, a, snap = joinedAs(false, [2]int{0, 0}, [2]int{1, 1})
	_, other := machine("bb", "eth0 10.0.0.6/30", "eth1 10.0.0.2/30")
	snaps := map[string]*facts.Snapshot{"a": snap, "bb": other}
	if got := Miswired(f, a, snaps); got != nil {
		t.Errorf("%q", got)
	}
	other.Links[1].PCI, other.Links[2].PCI = other.Links[2].PCI, other.Links[1].PCI
	if got := Miswired(f, a, snaps); len(got) != 1 || !strings.Contains(got[0], "the NICs of a and bb are joined in another order") {
		t.Errorf("%q", got)
	}
	delete(snaps, "bb") // not reached: nothing is known
	if got := Miswired(f, a, snaps); got != nil {
		t.Errorf("%q", got)
	}
}

// TestARailOfOneHostAloneIsNamed: without a route between rails, NCCL must find each rail on every host.
func TestARailOfOneHostAloneIsNamed(t *testing.T) {
	f, a, snap := joinedAs(true, [2]int{0, 0})
	f.Networks = append(f.Networks, &fabric.Network{Name: "w1", Role: "training", Members: []fabric.NICRef{{Host: "a", NIC: "rail1"}, {Host: "ccc", NIC: "rail0"}}})
	f.Hosts[1].NICs = f.Hosts[1].NICs[:1]
	_, problems := Derive(f, a, snap)
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "a.rail1 reaches no NIC of bb, but NCCL may use any NIC of a host for any other host") {
		t.Fatalf("%q", problems)
	}
	a.Policy = []*fabric.PolicyRoute{{NIC: a.NICs[1].Ref(), Routes: []fabric.Route{{To: netip.MustParsePrefix("10.0.0.0/8")}}}}
	if _, problems := Derive(f, a, snap); len(problems) != 0 {
		t.Errorf("with a route: %q", problems)
	}
	a.Policy, a.Routes = nil, []*fabric.MainRoute{{NIC: a.NICs[1].Ref(), Route: fabric.Route{To: netip.MustParsePrefix("10.0.0.0/24")}}}
	if _, problems := Derive(f, a, snap); len(problems) != 0 {
		t.Errorf("with a route of the main table: %q", problems)
	}
	a.Routes[0].NIC = a.NICs[0].Ref() // the other NIC gets nowhere by it
	if _, problems := Derive(f, a, snap); len(problems) != 1 {
		t.Errorf("with a route of another NIC: %q", problems)
	}
	a.Routes = nil
	f.NCCL.HCA = []fabric.NICRef{a.NICs[0].Ref(), f.Hosts[1].NICs[0].Ref()}
	if _, problems := Derive(f, a, snap); len(problems) != 0 {
		t.Errorf("with the common rail alone: %q", problems)
	}
}

// TestAMergedPortWithOneHalfDownIsNamed: NCCL ends with invalid usage, and plans for both halves go on naming them.
func TestAMergedPortWithOneHalfDownIsNamed(t *testing.T) {
	a, snap := machine("a", "eth0 10.0.0.0/31", "eth1 10.0.1.0/31")
	b, _ := machine("bb", "eth0 10.0.0.1/31", "eth1 10.0.1.1/31")
	f := &fabric.Fabric{Hosts: []*fabric.Host{a, b}, Links: []*fabric.Link{cable("l", "qsfp0", "a.rail0", "bb.rail0"), cable("u", "qsfp0", "a.rail1", "bb.rail1")}}
	a.NICs[0].Up, a.NICs[1].Up = true, true
	snap.RDMA[1].State = "DOWN"
	_, problems := Derive(f, a, snap)
	if len(problems) != 1 || !strings.Contains(problems[0].Text, "RDMA device mlx5_1 on eth1 is DOWN, and port group qsfp0 has another half that is active") || !strings.Contains(problems[0].Text, "invalid usage instead of running at half speed") {
		t.Errorf("%q", problems)
	}
	env, problems := Derive(f, a, AfterApply(a, snap))
	if v, _ := env.Get("NCCL_NET_FORCE_MERGE"); v != "mlx5_0,mlx5_1" || len(problems) > 0 {
		t.Errorf("%s %q", v, problems)
	}
	snap.RDMA[0].State = "DOWN" // the cable is out: the job uses sockets or ends, whatever is merged
	if _, problems := Derive(f, a, snap); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
	snap.RDMA[0].State = "ACTIVE"
	snap.NCCL = []facts.Library{{Version: "2.22.3"}} // it does not merge them, and uses the one that is active
	if _, problems := Derive(f, a, snap); len(problems) > 0 {
		t.Errorf("%q", problems)
	}
}

func TestADeclaredCrossNICIsHeldAgainstTheRails(t *testing.T) {
	f, a, snap := joinedAs(true, [2]int{0, 0}, [2]int{1, 1})
	f.NCCL.Env = map[string]string{"NCCL_CROSS_NIC": "2"}
	if _, problems := Derive(f, a, snap); len(problems) != 1 || !strings.Contains(problems[0].Text, "nccl.env sets NCCL_CROSS_NIC = 2, with which NCCL may connect a.rail0 to bb.rail1, but nothing joins them") {
		t.Errorf("%q", problems)
	}
	f.Networks[0].Members = append(f.Networks[0].Members, f.Networks[1].Members...) // one switch
	if _, problems := Derive(f, a, snap); len(problems) != 0 {
		t.Errorf("%q", problems)
	}
	f, a, snap = joinedAs(false, [2]int{0, 1}, [2]int{1, 0})
	f.NCCL.Env = map[string]string{"NCCL_CROSS_NIC": "1"}
	if _, problems := Derive(f, a, snap); len(problems) != 0 {
		t.Errorf("chosen by subnet: %q", problems)
	}
}
