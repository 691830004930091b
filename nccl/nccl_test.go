package nccl

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// table builds a GID table from "address version" lines; "-" is an empty slot.
func table(slots ...string) []facts.GID {
	var out []facts.GID
	for i, s := range slots {
		if s == "-" {
			continue
		}
		addr, version, _ := strings.Cut(s, " ")
		a := netip.MustParseAddr(addr)
		if a.Is4() {
			a = netip.AddrFrom16(a.As16())
		}
		out = append(out, facts.GID{Index: i, Addr: a, Version: int(version[1] - '0'), Netdev: "eth0"})
	}
	return out
}

func TestPredictFollowsNCCL(t *testing.T) {
	const ll, stable = "fe80::1", "fe80::aaaa:bbbb"
	mlx5 := []string{ll + " v1", ll + " v2", "192.168.88.1 v1", "192.168.88.1 v2"}
	for name, c := range map[string]struct {
		slots []string
		s     Selection
		want  int
		wrong string
	}{
		"mlx5":                       {mlx5, Selection{}, 3, ""},
		"rxe":                        {[]string{ll + " v2", "192.168.88.1 v2"}, Selection{}, 1, ""},
		"stable privacy comes first": {[]string{ll + " v1", ll + " v2", stable + " v1", stable + " v2", "10.0.0.1 v1", "10.0.0.1 v2"}, Selection{}, 5, ""},
		"a hole after drift":         {[]string{ll + " v1", ll + " v2", "10.0.0.1 v1", "-", "10.0.0.1 v2"}, Selection{}, 4, ""},
		"two IPv4 addresses":         {append(mlx5, "10.0.0.1 v1", "10.0.0.1 v2"), Selection{}, 3, ""},
		"a range for the second":     {append(mlx5, "10.0.0.1 v1", "10.0.0.1 v2"), Selection{Range: netip.MustParsePrefix("10.0.0.0/8")}, 5, ""},
		"IPv4 link-local counts":     {[]string{ll + " v1", ll + " v2", "169.254.1.1 v1", "169.254.1.1 v2"}, Selection{}, 3, ""},
		"IPv6 asked for":             {append(mlx5, "fd00::1 v1", "fd00::1 v2"), Selection{IPv6: true}, 5, ""},
		"no address":                 {[]string{ll + " v1", ll + " v2"}, Selection{}, 0, "link-local"},
		"empty table":                {nil, Selection{}, 0, "empty"},
	} {
		got, wrong := predict(table(c.slots...), c.s)
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
	gids := table("fe80::1 v1", "fe80::1 v2", "192.168.88.1 v1", "192.168.88.1 v2")
	return &facts.Snapshot{
		Links: []host.Link{{Index: 1, Name: "eth0"}, {Index: 2, Name: "eth1"}},
		RDMA:  []facts.RDMADevice{{Name: "mlx5_1", Netdev: "eth0", State: state, GIDs: gids}, {Name: "mlx5_10", Netdev: "eth1", State: state, GIDs: gids}},
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
	if _, problems := Derive(f, h, snapshot("DOWN")); len(problems) != 2 {
		t.Fatalf("%q", problems)
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
