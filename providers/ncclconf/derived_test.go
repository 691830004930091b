package ncclconf

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// softPair is a host with a cable and a Soft-RoCE device on it, and a block that asks for the file.
func softPair() (*fabric.Fabric, *fabric.Host) {
	n := &fabric.NIC{Name: "rail0", Host: "a", Netdev: "eth0", Up: true, AddressesSet: true, Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/30")}}
	h := &fabric.Host{Name: "a", NICs: []*fabric.NIC{n}, RXE: []*fabric.RXE{{Name: "rxe0", Host: "a", NIC: n.Ref()}}}
	f := &fabric.Fabric{Name: "lab", Hosts: []*fabric.Host{h}, Links: []*fabric.Link{{Name: "rail0", Role: "training", Endpoints: []fabric.NICRef{n.Ref(), {Host: "b", NIC: "rail0"}}}}}
	f.NCCL.Pos = fabric.Pos{File: "f.hcl", Line: 7}
	return f, h
}

func derived(t *testing.T, f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot, gone ...string) Spec {
	t.Helper()
	rs := Derived(f, h, snap, gone...)
	if len(rs) != 1 || rs[0].Pos.Line != 7 {
		t.Fatalf("%+v", rs)
	}
	var s Spec
	if err := json.Unmarshal(rs[0].Spec, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func bare() *facts.Snapshot {
	return &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "eth0"}}, Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.9.9.9/30")}}}
}

// TestWhatIsDerivedBeforeIsDerivedAfter: a plan shows what will be written although the devices that it
// names are made by the same apply, and the next plan is empty.
func TestWhatIsDerivedBeforeIsDerivedAfter(t *testing.T) {
	f, h := softPair()
	before := derived(t, f, h, bare())
	after := bare()
	gid := func(i int, a string) facts.GID {
		return facts.GID{Index: i, Addr: netip.AddrFrom16(netip.MustParseAddr(a).As16()), Version: 2, Netdev: "eth0"}
	}
	after.RDMA = []facts.RDMADevice{{Name: "rxe0", Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "eth0", Driver: "rxe", Virtual: true, GIDs: []facts.GID{gid(0, "fe80::5054:ff:fe01:1"), gid(1, "10.0.0.1")}}}
	if got := derived(t, f, h, after); !slices.Equal(got.Env, before.Env) || len(got.Wrong)+len(before.Wrong) > 0 {
		t.Errorf("before %v, after %v", before, got)
	}
	if v, _ := before.Env.Get("NCCL_IB_HCA"); v != "=rxe0" {
		t.Errorf("%q", v)
	}
	h.RXE = nil
	if v, _ := derived(t, f, h, after, "rxe0").Env.Get("NCCL_IB_DISABLE"); v != "1" {
		t.Error("a device that goes is named")
	}
}

// TestWhatChangesWaitsForNoHome: what is derived looks into homes, and nothing that a change waits for.
func TestWhatChangesWaitsForNoHome(t *testing.T) {
	look := func(patient bool, resources ...resource.Resource) *facts.Snapshot {
		f := newFake(map[string]string{"/etc/passwd": "root:x:0:0::/root:/bin/sh\n", "/root/.nccl.conf": "", "/sys/module/nvidia/version": "550"})
		snap, err := Kinds().Gather(t.Context(), f, resource.Query{Resources: resources, Atoms: []resource.Atom{atom(host.NCCLConf)}, Patient: patient})
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	h := &fabric.Host{Name: "h"}
	changes, sources := resource.New("h", Kind, "file", fabric.Pos{}, wanted()), Looks(&fabric.Fabric{}, h)[0]
	if s := look(true, changes); Part.Of(s) != nil || s.GPUDriver != "" {
		t.Errorf("a change reads %+v", s)
	}
	if s := look(false, changes, sources); Part.Of(s) != nil || s.GPUDriver != "550" {
		t.Errorf("within a transaction %+v", s)
	}
	if s := look(true, changes, sources); len(Part.Of(s)) != 1 {
		t.Errorf("before anything changes %+v", s)
	}
}

func TestNoBlockNoFile(t *testing.T) {
	no, yes := false, true
	f, h := softPair()
	f.NCCL.Write = &no
	if rs := Derived(f, h, bare()); rs != nil {
		t.Errorf("write = false: %v", rs)
	}
	h.NCCL.Write = &yes
	derived(t, f, h, bare())
	f, h = softPair()
	f.NCCL.Pos = fabric.Pos{}
	if rs := Derived(f, h, bare()); rs != nil {
		t.Errorf("no block: %v", rs)
	}
}

// TestAWrongGIDIsAnErrorBefore: a pin that will not be what it is meant to be.
func TestAWrongGIDIsAnErrorBefore(t *testing.T) {
	f, h := softPair()
	pin := 3
	h.NICs[0].GID.Index = &pin
	if s := derived(t, f, h, bare()); len(s.Wrong) != 1 || !strings.Contains(s.Wrong[0], "pinned GID 3 of rxe0 is empty; the right index is now 1") {
		t.Errorf("%q", s.Wrong)
	}
	h.NICs[0].AddressesSet = false // whoever gives the addresses may give that one
	if s := derived(t, f, h, bare()); len(s.Wrong) != 0 || len(s.Notes) != 1 {
		t.Errorf("%q %q", s.Wrong, s.Notes)
	}
}

func TestWhatNCCLReadsBeforeTheFileIsSaid(t *testing.T) {
	const own = "/etc/nccl-fabricform.conf"
	login := func(sets ...string) SettingsSource { return SettingsSource{Path: "/etc/environment", Sets: sets} }
	home := SettingsSource{Path: "/root/.nccl.conf"}
	silent := func(user string) SettingsSource {
		return SettingsSource{Path: "/home/" + user + "/.nccl.conf", Unknown: true}
	}
	for _, c := range []struct {
		file   string
		places []SettingsSource
		says   []string
	}{
		{fabric.NCCLConf, nil, nil},
		{fabric.NCCLConf, []SettingsSource{home}, []string{"/root/.nccl.conf exists"}},
		{fabric.NCCLConf, []SettingsSource{login("NCCL_CONF_FILE=/x", "NCCL_DEBUG=INFO"), home}, []string{`sets NCCL_DEBUG to "INFO", which overrides`, `NCCL_CONF_FILE is "/x"`}},
		{own, []SettingsSource{login("NCCL_CONF_FILE=" + own), home}, nil},
		{fabric.NCCLConf, []SettingsSource{silent("ann"), home}, []string{"/root/.nccl.conf exists", "no answer from /home/ann: cannot tell whether an .nccl.conf there overrides /etc/nccl.conf"}},
		{fabric.NCCLConf, []SettingsSource{silent("a"), silent("b"), silent("c"), silent("d"), silent("e")}, []string{"no answer from /home/a, /home/b, /home/c, 2 more: "}},
		{own, []SettingsSource{login("NCCL_CONF_FILE=" + own), silent("ann")}, nil},
		{own, []SettingsSource{home}, []string{"only if NCCL_CONF_FILE names it", "/root/.nccl.conf exists"}},
	} {
		snap := new(facts.Snapshot)
		Part.Put(snap, c.places)
		got := elsewhere(snap, c.file)
		if len(got) != len(c.says) {
			t.Errorf("%+v: %q", c, got)
			continue
		}
		for i, s := range c.says {
			if !strings.Contains(got[i], s) {
				t.Errorf("%q lacks %q", got[i], s)
			}
		}
	}
}

// TestAVLANsFileNamesTheDeviceBelow: before, it was NCCL_IB_DISABLE=1 without a word.
func TestAVLANsFileNamesTheDeviceBelow(t *testing.T) {
	gid := func(i int, a, netdev string) facts.GID {
		return facts.GID{Index: i, Addr: netip.AddrFrom16(netip.MustParseAddr(a).As16()), Version: 2, Netdev: netdev}
	}
	f, h := softPair()
	h.NICs[0].Netdev, h.RXE = "bond0.7", nil
	snap := &facts.Snapshot{Links: []host.Link{{Index: 2, Name: "bond0", Kind: "bond"}, {Index: 3, Name: "bond0.7", Kind: "vlan", Parent: 2}},
		RDMA: []facts.RDMADevice{{Name: "mlx5_bond_0", Port: 1, State: "ACTIVE", LinkLayer: "Ethernet", Netdev: "bond0", GIDs: []facts.GID{gid(1, "fe80::1", "bond0")}}}}
	for name, c := range map[string]struct {
		below string // an address of the bond itself
		want  string
		wrong bool
	}{
		"the VLAN alone has an address":             {"", "=mlx5_bond_0", false},
		"the bond has one in another network":       {"192.168.0.5", "=mlx5_bond_0 10.0.0.1/32", false},
		"no range can tell the two addresses apart": {"10.0.0.1", "=mlx5_bond_0", true},
	} {
		snap.RDMA[0].GIDs = snap.RDMA[0].GIDs[:1]
		if c.below != "" {
			snap.RDMA[0].GIDs = append(snap.RDMA[0].GIDs, gid(2, c.below, "bond0"))
		}
		s := derived(t, f, h, snap)
		hca, _ := s.Env.Get("NCCL_IB_HCA")
		r, _ := s.Env.Get("NCCL_IB_ADDR_RANGE")
		if got := strings.TrimSpace(hca + " " + r); got != c.want || (len(s.Wrong) > 0) != c.wrong || len(s.Notes) > 0 {
			t.Errorf("%s: %q, %q %q", name, got, s.Wrong, s.Notes)
		}
	}
}
