package qos

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/dcb"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/resource/kindtest"
)

func of[T any](v T) *T { return &v }

var eth1 = facts.Selector{Netdev: "eth1"}

// lossless is the class of the language's example.
func lossless() Spec {
	return Spec{On: eth1, Class: "lossless", DSCP: of(40), Priority: of(5), PFC: of(true), ECN: of(true), Trust: "dscp", CNPDSCP: of(48),
		ETS: map[int]int{5: 60, 0: 40}, Buffer: map[int]int{5: 131072}, Pause: of(false), RDMACM: of(true), TOS: 162}
}

// whole fills the map of all 64 DSCPs, as mlx5 shows it under DSCP trust.
func whole(n *nic) *nic {
	for dscp := range dcb.Codepoints {
		n.apps = append(n.apps, dcb.OfDSCP(dscp, dscp>>3))
	}
	return n
}

func TestConformance(t *testing.T) {
	table := func() *nic {
		n := mlx5()
		n.table, n.trust = true, []uint8{dcb.SelectorPCP}
		return n
	}
	for name, c := range map[string]struct {
		nic  *nic
		spec Spec
	}{
		"mlx5":                   {mlx5(), lossless()},
		"mlx5 of MLNX_OFED":      {mlx5().switches(), lossless()},
		"mlx5 with a whole map":  {whole(mlx5()), Spec{On: eth1, DSCP: of(40), Priority: of(3), Trust: "dscp"}},
		"from DSCP to PCP":       {whole(mlx5()), Spec{On: eth1, Trust: "pcp"}},
		"a driver with apptrust": {table(), lossless()},
		"apptrust back to PCP":   {func() *nic { n := table(); n.trust = []uint8{dcb.SelectorDSCP, dcb.SelectorPCP}; return n }(), Spec{On: eth1, Trust: "pcp"}},
		"shares that mean nothing": {func() *nic {
			n := mlx5()
			n.ets[dcb.ETSShares], n.ets[dcb.ETSTSA+1], n.ets[dcb.ETSShares+1] = 7, dcb.TSAStrict, 9
			return n
		}(), lossless()},
		"ice":                        {mlx5().ice(), iceClass},
		"ice sorts by DSCP":          {mapped(mlx5().ice(), 26, 3), iceClass},
		"ice gets another map":       {mapped(mlx5().ice(), 40, 3), Spec{On: eth1, DSCP: of(40), Priority: of(5)}},
		"ice with shares":            {shared(mlx5().ice()), Spec{On: eth1, DSCP: of(40), Priority: of(5), PFC: of(true), Pause: of(false)}},
		"bnxt":                       {mlx5().bnxt(), iceClass},
		"bnxt gets another map":      {mapped(mlx5().bnxt(), 40, 3), iceClass},
		"ice in CEE mode":            {inMode(mlx5().ice(), dcb.DCBXHost|dcb.DCBXCEE), iceClass},
		"mlx5 in CEE mode":           {inMode(mlx5(), dcb.DCBXHost|dcb.DCBXCEE|dcb.DCBXStatic|0x40), lossless()},
		"bnxt with shares of others": {shared(mlx5().bnxt()), Spec{On: eth1, PFC: of(true), Priority: of(5), Pause: of(false)}},
		"one class for all":          {func() *nic { n := mlx5(); clear(n.ets[dcb.ETSClasses : dcb.ETSClasses+dcb.Priorities]); return n }(), Spec{On: eth1, PFC: of(true), Priority: of(5), Pause: of(false)}},
		"pause frames":               {mlx5(), Spec{On: eth1, Pause: of(false)}},
		"a default that was there":   {func() *nic { n := mlx5(); must(0, n.MakeConfig(rdmaCM("mlx5_0"))); return n }(), Spec{On: eth1, RDMACM: of(true), TOS: 160}},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.nic.image()
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: c.nic, Spec: c.spec, There: true,
				Equal: func() bool { return reflect.DeepEqual(before, c.nic.image()) }})
		})
	}
}

// iceClass is what ice and bnxt can set.
var iceClass = Spec{On: eth1, DSCP: of(40), Priority: of(5), PFC: of(true), Trust: "dscp", ETS: map[int]int{5: 60, 0: 40}, Pause: of(false)}

// inMode has a mode of DCBX.
func inMode(n *nic, mode uint8) *nic {
	n.dcbx = mode
	return n
}

// TestTheVersionOfDCBX that the class needs comes first, and goes last; a refusal is told, whatever the driver's answer means.
func TestTheVersionOfDCBX(t *testing.T) {
	_, changes, err := plan(t, inMode(mlx5().ice(), dcb.DCBXHost|dcb.DCBXCEE), iceClass)
	if err != nil || len(changes) < 5 || changes[0] != "live: version_of_dcbx: host cee > host ieee" {
		t.Errorf("%q, %v", changes, err)
	}
	if _, changes, err := plan(t, inMode(mlx5(), dcb.DCBXHost|dcb.DCBXCEE), Spec{On: eth1, Pause: of(false)}); err != nil || len(changes) != 1 {
		t.Errorf("without dcbnl: %q, %v", changes, err)
	}
	if rank(attrDCBX, "host cee") <= rank(attrRDMACM, "") || rank(attrDCBX, "host ieee") >= rank(keyed(attrDSCP, 40), "5") {
		t.Error("it is set in the wrong order")
	}
	n := mlx5().bnxt()
	p := port{h: n, link: host.Link{Name: "eth1", Driver: bnxt}}
	if err := p.set(t.Context(), attrDCBX, "host cee"); err == nil || !strings.Contains(err.Error(), `the driver has refused it: the mode is "host ieee"`) {
		t.Error(err)
	}
	for _, text := range []string{"host ieee", "host lld-managed cee ieee static", "host ieee 64", ""} {
		if mode, err := parseDCBX(text); err != nil || dcbxText(mode) != text {
			t.Errorf("%q is %d, %v", text, mode, err)
		}
	}
	if _, err := parseDCBX("host x"); err == nil {
		t.Error("a mode that does not exist is read")
	}
}

// mapped gives a DSCP a priority.
func mapped(n *nic, dscp, priority int) *nic {
	if errno := n.setApp(dcb.CmdIEEESet, dcb.OfDSCP(dscp, priority)); errno != 0 {
		panic(errno)
	}
	return n
}

// shared has two traffic classes that share the link, and PFC.
func shared(n *nic) *nic {
	n.ets[dcb.ETSShares], n.ets[dcb.ETSShares+1], n.ets[dcb.ETSTSA+1], n.ets[dcb.ETSClasses+3] = 70, 30, dcb.TSAETS, 1
	n.unshared = false
	n.pause, n.pfc[dcb.PFCMask] = [2]bool{}, 1<<3
	return n
}

// TestBnxtKnowsTheNewPriority: its firmware forgets a DSCP with the entry that is removed.
func TestBnxtKnowsTheNewPriority(t *testing.T) {
	n := mapped(mlx5().bnxt(), 40, 3)
	p := port{h: n, link: host.Link{Name: "eth1", Driver: bnxt}}
	if err := p.set(t.Context(), "dscp 40", "5"); err != nil || n.sorts[40] != 5 || !slices.Equal(n.apps, []dcb.App{dcb.OfDSCP(40, 5)}) {
		t.Error(err, n.sorts, n.apps)
	}
}

// TestTheTrustOfMlx5StaysWhileItsMapChanges: it trusts PCP without an entry, and every packet then has the wrong priority.
func TestTheTrustOfMlx5StaysWhileItsMapChanges(t *testing.T) {
	n := mapped(mlx5(), 40, 3)
	p := port{h: n, link: host.Link{Name: "eth1", Driver: "mlx5_core"}}
	for _, to := range [][2]string{{"dscp 40", "5"}, {attrTrust, "dscp 26:3"}} {
		if err := p.set(t.Context(), to[0], to[1]); err != nil || n.pcp > 0 {
			t.Errorf("%s: %v, trusted PCP %d times", to, err, n.pcp)
		}
	}
	part, err := provider{}.Restorer().Save(t.Context(), n, []resource.Atom{"qos eth1 trust"})
	if err != nil {
		t.Fatal(err)
	}
	n.apps = []dcb.App{dcb.OfDSCP(10, 5)}
	if left, err := (provider{}).Restorer().Restore(t.Context(), n, part); err != nil || left != nil || n.pcp > 0 {
		t.Errorf("%v, %v, trusted PCP %d times", left, err, n.pcp)
	}
}

// TestALoadedMlx5TrustsWhatItTrusted: the driver then shows all 64 DSCPs with the priorities that the firmware has kept. The trust that we
// have set is still ours, and the way back ends it; a map that has entries of others is theirs.
func TestALoadedMlx5TrustsWhatItTrusted(t *testing.T) {
	class := Spec{On: eth1, DSCP: of(40), Priority: of(3), Trust: "dscp"}
	owned := map[resource.Atom]resource.Owned{"qos eth1 dscp 40": {Ours: "3"}, "qos eth1 trust": {Earlier: "pcp", Ours: "dscp"}}
	n := whole(mlx5())
	n.apps[40].Priority = 3
	if _, changes, err := plan(t, n, class); err != nil || changes != nil {
		t.Errorf("%q, %v", changes, err)
	}
	for _, a := range slices.Sorted(maps.Keys(owned)) {
		snap, err := Kinds().Gather(t.Context(), n, resource.Query{Atoms: []resource.Atom{a}})
		if err != nil {
			t.Fatal(err)
		}
		live, _ := provider{}.Undo(snap, a, owned[a].Earlier)
		if !owned[a].StillOurs(live.From) && !(provider{}).Between(a, owned[a], live.From) {
			t.Errorf("%s is %q, and no longer ours", a, live.From)
		}
		if err := (provider{}).ApplyUndo(t.Context(), n, snap, a, owned[a].Earlier); err != nil {
			t.Error(err)
		}
	}
	if len(n.apps) > 0 || n.pcp != 1 {
		t.Error(n.apps)
	}
	if (provider{}).Between("qos eth1 trust", owned["qos eth1 trust"], "dscp 26:3 40:3") {
		t.Error("the map of others is ours")
	}
}

// TestWhatACrashLeavesIsOurs: each part of a value is the earlier one or ours.
func TestWhatACrashLeavesIsOurs(t *testing.T) {
	flow := resource.Owned{Earlier: "pfc none, pause on", Ours: "pfc 5, pause off"}
	table := resource.Owned{Earlier: "dscp 0-7:0 8-15:1", Ours: "pcp"}
	buffer := resource.Owned{Earlier: "262016 0 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0", Ours: "130944 131072 0 0 0 0 0 0 / 0 0 0 0 0 1 0 0"}
	for _, c := range []struct {
		atom  resource.Atom
		owned resource.Owned
		live  string
		want  bool
	}{
		{"qos eth1 flow_control", flow, "pfc none, pause off", true},
		{"qos eth1 flow_control", flow, "pfc 3, pause off", false},
		{"qos eth1 flow_control", flow, "pfc none", false},
		{"qos eth1 trust", table, "dscp 5-7:0 8-15:1", true},
		{"qos eth1 trust", table, "dscp 5-7:0 8-15:2", false},
		{"qos eth1 trust", table, "dscp,pcp", false},
		{"qos eth1 buffer", buffer, "130944 131072 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0", true},
		{"qos eth1 ecn 5", resource.Owned{Earlier: "rp off, np off", Ours: "rp on, np on"}, "rp on, np off", true},
		{"qos eth1 rdma_cm", resource.Owned{Ours: "tos 162, RoCE v2"}, "tos 0, RoCE v2", true},
		{"qos eth1 rdma_cm", resource.Owned{Ours: "tos 162, RoCE v2"}, "tos 106, RoCE v2", false},
		{"qos eth1 rdma_cm", resource.Owned{Earlier: "tos 106, RoCE v2", Ours: "tos 162, RoCE v2"}, "", true},
		{"qos eth1 dscp 40", resource.Owned{Earlier: "3", Ours: "5"}, "4", false},
		{"qos eth1 dscp 40", resource.Owned{Earlier: "3", Ours: "5"}, "", true},
		{"qos eth1 dscp 40", resource.Owned{Earlier: "3", Ours: "5"}, "3,5", true},
		{"qos eth1 dscp 40", resource.Owned{Earlier: "3", Ours: "5"}, "3,4", false},
		{"qos eth1 dscp 40", resource.Owned{Ours: "5"}, "", false},
		{"qos eth1 dscp 40", resource.Owned{Ours: "5"}, "3,5", false},
		{"qos eth1 version_of_dcbx", resource.Owned{Earlier: "host cee", Ours: "host ieee"}, "host cee ieee", true},
		{"qos eth1 version_of_dcbx", resource.Owned{Earlier: "host cee", Ours: "host ieee"}, "host", false},
	} {
		if got := (provider{}).Between(c.atom, c.owned, c.live); got != c.want {
			t.Errorf("%s is %q after %+v: %v", c.atom, c.live, c.owned, got)
		}
	}
}

// TestADefaultOfRDMACMWithoutAFolder is found before it is lost, and is set again where it is known.
func TestADefaultOfRDMACMWithoutAFolder(t *testing.T) {
	n, folder := mlx5(), rdmaCM("mlx5_0")
	tos := folder + "/ports/1/default_roce_tos"
	p := port{h: n, link: host.Link{Name: "eth1"}, device: "mlx5_0", number: 1}
	if err := p.set(t.Context(), attrRDMACM, "tos 106, RoCE v2"); err != nil {
		t.Fatal(err)
	}
	must(0, n.RemoveConfig(folder))
	class := Spec{On: eth1, RDMACM: of(true), TOS: 162}
	change := change("", "eth1", attrRDMACM, "", "tos 162, RoCE v2")
	err := provider{}.Apply(t.Context(), n, class, []resource.Change{change})
	if err == nil || !strings.Contains(err.Error(), "already has the default \"tos 106, RoCE v2\"") || n.cma[tos] != "106" || n.files[tos] != "" {
		t.Error(err, n.cma, n.files[tos])
	}
	must(0, n.MakeConfig(folder)) // as the error says
	if _, changes, err := plan(t, n, class); err != nil || !slices.Equal(changes, []string{"live: rdma_cm: tos 106, RoCE v2 > tos 162, RoCE v2"}) {
		t.Errorf("%q, %v", changes, err)
	}
	must(0, n.RemoveConfig(folder))
	if err := p.set(t.Context(), attrRDMACM, "tos 106, RoCE v2"); err != nil || n.files[tos] != "106" {
		t.Error(err, n.files[tos])
	}
	n.files[tos] = "162"
	must(0, n.RemoveConfig(folder))
	if err := (provider{}).Apply(t.Context(), n, class, []resource.Change{change}); err != nil {
		t.Errorf("our own default is refused: %v", err)
	}
}

// plan returns the changes and remarks of a class.
func plan(t *testing.T, n *nic, want Spec) (*Status, []string, error) {
	t.Helper()
	return planOn(t, n, want)
}

func planOn(t *testing.T, n host.Host, want Spec) (*Status, []string, error) {
	t.Helper()
	snap, err := resource.Gather[Spec](t.Context(), n, provider{}, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := provider{}.Observe(snap, want)
	var out []string
	for _, c := range (provider{}).Diff(want, got) {
		out = append(out, c.Disruption.String()+": "+c.Attribute+": "+c.From+" > "+c.To)
	}
	return got, out, err
}

func TestAClassIsPlannedInTheOrderOfItsChanges(t *testing.T) {
	got, changes, err := plan(t, mlx5(), lossless())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"live: dscp 40:  > 5",
		"live: trust: pcp > dscp",
		"live: ets: vendor vendor vendor vendor vendor vendor vendor vendor / 0 1 2 3 4 5 6 7 > 40% vendor vendor vendor vendor 60% vendor vendor / 0 1 2 3 4 5 6 7",
		"link flap: flow_control: pfc none, pause on > pfc 5, pause off",
		"live: buffer: 262016 0 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0 > 262016 131072 0 0 0 0 0 0 / 0 0 0 0 0 1 0 0",
		"live: rdma_cm:  > tos 162, RoCE v2",
	}
	if !slices.Equal(changes, want) {
		t.Errorf("%s", strings.Join(changes, "\n"))
	}
	if len(got.Remark) != 2 || !strings.Contains(got.Remark[0], "ecn: this driver has no switch") || !strings.Contains(got.Remark[1], "may not be 48") {
		t.Errorf("%q", got.Remark)
	}
}

// TestAForcedTrafficClassIsNamed, unless it is that of the class.
func TestAForcedTrafficClassIsNamed(t *testing.T) {
	for text, want := range map[string]bool{"Global tclass=106\n": true, "Global tclass=162\n": false, "": false, "Global tclass=\x1b[31m": false} {
		n := mlx5().switches()
		n.files[forcedFile("mlx5_0", 1)] = text
		got, _, err := plan(t, n, lossless())
		if err != nil {
			t.Fatal(err)
		}
		if named := strings.Contains(strings.Join(got.Remark, "\n"), "traffic class 106 (DSCP 26) to all RC connections"); named != want {
			t.Errorf("%q: %q", text, got.Remark)
		}
	}
}

// TestWhatIsNotWrittenIsLeftAlone: a NIC that is as the class wants it needs no change, whatever else is set on it.
func TestWhatIsNotWrittenIsLeftAlone(t *testing.T) {
	n := whole(mlx5())
	for _, spec := range []Spec{{On: eth1}, {On: eth1, DSCP: of(40), Priority: of(5), Trust: "dscp"}, {On: eth1, Pause: of(true)},
		{On: eth1, PFC: of(false), Priority: of(5)}, {On: eth1, RDMACM: of(false)}} {
		if _, changes, err := plan(t, n, spec); err != nil || changes != nil {
			t.Errorf("%+v: %q, %v", spec, changes, err)
		}
	}
	n.pause, n.pfc[dcb.PFCMask] = [2]bool{}, 1<<3|1<<5
	if _, changes, err := plan(t, n, Spec{On: eth1, PFC: of(false), Priority: of(5)}); err != nil || !slices.Equal(changes, []string{"link flap: flow_control: pfc 3,5, pause off > pfc 3, pause off"}) {
		t.Errorf("PFC of another priority: %q, %v", changes, err)
	}
	n.table, n.trust = true, []uint8{dcb.SelectorDSCP, dcb.SelectorPCP}
	if _, changes, err := plan(t, n, Spec{On: eth1, DSCP: of(40), Priority: of(5), Trust: "dscp"}); err != nil || changes != nil {
		t.Errorf("DSCP before PCP is trust of the DSCP: %q, %v", changes, err)
	}
}

// TestBuffersGetTheirRoomFromThoseOfOtherPriorities: many NICs give all their bytes to the buffer of all priorities.
func TestBuffersGetTheirRoomFromThoseOfOtherPriorities(t *testing.T) {
	n := mlx5()
	binary.NativeEndian.PutUint32(n.buffer[dcb.BufferTotal:], 262016)
	_, changes, err := plan(t, n, Spec{On: eth1, Buffer: map[int]int{5: 131072}})
	want := []string{"live: buffer: 262016 0 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0 > 130944 131072 0 0 0 0 0 0 / 0 0 0 0 0 1 0 0"}
	if err != nil || !slices.Equal(changes, want) {
		t.Errorf("%q, %v", changes, err)
	}
}

func TestANICThatCannotHaveTheClassSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		change func(n *nic)
		spec   Spec
		want   string
	}{
		"no DCB":              {func(n *nic) { n.dcb, n.driver = false, "virtio_net" }, lossless(), "eth1 (driver virtio_net): the driver has no DCB"},
		"firmware":            {func(n *nic) { n.dcbx |= dcb.DCBXManaged; n.driver = "ice" }, lossless(), "`ethtool --set-priv-flags eth1 fw-lldp-agent off`"},
		"of mlx5":             {func(n *nic) { n.dcbx = 0x0c }, lossless(), "`dcb dcbx set dev eth1 host ieee`"},
		"pause":               {func(*nic) {}, Spec{On: eth1, PFC: of(true), Priority: of(5)}, "set pause = false"},
		"PFC":                 {func(n *nic) { n.pause, n.pfc[dcb.PFCMask] = [2]bool{}, 8 }, Spec{On: eth1, Pause: of(true)}, "PFC is on for priority 3"},
		"few classes":         {func(n *nic) { n.ets[dcb.ETSCap] = 1 }, Spec{On: eth1, ETS: map[int]int{0: 50, 1: 50}}, "the NIC has 1 traffic classes, and ets names 2"},
		"big buffers":         {func(*nic) {}, Spec{On: eth1, Buffer: map[int]int{5: 1 << 20}}, "the NIC has 524288 bytes of receive buffers"},
		"no buffers":          {func(n *nic) { n.buffer = nil }, Spec{On: eth1, Buffer: map[int]int{5: 1 << 10}}, "remove buffer"},
		"no RDMA":             {func(n *nic) { clear(n.files) }, Spec{On: eth1, RDMACM: of(true)}, "there is no RDMA device on the NIC"},
		"all of mlx5":         {func(n *nic) { n.ets[dcb.ETSTSA+2], n.ets[dcb.ETSShares+2] = dcb.TSAETS, 100 }, Spec{On: eth1, ETS: map[int]int{5: 100}}, "ets = { 5 = 99, 0 = 1 }"},
		"ice with 4":          {func(n *nic) { n.ice().ets[dcb.ETSCap] = 4 }, iceClass, "the NIC has 4 traffic classes"},
		"bnxt without shares": {func(n *nic) { n.bnxt() }, Spec{On: eth1, PFC: of(true), Priority: of(5), Pause: of(false)}, "set ets in the qos block, such as ets = { 5 = 60, 0 = 40 }"},
		"bnxt, priority 0":    {func(n *nic) { n.bnxt() }, Spec{On: eth1, PFC: of(true), Priority: of(0), Pause: of(false)}, "such as ets = { 0 = 60, 1 = 40 }"},
		"no DSCP":             {func(*nic) {}, Spec{On: eth1, Trust: "dscp"}, "set dscp and priority"},
		"a VLAN":              {func(n *nic) { n.kind = "vlan" }, lossless(), "eth1 is a vlan"},
		"a DSCP of 64":        {func(*nic) {}, Spec{On: eth1, DSCP: of(64), Priority: of(5)}, "does not exist"},
		"a DSCP of -1":        {func(*nic) {}, Spec{On: eth1, DSCP: of(-1), Priority: of(5)}, "does not exist"},
		"a crafted one":       {func(*nic) {}, Spec{On: eth1, ETS: map[int]int{9: 100}}, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			n := mlx5()
			c.change(n)
			if _, _, err := plan(t, n, c.spec); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Error(err)
			}
		})
	}
	n := mlx5()
	for _, mode := range []uint8{n.dcbx | dcb.DCBXManaged, dcb.DCBXManaged | dcb.DCBXCEE, dcb.DCBXCEE} {
		if _, changes, err := plan(t, inMode(n, mode), Spec{On: eth1, Trust: "pcp", ECN: of(true)}); err != nil || changes != nil {
			t.Errorf("firmware that has decided for the class is let: %q, %v", changes, err)
		}
	}
}

// TestTheDriversRefusalIsTheError: dcbnl answers with it, instead of failing.
func TestTheDriversRefusalIsTheError(t *testing.T) {
	n := mlx5()
	p := port{h: n}
	p.link.Name = "eth1"
	if err := p.set(t.Context(), attrFlow, "pfc 5, pause on"); err == nil || !strings.Contains(err.Error(), "PFC: invalid argument") {
		t.Error(err)
	}
	if err := p.set(t.Context(), attrETS, "40% vendor vendor vendor vendor vendor vendor vendor / 0 1 2 3 4 5 6 7"); err == nil ||
		!strings.Contains(err.Error(), "invalid argument") {
		t.Error(err)
	}
}

// TestAChangeOfPFCWaitsForThePort that it takes down.
func TestAChangeOfPFCWaitsForThePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a bubble whose clock jumps
		n := mlx5()
		n.pause, n.files[carrier] = [2]bool{}, "1"
		p := port{h: n, link: host.Link{Name: "eth1", Driver: "mlx5_core"}}
		if err := p.set(t.Context(), attrFlow, "pfc 5, pause off"); err != nil || n.down > 0 {
			t.Errorf("%v, and the port is still down for %d readings", err, n.down)
		}
		n.files[carrier] = "0"
		if err := p.set(t.Context(), attrFlow, "pfc 3, pause off"); err != nil {
			t.Errorf("a port without a cable: %v", err)
		}
	})
}

// TestOtherKindsAreNotSaved: a record may name anything.
func TestOtherKindsAreNotSaved(t *testing.T) {
	for _, a := range []resource.Atom{"nic eth1 trust", "qos eth1 mtu", "qos eth1 dscp 64", "qos eth1 ecn 8"} {
		if _, err := (provider{}).Restorer().Save(t.Context(), mlx5(), []resource.Atom{a}); err == nil {
			t.Errorf("%s is saved", a)
		}
	}
}

// TestARestoreContinuesAfterAnError, and returns it.
func TestARestoreContinuesAfterAnError(t *testing.T) {
	n := mlx5()
	part, err := provider{}.Restorer().Save(t.Context(), n, []resource.Atom{"qos eth1 flow_control"})
	if err != nil {
		t.Fatal(err)
	}
	n.pause, n.broken = [2]bool{}, errors.New("the port is broken")
	binary.NativeEndian.PutUint32(n.buffer[dcb.BufferSizes:], 128)
	left, err := provider{}.Restorer().Restore(t.Context(), n, part)
	if !errors.Is(err, n.broken) || len(left) != 1 || !strings.Contains(left[0], "flow_control of eth1") || binary.NativeEndian.Uint32(n.buffer[dcb.BufferSizes:]) != 262016 {
		t.Error(left, err)
	}
}

// TestTrustOfPCPClaimsTheMap of a driver without a table of trust: other entries than ours are removed, too.
func TestTrustOfPCPClaimsTheMap(t *testing.T) {
	for table, want := range map[bool]bool{false: true, true: false} {
		n, class := whole(mlx5()), Spec{On: eth1, Trust: "pcp"}
		n.table = table
		snap, err := resource.Gather[Spec](t.Context(), n, provider{}, class)
		if err != nil {
			t.Fatal(err)
		}
		if got := (provider{}).Claims(snap, class, "qos eth1 dscp 7"); got != want {
			t.Errorf("with a table of trust: %v, claimed: %v", table, got)
		}
	}
}

// TestNamesInCommandsAreQuoted: a host names its interfaces, and an operator pastes the command into a shell.
func TestNamesInCommandsAreQuoted(t *testing.T) {
	for _, driver := range []string{ice, "i40e", "mlx5_core"} {
		if got := endsLLDP(driver, "a;reboot"); !strings.Contains(got, "'a;reboot'") {
			t.Error(got)
		}
	}
}

// TestUnknownPartsOfAStructStay: what no class sets is sent back as it was read.
func TestUnknownPartsOfAStructStay(t *testing.T) {
	n := mlx5()
	p := port{h: n}
	p.link.Name = "eth1"
	if err := p.set(t.Context(), attrETS, "100% vendor vendor vendor vendor vendor vendor vendor / 0 1 2 3 4 5 6 7"); err != nil || n.ets[0] != 1 || n.ets[35] != 17 {
		t.Error(err, n.ets)
	}
}

// TestAFlapOfTheOperatorsPortIsRefused, and nothing else of a class.
func TestAFlapOfTheOperatorsPortIsRefused(t *testing.T) {
	snap := &facts.Snapshot{Management: facts.Management{Client: netip.MustParseAddr("10.0.0.9"), Devices: []string{"eth1"}}}
	if why := (provider{}).Touches(snap, Spec{}, []resource.Change{change("", "eth1", attrFlow, "pfc none", "pfc 5")}); !strings.Contains(why, "eth1 carries your SSH connection") {
		t.Error(why)
	}
	if why := (provider{}).Touches(snap, Spec{}, []resource.Change{change("", "eth1", "dscp 40", "", "5")}); why != "" {
		t.Error(why)
	}
	snap.Management = facts.Management{Unknown: "no SSH_CONNECTION"}
	if why := (provider{}).Touches(snap, Spec{}, []resource.Change{change("", "eth1", attrFlow, "pfc none", "pfc 5")}); why == "" {
		t.Error("an unknown path is safe")
	}
}

// TestIceIsTakenDown: it closes the interface for each change by dcbnl, and refuses pause frames while PFC is on.
func TestIceIsTakenDown(t *testing.T) {
	n := mlx5().ice()
	_, changes, err := plan(t, n, Spec{On: eth1, DSCP: of(40), Priority: of(5)})
	if want := []string{"link flap: dscp 40:  > 5", "link flap: ets: 100% strict strict strict strict strict strict strict / 0 0 0 0 0 0 0 0 > " +
		"100% 0% 0% 0% 0% 0% 0% 0% / 0 1 2 3 4 5 6 7"}; err != nil || !slices.Equal(changes, want) {
		t.Errorf("%q, %v", changes, err)
	}
	snap := &facts.Snapshot{Links: []host.Link{{Name: "eth1", Driver: "ice"}},
		Management: facts.Management{Client: netip.MustParseAddr("10.0.0.9"), Devices: []string{"eth1"}}}
	if why := (provider{}).Touches(snap, Spec{}, []resource.Change{change("ice", "eth1", "dscp 40", "", "5")}); !strings.Contains(why, "eth1 carries your SSH connection") {
		t.Error(why)
	}
	p := port{h: n, link: host.Link{Name: "eth1", Index: 2}}
	n.pause = [2]bool{}
	for _, to := range []string{"pfc 5, pause off", "pfc 3, pause off", "pfc none, pause off", "pfc none, pause on", "pfc 5, pause off"} {
		if err := p.set(t.Context(), attrFlow, to); err != nil {
			t.Error(err)
		}
	}
}

// TestNoPriorityGetsAnEmptyBuffer on the way: one whose buffer is to be empty moves in the same message.
func TestNoPriorityGetsAnEmptyBuffer(t *testing.T) {
	n := mlx5()
	binary.NativeEndian.PutUint32(n.buffer[dcb.BufferSizes+4:], 131072)
	n.buffer[5] = 1
	p := port{h: n, link: host.Link{Name: "eth1"}}
	if err := p.set(t.Context(), attrBuffer, "262016 0 131072 0 0 0 0 0 / 0 0 0 0 0 2 0 0"); err != nil || n.sets != 1 || n.buffer[5] != 2 {
		t.Errorf("%d changes, %v", n.sets, err)
	}
}

// TestALosslessPriorityMovesToAnEmptyBuffer, and back.
func TestALosslessPriorityMovesToAnEmptyBuffer(t *testing.T) {
	n := mlx5()
	n.pause, n.pfc[dcb.PFCMask] = [2]bool{}, 1<<5
	p := port{h: n, link: host.Link{Name: "eth1"}}
	for _, to := range []string{"130944 131072 0 0 0 0 0 0 / 0 0 0 0 0 1 0 0", "262016 0 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0"} {
		if err := p.set(t.Context(), attrBuffer, to); err != nil || bufferText(n.buffer) != to {
			t.Errorf("%s: %v", bufferText(n.buffer), err)
		}
	}
}

// TestASettingThatAppearedIsLeft: an earlier driver did not have it, so that nobody knows its value then.
func TestASettingThatAppearedIsLeft(t *testing.T) {
	n := mlx5().switches()
	p := port{h: n, link: host.Link{Name: "eth1"}}
	for _, a := range []string{keyed(attrECN, 5), attrCNP} {
		if err := p.set(t.Context(), a, ""); err == nil || n.sets > 0 {
			t.Errorf("%s: %v, %d changes", a, err, n.sets)
		}
	}
}

// TestPauseHasTheKernelsNumbers of ETHTOOL_A_PAUSE_RX and _TX, whose bytes are written out.
func TestPauseHasTheKernelsNumbers(t *testing.T) {
	if got := encodePause(true, false); !bytes.Equal(got, []byte("\x05\x00\x03\x00\x01\x00\x00\x00\x05\x00\x04\x00\x00\x00\x00\x00")) {
		t.Errorf("%q", got)
	}
}

func TestPrioritiesGetClassesOfTheirOwn(t *testing.T) {
	for name, c := range map[string]struct {
		class []int
		named []int
		limit int
		alone bool
		want  []int
	}{
		"as they are":  {[]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 5}, 8, true, []int{0, 1, 2, 3, 4, 5, 6, 7}},
		"all in one":   {[]int{0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 5}, 8, false, []int{0, 0, 0, 0, 0, 1, 0, 0}},
		"few classes":  {[]int{0, 1, 2, 3, 4, 5, 6, 7}, []int{0, 5}, 3, false, []int{0, 1, 2, 3, 4, 1, 6, 7}},
		"alone":        {[]int{0, 0, 0, 0, 0, 0, 0, 0}, []int{0, 5}, 8, true, []int{1, 0, 0, 0, 0, 2, 0, 0}},
		"others there": {[]int{1, 1, 0, 0, 0, 0, 0, 0}, []int{0, 1}, 2, false, []int{1, 0, 0, 0, 0, 0, 0, 0}},
	} {
		if own(c.class, c.named, c.limit, c.alone); !slices.Equal(c.class, c.want) {
			t.Errorf("%s: %v, want %v", name, c.class, c.want)
		}
	}
}

// FuzzAnswers: whatever a kernel answers, it is read without a panic, and what is read can be written as text and sent back.
func FuzzAnswers(f *testing.F) {
	n := whole(mlx5())
	n.table, n.trust = true, []uint8{dcb.SelectorDSCP, dcb.SelectorPCP}
	f.Add(must(n.DCB(f.Context(), dcb.Message(dcb.CmdIEEEGet, "eth1"))))
	f.Add(must(n.Pause(f.Context(), 2)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _, _, _ = parsePause(raw)
		d, err := dcb.ParseIEEE(raw)
		if err != nil {
			return
		}
		values := values(d)
		s := state{Values: values, DCB: true, Table: d.HasTrust}
		_, _, _ = s.wanted(lossless())
		if d.ETS != nil {
			if again, err := encodeETS(d.ETS, values[attrETS]); slices.Max(d.ETS[dcb.ETSClasses:dcb.ETSClasses+dcb.Priorities]) < dcb.Priorities && (err != nil || !bytes.Equal(again, d.ETS)) {
				t.Errorf("%q: %v", values[attrETS], err)
			}
		}
		if d.Buffer != nil {
			if again, err := encodeBuffer(d.Buffer, values[attrBuffer]); slices.Max(d.Buffer[:dcb.Priorities]) < dcb.Priorities && (err != nil || !bytes.Equal(again, d.Buffer)) {
				t.Errorf("%q: %v", values[attrBuffer], err)
			}
		}
	})
}

// FuzzText: a record or a backup may hold any text.
func FuzzText(f *testing.F) {
	for _, s := range []string{"pcp", "dscp 0-7:0 8:1,3", "dscp,pcp", "pfc 5, pause off", "5 0 0 0 0 0 0 0 / 0 0 0 0 0 0 0 0", "tos 162, RoCE v2", none, ""} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) {
		_, _ = parseTable(s)
		_, _ = parseSelectors(s)
		_, _ = parseMask(s)
		_, _ = encodeETS(make([]byte, dcb.SizeETS), s)
		_, _ = encodeBuffer(make([]byte, dcb.SizeBuffer), s)
		_, _, _ = parseRDMACM(s)
		_ = parseFlow(s)
		_, _ = cut(s)
	})
}
