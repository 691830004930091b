package nccl

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// table builds a GID table of eth0 from "address version" lines; "-" is an empty slot, and a third word another netdev.
func table(slots ...string) []facts.GID { return tableOf("eth0", slots...) }

func tableOf(netdev string, slots ...string) []facts.GID {
	var out []facts.GID
	for i, s := range slots {
		if s == "-" {
			continue
		}
		words := append(strings.Fields(s), netdev)
		out = append(out, facts.GID{Index: i, Addr: netip.AddrFrom16(netip.MustParseAddr(words[0]).As16()), Version: int(words[1][1] - '0'), Netdev: words[2]})
	}
	return out
}

func TestPredictFollowsNCCL(t *testing.T) {
	const ll, stable = "fe80::1", "fe80::aaaa:bbbb"
	mlx5 := []string{ll + " v1", ll + " v2", "192.168.88.1 v1", "192.168.88.1 v2"}
	vlan := append(mlx5[:4:4], ll+" v1 eth0.7", ll+" v2 eth0.7", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7", "fd00:7::1 v1 eth0.7", "fd00:7::1 v2 eth0.7")
	for name, c := range map[string]struct {
		slots []string
		s     GIDSelection
		want  int
		wrong string
	}{
		"mlx5":                       {mlx5, GIDSelection{}, 3, ""},
		"rxe":                        {[]string{ll + " v2", "192.168.88.1 v2"}, GIDSelection{}, 1, ""},
		"stable privacy comes first": {[]string{ll + " v1", ll + " v2", stable + " v1", stable + " v2", "10.0.0.1 v1", "10.0.0.1 v2"}, GIDSelection{}, 5, ""},
		"a hole after drift":         {[]string{ll + " v1", ll + " v2", "10.0.0.1 v1", "-", "10.0.0.1 v2"}, GIDSelection{}, 4, ""},
		"two IPv4 addresses":         {append(mlx5, "10.0.0.1 v1", "10.0.0.1 v2"), GIDSelection{}, 3, ""},
		"a range for the second":     {append(mlx5, "10.0.0.1 v1", "10.0.0.1 v2"), GIDSelection{Range: netip.MustParsePrefix("10.0.0.0/8")}, 5, ""},
		"IPv4 link-local counts":     {[]string{ll + " v1", ll + " v2", "169.254.1.1 v1", "169.254.1.1 v2"}, GIDSelection{}, 3, ""},
		"IPv6 asked for":             {append(mlx5, "fd00::1 v1", "fd00::1 v2"), GIDSelection{IPv6: true}, 5, ""},
		// A VLAN's GIDs are in the table of the port below. NCCL does not read their netdevs: the first IPv4 address wins.
		"a VLAN alone has an address":    {[]string{ll + " v1", ll + " v2", ll + " v1 eth0.7", ll + " v2 eth0.7", "10.7.0.1 v1 eth0.7", "10.7.0.1 v2 eth0.7"}, GIDSelection{}, 5, ""},
		"the NIC below a VLAN is first":  {vlan, GIDSelection{}, 3, ""},
		"the range of a VLAN":            {vlan, GIDSelection{Range: netip.MustParsePrefix("10.7.0.0/24")}, 7, ""},
		"a VLAN, and RoCE v1 asked for":  {vlan, GIDSelection{Range: netip.MustParsePrefix("10.7.0.0/24"), Version: 1}, 6, ""},
		"IPv6 of a VLAN":                 {vlan, GIDSelection{IPv6: true}, 9, ""},
		"a range with host bits":         {vlan, GIDSelection{Range: netip.MustParsePrefix("10.7.0.9/24")}, 7, ""},
		"a range that nothing is in":     {vlan, GIDSelection{Range: netip.MustParsePrefix("172.16.0.0/12")}, 0, "link-local"},
		"only RoCE v1 of the family":     {[]string{ll + " v1", ll + " v2", "10.0.0.1 v1"}, GIDSelection{}, 2, "RoCE v1"},
		"the last RoCE v2 is not taken":  {append(mlx5, "169.254.1.1 v2"), GIDSelection{}, 3, ""},
		"IPv6 asked for and only IPv4":   {[]string{"10.0.0.1 v2"}, GIDSelection{IPv6: true}, 1, "empty"},
		"IPv4 asked for and only global": {[]string{"fd00::1 v2"}, GIDSelection{}, 0, "no address of the family"},
		"no address":                     {[]string{ll + " v1", ll + " v2"}, GIDSelection{}, 0, "link-local"},
		"empty table":                    {nil, GIDSelection{}, 0, "empty"},
	} {
		got, wrong := PredictGID(table(c.slots...), c.s)
		if got != c.want || (wrong == "") != (c.wrong == "") || !strings.Contains(wrong, c.wrong) {
			t.Errorf("%s: %d %q, want %d %q", name, got, wrong, c.want, c.wrong)
		}
	}
}

// pairOf is a host with two NICs on cables to one neighbour.
func pairOf() (*fabric.Fabric, *fabric.Host) {
	addr := []netip.Prefix{netip.MustParsePrefix("192.168.88.1/30")}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{{Name: "rail0", Host: "a", Netdev: "eth0", Addresses: addr}, {Name: "rail1", Host: "a", Netdev: "eth1", Addresses: addr}}}
	f := &fabric.Fabric{Hosts: []*fabric.Host{h}}
	for _, n := range []string{"rail0", "rail1"} {
		f.Links = append(f.Links, &fabric.Link{Name: n, Role: "training", Endpoints: []fabric.NICRef{{Host: "a", NIC: n}, {Host: "b", NIC: n}}})
	}
	return f, h
}

func snapshot(state string) *facts.Snapshot {
	gids := func(netdev string) []facts.GID {
		return tableOf(netdev, "fe80::1 v1", "fe80::1 v2", "192.168.88.1 v1", "192.168.88.1 v2")
	}
	return &facts.Snapshot{
		Links: []host.Link{{Index: 1, Name: "eth0", Up: true}, {Index: 2, Name: "eth1", Up: true}},
		Addrs: []host.Addr{{Index: 1, Prefix: netip.MustParsePrefix("192.168.88.1/30")}},
		RDMA:  []facts.RDMADevice{{Name: "mlx5_1", Netdev: "eth0", State: state, GIDs: gids("eth0")}, {Name: "mlx5_10", Netdev: "eth1", State: state, GIDs: gids("eth1")}},
	}
}

func TestDeriveNamesHCAsExactlyAndPinsNoGID(t *testing.T) {
	f, h := pairOf()
	env, problems := Derive(f, h, snapshot("ACTIVE"))
	got, err := RenderConf(env)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	for _, line := range []string{"\nNCCL_IB_HCA==mlx5_1,mlx5_10\n", "\nNCCL_SOCKET_IFNAME==eth0\n", "\nNCCL_CROSS_NIC=0\n"} {
		if !strings.Contains(string(got), line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
	if strings.Contains(string(got), "GID_INDEX") {
		t.Errorf("an index was pinned:\n%s", got)
	}
}

func TestDeriveUsesSocketsWithoutAnActiveDevice(t *testing.T) {
	f, h := pairOf()
	env, _ := Derive(f, h, snapshot("DOWN"))
	if env[0].Name != "NCCL_IB_DISABLE" || env[0].Value != "1" {
		t.Fatalf("%+v", env)
	}
	f.NCCL.Transport = "ib"
	for _, state := range []string{"DOWN", "INIT", "ARMED"} { // NCCL takes active ports alone
		if _, problems := Derive(f, h, snapshot(state)); len(problems) != 2 {
			t.Errorf("%s: %q", state, problems)
		}
	}
}

func TestAPinIsCheckedOnEveryDevice(t *testing.T) {
	f, h := pairOf()
	pin := 2
	f.NCCL.GIDIndex = &pin
	if _, problems := Derive(f, h, snapshot("ACTIVE")); len(problems) != 2 || !strings.Contains(problems[0].Text, "RoCE v1") {
		t.Fatalf("%q", problems)
	}
}

func TestRenderRefusesWhatAFileCannotSay(t *testing.T) {
	for _, s := range []Setting{{Name: "A", Value: "x\ny"}, {Name: "A B", Value: "x"}, {Name: "A", Value: "\x00"}, {Name: "A", Value: "\x1b[8m"}, {Name: "A", Value: "\u202e"}, {Name: "A", Value: strings.Repeat("x", 1024)}} {
		if _, err := RenderConf(Env{s}); err == nil {
			t.Errorf("%q was rendered", s)
		}
	}
	if got := Comment("a\n\x1b[2Jb\u2028c\u009b"); got != "# a \ufffd[2Jb c\ufffd" {
		t.Errorf("%q", got)
	}
	got, err := RenderShell(Env{{Name: "A", Value: "it's $(x) `y`"}})
	if err != nil || !strings.Contains(string(got), `export A='it'\''s $(x) `+"`y`'") {
		t.Fatalf("%s %v", got, err)
	}
}

// TestRangesAreParsedAsNCCLDoes: an invalid prefix is no range at all.
func TestRangesAreParsedAsNCCLDoes(t *testing.T) {
	for v, want := range map[string]string{
		"10.7.0.0/24": "10.7.0.0/24", "10.7.0.9/24": "10.7.0.9/24", "10.7.0.0/ 24": "10.7.0.0/24", "10.7.0.0/24,10.8.0.0/24": "10.7.0.0/24", "10.7.0.0/+8x": "10.7.0.0/8",
		"10.7.0.0": "", "": "", "10.7.0.0/33": "", "10.7.0.0/0": "", "10.7.0.0/x": "", "10.7.0/24": "", "fd00::/8": "", " 10.7.0.0/24": "", "10.7.0.0/99999999999999999999": "",
		"10.7.0.0/-1": "10.7.0.0/32",
	} {
		got := parseRange(v, false)
		if got.IsValid() != (want != "") || want != "" && got.String() != want {
			t.Errorf("%q: %v, want %q", v, got, want)
		}
	}
	if got := parseRange("fd00::/8", true); got.String() != "fd00::/8" {
		t.Error(got)
	}
	if got := parseRange("fe80::1%eth0/64", true); got.IsValid() { // inet_pton knows no zones
		t.Error(got)
	}
}

// TestPredictionFollowsDeclaredVariables: those of nccl.env come before what would be derived.
func TestPredictionFollowsDeclaredVariables(t *testing.T) {
	gids := table("fe80::1 v1", "fe80::1 v2", "10.0.0.1 v1", "10.0.0.1 v2", "10.7.0.1 v1", "10.7.0.1 v2", "fd00::1 v1", "fd00::1 v2")
	for name, c := range map[string]struct {
		env   map[string]string
		gid   int
		wrong string
	}{
		"nothing":                  {nil, 3, ""},
		"the declared range":       {map[string]string{"NCCL_IB_ADDR_RANGE": "10.0.0.0/24"}, 3, ""},
		"another range":            {map[string]string{"NCCL_IB_ADDR_RANGE": "10.7.0.0/24"}, 5, "GID 5, which is 10.7.0.1 and not a declared address: remove NCCL_IB_ADDR_RANGE"},
		"a range that is ignored":  {map[string]string{"NCCL_IB_ADDR_RANGE": "10.7.0.0"}, 3, ""},
		"the other family":         {map[string]string{"NCCL_IB_ADDR_FAMILY": "AF_INET6"}, 7, ""},
		"a family by another name": {map[string]string{"NCCL_IB_ADDR_FAMILY": "inet6"}, 3, ""},
		"RoCE v1":                  {map[string]string{"NCCL_IB_ROCE_VERSION_NUM": "1"}, 2, ""},
		"RoCE v3":                  {map[string]string{"NCCL_IB_ROCE_VERSION_NUM": "3"}, 2, "RoCE v1"},
	} {
		f, h := pairOf()
		h.NICs, f.Links, f.NCCL.Env = h.NICs[:1], f.Links[:1], c.env
		h.NICs[0].AddressesSet, h.NICs[0].Addresses = true, []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}
		snap := snapshot("ACTIVE")
		snap.RDMA[0].GIDs = gids
		p := Ports(f, h, snap)[0]
		if p.GID != c.gid || (p.Wrong == "") != (c.wrong == "") || !strings.Contains(p.Wrong, c.wrong) {
			t.Errorf("%s: GID %d %q", name, p.GID, p.Wrong)
		}
		settings, _ := Derive(f, h, snap)
		for variable, v := range c.env {
			if got, _ := settings.Get(variable); got != v {
				t.Errorf("%s: %s", name, said(settings))
			}
		}
	}
}
