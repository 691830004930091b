package cabling

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// wires is a world of ports: by the name of a port (host:netdev), who hears its frames.
type wires struct {
	snaps map[string]*facts.Snapshot
	both  map[string][]string // who hears both kinds
	some  map[string][]string // who hears the broadcasts alone
	said  map[string][]string // frames of other devices that a port hears
	eats  map[string]string
}

func world(ports ...string) *wires {
	w := &wires{snaps: map[string]*facts.Snapshot{}, both: map[string][]string{}, some: map[string][]string{}, said: map[string][]string{}, eats: map[string]string{}}
	for i, p := range ports {
		name, netdev, _ := strings.Cut(p, ":")
		if w.snaps[name] == nil {
			w.snaps[name] = &facts.Snapshot{}
		}
		s := w.snaps[name]
		s.Links = append(s.Links, host.Link{Index: len(s.Links) + 1, Name: netdev, MAC: fmt.Sprintf("02:00:00:00:%02x:10", i), Up: true, Carrier: true})
	}
	return w
}

func (w *wires) link(port string) *host.Link {
	name, netdev, _ := strings.Cut(port, ":")
	return w.snaps[name].Link(netdev)
}

// cable joins two ports.
func (w *wires) cable(a, b string) *wires {
	w.both[a], w.both[b] = append(w.both[a], b), append(w.both[b], a)
	return w
}

// bridge joins ports by a switch.
func (w *wires) bridge(ports ...string) *wires {
	for _, a := range ports {
		for _, b := range ports {
			if a != b {
				w.some[a] = append(w.some[a], b)
			}
		}
	}
	return w
}

// lldp lets ports hear a switch: port=name of the switch's port.
func (w *wires) lldp(name string, ports ...string) *wires {
	tlv := func(kind int, value string) string {
		return string([]byte{byte(kind<<1 | len(value)>>8), byte(len(value))}) + value
	}
	for _, p := range ports {
		port, at, _ := strings.Cut(p, "=")
		w.said[port] = append(w.said[port], "\x01\x80\xc2\x00\x00\x0e\x0a\x00\x00\x00\x00\x01\x88\xcc"+tlv(1, "\x07"+name)+tlv(2, "\x05"+at)+tlv(3, "\x00\x78")+tlv(5, name))
	}
	return w
}

func (w *wires) run(o Options) *Report {
	s := Plan(w.snaps, o)
	a := &Answers{Listened: time.Second, Ports: map[Port]probe.CablingListeningPort{}, Sent: map[Port]probe.CablingSent{}, Heard: map[string]probe.CablingHeard{}, Failed: map[string]string{}}
	hear := func(at string, p probe.CablingProbe) {
		name, netdev, _ := strings.Cut(at, ":")
		h := a.Heard[name]
		p.Netdev, p.Count = netdev, 2
		h.Probes = append(h.Probes, p)
		a.Heard[name] = h
	}
	for i, p := range s.Ports {
		if p.State == Down {
			continue
		}
		a.Ports[p.Port] = probe.CablingListeningPort{Netdev: p.Netdev, Eats: w.eats[p.String()]}
		for _, frame := range w.said[p.String()] {
			h := a.Heard[p.Host]
			h.Others = append(h.Others, probe.CablingOther{Netdev: p.Netdev, Data: []byte(frame), Count: 1})
			a.Heard[p.Host] = h
		}
		if p.State != Sends {
			continue
		}
		a.Sent[p.Port] = probe.CablingSent{Netdev: p.Netdev, Frames: probe.CablingFrames}
		for _, at := range w.both[p.String()] {
			hear(at, probe.CablingProbe{Number: uint32(i), Group: true})
			hear(at, probe.CablingProbe{Number: uint32(i)})
		}
		for _, at := range w.some[p.String()] {
			hear(at, probe.CablingProbe{Number: uint32(i)})
		}
	}
	return Judge(s, a)
}

// String is the report on lines, for tests.
func (r *Report) lines() string {
	var b strings.Builder
	names := func(ends []End) (out []string) {
		for _, e := range ends {
			out = append(out, e.String())
		}
		return out
	}
	for _, c := range r.Cables {
		fmt.Fprintf(&b, "cable %s\n", names(c[:]))
	}
	for _, s := range r.Segments {
		fmt.Fprintf(&b, "segment %s %v\n", names(s.Ends), s.Forwards)
	}
	for _, s := range r.Switches {
		fmt.Fprintf(&b, "switch %s", s.Name)
		for _, p := range s.Ports {
			fmt.Fprintf(&b, " %s=%s", p.End, p.Port)
		}
		fmt.Fprintln(&b)
	}
	for _, x := range r.Rails {
		fmt.Fprintf(&b, "rail %s %s\n", x.Name, names(x.Ends))
	}
	for _, u := range r.Unclear {
		fmt.Fprintf(&b, "unclear %s: %s\n", names(u.Ends), strings.Join(u.Heard, "; "))
	}
	for what, ends := range map[string][]End{"silent": r.Silent, "held": r.Management, "no carrier": r.NoCarrier, "down": r.Down} {
		if len(ends) > 0 {
			fmt.Fprintf(&b, "%s %s\n", what, names(ends))
		}
	}
	for _, e := range r.TakesLLDP {
		fmt.Fprintf(&b, "eats %s %s\n", e.Port, e.Flag)
	}
	for _, at := range slices.Sorted(maps.Keys(r.Failed)) {
		fmt.Fprintf(&b, "failed %s: %s\n", at, r.Failed[at])
	}
	return b.String()
}

func TestWhatWasHeardIsJudged(t *testing.T) {
	for name, c := range map[string]struct {
		w    *wires
		want string
	}{
		"two cables":          {world("a:p0", "a:p1", "b:p0", "b:p1").cable("a:p0", "b:p1").cable("a:p1", "b:p0"), "cable [a:p0 b:p1]\ncable [a:p1 b:p0]\n"},
		"a cable of one host": {world("a:p0", "a:p1").cable("a:p0", "a:p1"), "cable [a:p0 a:p1]\n"},
		"a segment of two":    {world("a:p0", "b:p0").bridge("a:p0", "b:p0"), "segment [a:p0 b:p0] false\n"},
		"a segment of three":  {world("a:p0", "b:p0", "c:p0").bridge("a:p0", "b:p0", "c:p0"), "segment [a:p0 b:p0 c:p0] false\n"},
		"a switch that forwards all": {world("a:p0", "b:p0", "c:p0").cable("a:p0", "b:p0").cable("b:p0", "c:p0").cable("a:p0", "c:p0"),
			"segment [a:p0 b:p0 c:p0] true\n"},
		"a segment with a switch that names itself": {world("a:p0", "b:p0").bridge("a:p0", "b:p0").lldp("leaf", "a:p0=e1", "b:p0=e2"),
			"segment [a:p0 b:p0] false\nswitch leaf a:p0=e1 b:p0=e2\nrail leaf [a:p0 b:p0]\n"},
		"a cable that a switch is heard on is none": {world("a:p0", "b:p0").cable("a:p0", "b:p0").lldp("leaf", "a:p0=e1"),
			"switch leaf a:p0=e1\nunclear [a:p0 b:p0]: a:p0 heard both kinds of frames of b:p0; a:p0 heard switch leaf, port e1 (LLDP); b:p0 heard both kinds of frames of a:p0\n"},
		"a dumb switch in front of one that names itself": {world("a:p0", "b:p0").cable("a:p0", "b:p0").lldp("leaf", "a:p0=e1", "b:p0=e1"),
			"segment [a:p0 b:p0] true\nswitch leaf a:p0=e1 b:p0=e1\nrail leaf [a:p0 b:p0]\n"},
		"a routed leaf": {world("a:p0", "b:p0", "c:p0").lldp("leaf", "a:p0=e1", "b:p0=e2", "c:p0=e3"),
			"switch leaf a:p0=e1 b:p0=e2 c:p0=e3\nrail leaf [a:p0 b:p0 c:p0]\n"},
		"rails by the names of one switch's ports": {world("a:p0", "a:p1", "b:p0", "b:p1").lldp("spine", "a:p0=a-rail0", "a:p1=a-rail1", "b:p0=b-rail1", "b:p1=b-rail0"),
			"switch spine a:p0=a-rail0 a:p1=a-rail1 b:p0=b-rail1 b:p1=b-rail0\nrail rail0 [a:p0 b:p1]\nrail rail1 [a:p1 b:p0]\n"},
		"one switch of several ports of a host shows no rails": {world("a:p0", "a:p1", "b:p0").lldp("tor", "a:p0=e1", "a:p1=e2", "b:p0=e3"),
			"switch tor a:p0=e1 a:p1=e2 b:p0=e3\n"},
		"nothing is heard": {world("a:p0", "b:p0"), "silent [a:p0 b:p0]\n"},
		"a host that bridges two cables": {world("a:p0", "b:p0", "b:p1", "c:p0").cable("a:p0", "b:p0").cable("b:p1", "c:p0").bridge("a:p0", "c:p0"),
			"unclear [a:p0 b:p0 b:p1 c:p0]: a:p0 heard both kinds of frames of b:p0; a:p0 heard only the broadcasts of c:p0; b:p0 heard both kinds of frames of a:p0; " +
				"b:p1 heard both kinds of frames of c:p0; c:p0 heard only the broadcasts of a:p0; c:p0 heard both kinds of frames of b:p1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.w.run(Options{}).lines(); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestACableNeedsBothDirections: half a cable, or one heard by a third port, is none.
func TestACableNeedsBothDirections(t *testing.T) {
	for from, to := range map[string]string{"a:p0": "b:p0", "b:p0": "a:p0"} {
		w := world("a:p0", "b:p0")
		w.both[from] = []string{to}
		if got := w.run(Options{}).lines(); got != "unclear [a:p0 b:p0]: "+to+" heard both kinds of frames of "+from+"\n" {
			t.Errorf("one direction: %s", got)
		}
	}
	w := world("a:p0", "b:p0", "c:p0").cable("a:p0", "b:p0")
	w.some["a:p0"] = []string{"c:p0"}
	if got := w.run(Options{}); len(got.Cables) > 0 || len(got.Unclear) != 1 {
		t.Errorf("a third port: %s", got.lines())
	}
	w = world("a:p0", "b:p0").cable("a:p0", "b:p0")
	w.both["a:p0"] = append(w.both["a:p0"], "a:p0")
	if got := w.run(Options{}); len(got.Cables) > 0 {
		t.Errorf("a port that hears itself: %s", got.lines())
	}
}

// TestTwoFunctionsOfAPortAreOneCable: as on a DGX Spark, where each function hears what both functions of the other end send.
func TestTwoFunctionsOfAPortAreOneCable(t *testing.T) {
	ports := []string{"a:enp1s0f0np0", "a:enP2p1s0f0np0", "b:enp1s0f0np0", "b:enP2p1s0f0np0"}
	w := world(ports...)
	for i, p := range ports {
		l := w.link(p)
		l.Driver, l.PCI, l.MAC = "mlx5_core", []string{"0000:01:00.0", "0002:01:00.0"}[i%2], fmt.Sprintf("02:00:00:00:0%d:1%d", i/2, i%2)
		for j, q := range ports {
			if i/2 != j/2 {
				w.both[p] = append(w.both[p], q)
			} else if i != j {
				w.some[p] = append(w.some[p], q) // the NIC passes broadcasts from function to function
			}
		}
	}
	if got := w.run(Options{}).lines(); got != "cable [a:enp1s0f0np0+enP2p1s0f0np0 b:enp1s0f0np0+enP2p1s0f0np0]\n" {
		t.Error(got)
	}
}

// TestTheManagementPathIsSilent: its devices listen only, unless it is asked for; so do all devices where it is unknown.
func TestTheManagementPathIsSilent(t *testing.T) {
	w := world("a:m0", "a:p0", "b:m0", "b:p0", "b:p1", "b:p2").bridge("a:m0", "b:m0").cable("a:p0", "b:p0")
	w.snaps["a"].Management = facts.Management{Devices: []string{"m0"}}
	w.snaps["b"].Management = facts.Management{Devices: []string{"m0", "bond0"}}
	w.link("b:p1").Up, w.link("b:p2").Carrier = false, false
	if got := w.run(Options{}).lines(); !strings.HasPrefix(got, "cable [a:p0 b:p0]\n") || !strings.Contains(got, "held [a:m0 b:m0]") ||
		!strings.Contains(got, "down [b:p1]") || !strings.Contains(got, "no carrier [b:p2]") || strings.Contains(got, "silent") {
		t.Error(got)
	}
	if got := w.run(Options{IncludeManagement: true}).lines(); !strings.Contains(got, "segment [a:m0 b:m0]") {
		t.Error(got)
	}
	w.snaps["b"].Management = facts.Management{Unknown: "no SSH_CONNECTION"}
	for _, p := range Plan(w.snaps, Options{}).Ports {
		if p.Host == "b" && p.State == Sends {
			t.Errorf("%s sends, although it may carry the connection", p)
		}
	}
}

// TestAHostsOwnLLDPIsNoSwitch: it is sent from an address of the host, or names one as its chassis.
func TestAHostsOwnLLDPIsNoSwitch(t *testing.T) {
	w := world("a:p0", "b:p0").cable("a:p0", "b:p0")
	mac, err := net.ParseMAC(w.link("b:p0").MAC)
	if err != nil {
		t.Fatal(err)
	}
	w.said["a:p0"] = []string{"\x01\x80\xc2\x00\x00\x0e" + string(mac) + "\x88\xcc", "\x01\x80\xc2\x00\x00\x0e\x0a\x00\x00\x00\x00\x09\x88\xcc\x02\x07\x04" + string(mac) +
		"\x04\x02\x05x\x06\x02\x00\x78"}
	if got := w.run(Options{}).lines(); got != "cable [a:p0 b:p0]\n" {
		t.Error(got)
	}
	w.said["a:p0"] = []string{"\x01\x80\xc2\x00\x00\x02\x0a\x00\x00\x00\x00\x01\x88\x09"}
	if got := w.run(Options{}); len(got.Cables) > 0 || !strings.Contains(got.lines(), "frames of type 0x8809") {
		t.Errorf("another device's LACP: %s", got.lines())
	}
}

// TestAHostHidesNoSwitchOfOthers: that it claims the switch's address says nothing about ports that it does not hear.
func TestAHostHidesNoSwitchOfOthers(t *testing.T) {
	w := world("a:p0", "b:p0", "c:p0").cable("a:p0", "b:p0").lldp("leaf", "a:p0=1", "b:p0=2")
	w.link("c:p0").MAC = "0a:00:00:00:00:01"
	if got := w.run(Options{}); len(got.Cables) > 0 || !strings.Contains(got.lines(), "switch leaf a:p0=1 b:p0=2") {
		t.Error(got.lines())
	}
}

// TestAFailureIsNamed: a host that fails is no silent one, and firmware that eats LLDP is named.
func TestAFailureIsNamed(t *testing.T) {
	w := world("a:p0", "b:p0")
	w.eats["a:p0"] = "fw-lldp-agent"
	s := Plan(w.snaps, Options{})
	a := &Answers{Ports: map[Port]probe.CablingListeningPort{{Host: "a", Netdev: "p0"}: {Netdev: "p0", Eats: "fw-lldp-agent", Failed: "no socket"}}, Failed: map[string]string{"b": "gone"},
		Heard: map[string]probe.CablingHeard{"a": {Probes: []probe.CablingProbe{{Netdev: "p0", Number: 99}, {Netdev: "p9"}}, Others: []probe.CablingOther{{Netdev: "p0"}, {Netdev: "p9"}}, Full: []string{"p9"}}}}
	if got := Judge(s, a).lines(); got != "eats a:p0 fw-lldp-agent\nfailed a:p0: no socket\nfailed b: gone\n" {
		t.Error(got)
	}
}

// TestOnlyPortsThatNobodyNeedsDownAreRaised: not those of a bond, and none where the operator's path is unknown, or may be the port's.
func TestOnlyPortsThatNobodyNeedsDownAreRaised(t *testing.T) {
	links := []host.Link{{Index: 1, Name: "up", MAC: "02:00:00:00:00:01", Up: true}, {Index: 2, Name: "down", MAC: "02:00:00:00:00:02"}, {Index: 3, Name: "member", MAC: "02:00:00:00:00:03", Master: 4},
		{Index: 4, Name: "bond0", MAC: "02:00:00:00:00:03", Kind: "bond"}, {Index: 5, Name: "mgmt", MAC: "02:00:00:00:00:05"}, {Index: 6, Name: "left-over", MAC: "02:00:00:00:00:06"}}
	of := func(unknown string) *facts.Snapshot {
		return &facts.Snapshot{Links: links, Management: facts.Management{Unknown: unknown, Devices: []string{"mgmt"}, Client: netip.MustParseAddr("192.0.2.9")},
			Addrs: []host.Addr{{Index: 2, Prefix: netip.MustParsePrefix("10.0.0.1/24")}, {Index: 6, Prefix: netip.MustParsePrefix("192.0.2.1/24")}}}
	}
	held := map[string]map[string]string{"c": {"down": "a fabric holds it", "member": "a fabric holds it"}}
	survey := Plan(map[string]*facts.Snapshot{"a": of(""), "b": of("no SSH_CONNECTION"), "c": of("")}, Options{LeaveAlone: held})
	if got := survey.Raisable(); len(got) != 1 || !slices.Equal(got["a"], []string{"down"}) {
		t.Errorf("%v", got)
	}
	left := Judge(survey, &Answers{}).LeftAlone
	for port, want := range map[string]string{"a:member": "it belongs to bond0", "a:mgmt": "it may carry your connection", "a:left-over": "its address 192.0.2.1/24 would divert the replies to you",
		"b:down": "the path of your connection is unknown", "c:down": "a fabric holds it", "c:member": "it belongs to bond0", "a:down": "", "a:up": ""} {
		if left[port] != want {
			t.Errorf("%s: %q, want %q", port, left[port], want)
		}
	}
}

// TestASegmentNeedsAllDirections: where one port does not hear another one, nothing is certain, whichever of them it is.
func TestASegmentNeedsAllDirections(t *testing.T) {
	ports := []string{"a:p0", "b:p0", "c:p0"}
	for _, deaf := range ports {
		for _, to := range ports {
			w := world(ports...).bridge(ports...)
			w.some[to] = slices.DeleteFunc(w.some[to], func(at string) bool { return at == deaf })
			want := "segment [a:p0 b:p0 c:p0] false\n"
			got := w.run(Options{}).lines()
			if deaf != to && (strings.Contains(got, "segment") || !strings.Contains(got, "unclear")) || deaf == to && got != want {
				t.Errorf("%s does not hear %s:\n%s", deaf, to, got)
			}
		}
	}
}
