package qos

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
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
	for dscp := range codepoints {
		n.apps = append(n.apps, app{selectorDSCP, uint8(dscp >> 3), uint16(dscp)})
	}
	return n
}

func TestConformance(t *testing.T) {
	table := func() *nic {
		n := mlx5()
		n.table, n.trust = true, []uint8{selectorPCP}
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
		"apptrust back to PCP":   {func() *nic { n := table(); n.trust = []uint8{selectorDSCP, selectorPCP}; return n }(), Spec{On: eth1, Trust: "pcp"}},
		"shares that mean nothing": {func() *nic {
			n := mlx5()
			n.ets[etsShares], n.ets[etsTSA+1], n.ets[etsShares+1] = 7, tsaStrict, 9
			return n
		}(), lossless()},
		"pause frames":             {mlx5(), Spec{On: eth1, Pause: of(false)}},
		"a default that was there": {func() *nic { n := mlx5(); must(0, n.MakeConfig(rdmaCM("mlx5_0"))); return n }(), Spec{On: eth1, RDMACM: of(true), TOS: 160}},
	} {
		t.Run(name, func(t *testing.T) {
			before := c.nic.image()
			kindtest.Conform(t, kindtest.Case{Kinds: Kinds(), Kind: Kind, Host: c.nic, Spec: c.spec, There: true,
				Equal: func() bool { return reflect.DeepEqual(before, c.nic.image()) }})
		})
	}
}

// plan returns the changes and remarks of a class.
func plan(t *testing.T, n *nic, want Spec) (*Status, []string, error) {
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
	n.table, n.trust = true, []uint8{selectorDSCP, selectorPCP}
	if _, changes, err := plan(t, n, Spec{On: eth1, DSCP: of(40), Priority: of(5), Trust: "dscp"}); err != nil || changes != nil {
		t.Errorf("DSCP before PCP is trust of the DSCP: %q, %v", changes, err)
	}
}

// TestBuffersGetTheirRoomFromThoseOfOtherPriorities: many NICs give all their bytes to the buffer of all priorities.
func TestBuffersGetTheirRoomFromThoseOfOtherPriorities(t *testing.T) {
	n := mlx5()
	binary.NativeEndian.PutUint32(n.buffer[bufferTotal:], 262016)
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
		"no DCB":        {func(n *nic) { n.dcb, n.driver = false, "virtio_net" }, lossless(), "eth1 (driver virtio_net): the driver has no DCB"},
		"firmware":      {func(n *nic) { n.dcbx |= dcbxManaged; n.driver = "ice" }, lossless(), "`ethtool --set-priv-flags eth1 fw-lldp-agent off`"},
		"of mlx5":       {func(n *nic) { n.dcbx = 0x0c }, lossless(), "`dcb dcbx set dev eth1 host ieee`"},
		"pause":         {func(*nic) {}, Spec{On: eth1, PFC: of(true), Priority: of(5)}, "set pause = false"},
		"PFC":           {func(n *nic) { n.pause, n.pfc[pfcMask] = [2]bool{}, 8 }, Spec{On: eth1, Pause: of(true)}, "PFC is on for priority 3"},
		"few classes":   {func(n *nic) { n.ets[etsCap] = 1 }, Spec{On: eth1, ETS: map[int]int{0: 50, 1: 50}}, "the NIC has 1 traffic classes, and ets names 2"},
		"big buffers":   {func(*nic) {}, Spec{On: eth1, Buffer: map[int]int{5: 1 << 20}}, "the NIC has 524288 bytes of receive buffers"},
		"no buffers":    {func(n *nic) { n.buffer = nil }, Spec{On: eth1, Buffer: map[int]int{5: 1 << 10}}, "remove buffer"},
		"no RDMA":       {func(n *nic) { clear(n.files) }, Spec{On: eth1, RDMACM: of(true)}, "there is no RDMA device on the NIC"},
		"a crafted one": {func(*nic) {}, Spec{On: eth1, ETS: map[int]int{9: 100}}, "does not exist"},
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
	n.dcbx |= dcbxManaged
	if _, changes, err := plan(t, n, Spec{On: eth1, Trust: "pcp", ECN: of(true)}); err != nil || changes != nil {
		t.Errorf("firmware that has decided for the class is let: %q, %v", changes, err)
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
	n := mlx5()
	n.driver = "ice"
	_, changes, err := plan(t, n, Spec{On: eth1, DSCP: of(40), Priority: of(5)})
	if want := []string{"link flap: dscp 40:  > 5"}; err != nil || !slices.Equal(changes, want) {
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

// TestALosslessPriorityMovesToAnEmptyBuffer, and back.
func TestALosslessPriorityMovesToAnEmptyBuffer(t *testing.T) {
	n := mlx5()
	n.pause, n.pfc[pfcMask] = [2]bool{}, 1<<5
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

// TestResultsOfDrivers: ice accepts a change with 1 or 2.
func TestResultsOfDrivers(t *testing.T) {
	for said, want := range map[byte]uint8{0: 0, 1: 0, 2: 0, 256 - 22: 22, 256 - 95: 95} {
		if got, err := result(append([]byte{0, cmdIEEESet, 0, 0}, attribute(attrIEEE, []byte{said})...)); err != nil || got != want {
			t.Errorf("%d: %d, %v", said, got, err)
		}
	}
}

// TestCraftedAnswersAreRefused: attributes that are shorter than their header, longer than the message, or than their struct.
func TestCraftedAnswersAreRefused(t *testing.T) {
	head := []byte{0, cmdIEEEGet, 0, 0}
	for _, length := range []byte{0, 1, 3, 200} {
		if _, err := parseIEEE(append(slices.Clone(head), length, 0, 13, 0, 0, 0, 0, 0)); err == nil {
			t.Errorf("an attribute of %d bytes is read", length)
		}
	}
	for kind, size := range map[uint16]int{ieeeETS: sizeETS, ieeePFC: sizePFC, ieeeBuffer: sizeBuffer} {
		if _, err := parseIEEE(append(slices.Clone(head), attribute(attrIEEE|nested, attribute(kind, make([]byte, size-1)))...)); err == nil {
			t.Errorf("a struct of kind %d with %d bytes is read", kind, size-1)
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

// TestMessagesAreThoseOfDcb: `strace -xx dcb app add dev lo dscp-prio 40:5` of iproute2 6.1 shows these bytes.
func TestMessagesAreThoseOfDcb(t *testing.T) {
	const want = "\x00\x14\x00\x00\x07\x00\x01\x00lo\x00\x00\x10\x00\x0d\x80\x0c\x00\x03\x80\x08\x00\x01\x00\x05\x05\x28\x00"
	if got := message(cmdIEEESet, "lo", app{selectorDSCP, 5, 40}.encode()); !bytes.Equal(got, []byte(want)) {
		t.Errorf("%x, want %x", got, want)
	}
}

// FuzzAnswers: whatever a kernel answers, it is read without a panic, and what is read can be written as text and sent back.
func FuzzAnswers(f *testing.F) {
	n := whole(mlx5())
	n.table, n.trust = true, []uint8{selectorDSCP, selectorPCP}
	for _, command := range []uint8{cmdIEEEGet, cmdGetDCBX} {
		f.Add(must(n.DCB(f.Context(), message(command, "eth1"))))
	}
	f.Add(must(n.Pause(f.Context(), 2)))
	f.Add(must(n.SetDCB(message(cmdIEEESet, "eth1", app{selectorDSCP, 5, 40}.encode()))))
	f.Fuzz(func(t *testing.T, raw []byte) {
		_, _ = parseDCBX(raw)
		_, _ = result(raw)
		_, _, _, _ = parsePause(raw)
		d, err := parseIEEE(raw)
		if err != nil {
			return
		}
		values := d.values()
		s := state{Values: values, DCB: true, Table: d.hasTrust}
		_, _, _ = s.wanted(lossless())
		if d.ets != nil {
			if again, err := encodeETS(d.ets, values[attrETS]); slices.Max(d.ets[etsClasses:etsClasses+priorities]) < priorities && (err != nil || !bytes.Equal(again, d.ets)) {
				t.Errorf("%q: %v", values[attrETS], err)
			}
		}
		if d.buffer != nil {
			if again, err := encodeBuffer(d.buffer, values[attrBuffer]); slices.Max(d.buffer[:priorities]) < priorities && (err != nil || !bytes.Equal(again, d.buffer)) {
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
		_, _ = encodeETS(make([]byte, sizeETS), s)
		_, _ = encodeBuffer(make([]byte, sizeBuffer), s)
		_, _, _ = parseRDMACM(s)
		_ = parseFlow(s)
		_ = isAttribute(s)
	})
}
