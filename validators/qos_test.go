package validators

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
)

// lanesOf is wires whose NICs count by priority, with names as mlx5's.
type lanesOf struct {
	*wires
	mu     sync.Mutex
	nics   map[string]*nicLanes // by host and netdev
	remark int                  // the DSCP that a switch gives to every packet; -1: it keeps them
	lost   uint64               // how many packets of each test the receiver does not count
	noise  [8]uint64            // what the receiver counts beside each test
	sent   []probe.Class        // of each test with TCP
}

type nicLanes struct {
	dcb   *probe.DCB
	names string // of packets: "%s_prio%d_packets"; "": it counts neither packets nor bytes. Each packet has 1,000 bytes
	tx    [8]uint64
	rx    [8]uint64
	more  []probe.Statistic
}

func newLanes() *lanesOf {
	w := &lanesOf{wires: newWires(), nics: map[string]*nicLanes{}, remark: -1}
	for at := range w.counters {
		w.nics[at] = &nicLanes{dcb: &probe.DCB{PFC: []int{5}, DSCP: map[int]int{40: 5, 48: 6}}, names: "%s_prio%d_packets"}
	}
	on(w.fake, probe.ReadPriorities, w.read)
	on(w.fake, probe.Ping, func(ctx context.Context, h string, s probe.PingSpec) ([]probe.PingResult, error) {
		if s.TrafficClass > 0 && s.Priority == 5 {
			w.carry(h, s.Netdev, s.TrafficClass>>2, uint64(s.Count))
			w.carry(peer(h), s.Netdev, s.TrafficClass>>2, uint64(s.Count))
		}
		return w.ping(ctx, h, s)
	})
	on(w.fake, probe.SendTCP, func(_ context.Context, h string, s probe.TCPSendSpec) (probe.TCPResult, error) {
		w.mu.Lock()
		w.sent = append(w.sent, s.Class)
		w.mu.Unlock()
		w.move(h, s.Netdev, 1000, 2e6)
		w.carry(h, s.Netdev, s.TrafficClass>>2, 1000)
		return probe.TCPResult{Congestion: "cubic"}, nil
	})
	return w
}

// carry counts n packets of a DSCP from one host to the other.
func (w *lanesOf) carry(from, netdev string, dscp int, n uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	tx, rx := w.nics[from+netdev], w.nics[peer(from)+netdev]
	tx.tx[tx.priority(dscp)] += n
	if w.remark >= 0 {
		dscp = w.remark
	}
	rx.rx[rx.priority(dscp)] += n - w.lost
	for p, n := range w.noise {
		rx.rx[p] += n
	}
}

func (n *nicLanes) priority(dscp int) int {
	if n.dcb == nil || n.dcb.TrustsPCP {
		return 0
	}
	return n.dcb.DSCP[dscp]
}

func (w *lanesOf) read(_ context.Context, h, netdev string) (p probe.Priorities, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := w.nics[h+netdev]
	p.DCB = n.dcb
	for i := range 8 {
		if n.names != "" {
			p.Statistics = append(p.Statistics, probe.Statistic{Name: fmt.Sprintf(n.names, "tx", i), Counts: probe.Packets, Sent: true, Priority: i, Value: n.tx[i]},
				probe.Statistic{Name: fmt.Sprintf(n.names, "rx", i), Counts: probe.Packets, Priority: i, Value: n.rx[i]},
				probe.Statistic{Name: fmt.Sprintf("tx_prio%d_bytes", i), Counts: probe.Bytes, Sent: true, Priority: i, Value: 1000 * n.tx[i]},
				probe.Statistic{Name: fmt.Sprintf("rx_prio%d_bytes", i), Counts: probe.Bytes, Priority: i, Value: 1000 * n.rx[i]})
		}
	}
	p.Statistics = append(p.Statistics, n.more...)
	return p, nil
}

// lossless gives all NICs of a fabric the class of note 003.
func lossless(f *fabric.Fabric) *fabric.Fabric {
	dscp, priority, yes := 40, 5, true
	for _, h := range f.Hosts {
		for _, n := range h.NICs {
			n.QoS = &fabric.QoS{Name: "lossless", DSCP: &dscp, Priority: &priority, PFC: &yes}
		}
	}
	return f
}

// TestAClassIsCountedAtBothEnds, or what is wrong is named, at the end where it is.
func TestAClassIsCountedAtBothEnds(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *lanesOf)
		want   string // in the only failure of each direction or path; "": none
		count  int
	}{
		"right":                  {func(*lanesOf) {}, "", 0},
		"right beside others":    {func(w *lanesOf) { w.noise = [8]uint64{0: 1000} }, "", 0},
		"one is late":            {func(w *lanesOf) { w.lost = 1 }, "b.rail0 received only 49 of 50 packets on priority 5", 4},
		"one is late, of others": {func(w *lanesOf) { w.lost, w.noise = 1, [8]uint64{0: 60} }, "b.rail0 received only 49 of 50 packets on priority 5, and it is not known where", 4},
		"a map that is not known": {func(w *lanesOf) { w.nics["beth0"].dcb = nil },
			"b.rail0 received them on priority 0, because of its map, which cannot be read, or of a switch", 2},
		"no PFC beside no DCB": {func(w *lanesOf) { w.nics["aeth1"].dcb.PFC, w.nics["beth1"].dcb = nil, nil }, "a.rail1 has no PFC on priority 5", 3},
		"the sender's map": {func(w *lanesOf) { w.nics["aeth0"].dcb = &probe.DCB{PFC: []int{5}, DSCP: map[int]int{40: 3}} },
			"on priority 3 of a.rail0: a.rail0 sent them on priority 3: its map leads DSCP 40 to priority 3; run `fabricform plan`, then `fabricform apply`", 2},
		"no map": {func(w *lanesOf) { w.nics["aeth0"].dcb = &probe.DCB{PFC: []int{5}, TrustsPCP: true} },
			"a.rail0 sent them on priority 0: it trusts the PCP of VLAN tags instead of the DSCP", 2},
		"the receiver's map": {func(w *lanesOf) { w.nics["beth0"].dcb = &probe.DCB{PFC: []int{5}, DSCP: map[int]int{48: 6}} },
			"b.rail0 received them on priority 0: its map has no entry for DSCP 40", 2},
		"a switch remarks": {func(w *lanesOf) { w.remark = 48 },
			"they left a.rail0 on priority 5 and came in at b.rail0 on priority 6, although its map leads DSCP 40 to priority 5: a switch between them has changed their DSCP", 4},
		"a switch remarks to nothing": {func(w *lanesOf) { w.remark = 0 }, "came in at b.rail0 on priority 0", 4},
		"no PFC at one end": {func(w *lanesOf) { w.nics["beth1"].dcb.PFC = nil },
			"5 on a, none on b: b.rail1 has no PFC on priority 5, so it drops packets where it must pause a.rail1; run `fabricform plan`", 1},
		"no answers": {func(w *lanesOf) { w.answers = false }, "no answer to pings of this class", 4},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLanes()
			c.change(w)
			results := measure(t, lossless(two()), w, Options{Only: []Check{CheckQoS}})
			got := failed(results)
			if !strings.Contains(got, c.want) || strings.Count(got, "\n") != c.count || len(results) != 6 {
				t.Errorf("%d results:\n%s", len(results), got)
			}
			for _, r := range results {
				if r.Item == ClassCounted && !r.Unmeasured && (len(r.Counters) != 2 || r.Counters[0].Counter != "tx_prio5_packets" || r.Counters[1].Counter != "rx_prio5_packets" ||
					r.Counters[0].AtLeast != classPings || *r.Setup.TrafficClass != 160) {
					t.Errorf("%+v", r)
				}
			}
		})
	}
}

// TestOtherTrafficOfTheClassProvesNothing: it can hide that a switch remarks.
func TestOtherTrafficOfTheClassProvesNothing(t *testing.T) {
	w := newLanes()
	w.remark, w.noise = 0, [8]uint64{5: 1000}
	warned := 0
	for _, r := range measure(t, lossless(two()), w, Options{Only: []Check{CheckQoS}}) {
		if r.Item == ClassCounted && r.Verdict == Warn && r.Unmeasured && strings.Contains(r.Cause, "not proven: other traffic is on priority 5") {
			warned++
		}
	}
	if warned != 4 {
		t.Errorf("%d results are not proven", warned)
	}
}

// TestPFCIsJudgedAtAnEndWithoutABlock by the block of the other end, and against a block that wants none.
func TestPFCIsJudgedAtAnEndWithoutABlock(t *testing.T) {
	w, f := newLanes(), lossless(two())
	w.nics["beth0"].dcb = &probe.DCB{TrustsPCP: true}
	f.Hosts[1].NICs[0].QoS = nil
	no := *f.Hosts[0].NICs[1].QoS
	no.PFC = new(bool)
	f.Hosts[0].NICs[1].QoS, f.Hosts[1].NICs[1].QoS = &no, &no
	without, bare := newLanes(), two()
	for _, n := range without.nics {
		n.dcb.PFC = nil
	}
	for _, h := range bare.Hosts {
		for _, n := range h.NICs {
			n.QoS = &no
		}
	}
	if got := failed(measure(t, bare, without, Options{Only: []Check{CheckQoS}})); got != "" {
		t.Errorf("a class without PFC, and NICs without: %s", got)
	}
	got := failed(measure(t, f, w, Options{Only: []Check{CheckQoS}}))
	for _, want := range []string{"b.rail0 has no PFC on priority 5, so it drops packets where it must pause a.rail0; set qos = qos.lossless for b.rail0",
		"b.rail0 received them on priority 0: it trusts the PCP of VLAN tags instead of the DSCP; set qos = qos.lossless for b.rail0",
		"a.rail1 has PFC on priority 5, and qos.lossless has none; b.rail1 has PFC"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

// TestNICsThatDoNotCountAreSkipped, never passed; a fabric without classes has no results.
func TestNICsThatDoNotCountAreSkipped(t *testing.T) {
	w := newLanes()
	w.nics["beth0"].names = ""
	w.snaps["b"].Links[0].Driver = "ice"
	w.nics["aeth1"].dcb = nil
	skipped := ""
	for _, r := range measure(t, lossless(two()), w, Options{Only: []Check{CheckQoS}}) {
		if r.Verdict == Skip && r.Skipped == NoPriorities {
			skipped += fmt.Sprintf("%s %s: %s\n", r.Subject.Name, r.Item, r.Cause)
		}
		if r.Subject.Name == "rail0" && r.Item == ClassCounted && r.Verdict == Pass {
			t.Errorf("passed: %+v", r)
		}
	}
	want := "rail0 class: no per-priority counters on b.rail0 (driver ice)\n"
	if skipped != want+want+"rail1 pfc: no DCB on a.rail1\n" {
		t.Error(skipped)
	}
	if got := measure(t, two(), newLanes(), Options{}); len(got) == 0 || strings.Contains(fmt.Sprintf("%+v", got), string(CheckQoS)) {
		t.Errorf("%+v", got)
	}
	if got := measure(t, two(), newLanes(), Options{Only: []Check{CheckQoS}}); len(got) != 2 || got[0].Skipped != NotDeclared {
		t.Errorf("%+v", got)
	}
	f := lossless(two())
	f.Hosts[0].NICs[0].QoS = &fabric.QoS{Name: "bulk"}
	if got := measure(t, f, newLanes(), Options{Only: []Check{CheckQoS}}); !strings.Contains(fmt.Sprintf("%+v", got), "qos.bulk of a.rail0 does not declare both dscp and priority") {
		t.Errorf("%+v", got)
	}
}

// lanesOfVerbs lets RDMA's packets be counted by priority, too.
func lanesOfVerbs() (*verbs, *lanesOf) {
	v, w := newVerbs(), newLanes()
	on(v.fake, probe.ReadPriorities, w.read)
	on(v.fake, probe.RunVerbs, func(ctx context.Context, h string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error) {
		w.carry(h, "eth"+s.End.Device[4:], s.Test.TrafficClass>>2, uint64(v.count)*uint64(max(s.Test.Size/4096, 1)))
		return v.run(ctx, h, s)
	})
	return v, w
}

// TestPerftestIsCountedInItsClass, with the traffic class of the NIC's block.
func TestPerftestIsCountedInItsClass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *lanesOf, f *fabric.Fabric)
		want   string // in a result of the class
		passes int    // results of the class that pass
	}{
		"right":            {func(*lanesOf, *fabric.Fabric) {}, "pass on priority 5 at both ends", 4},
		"a switch remarks": {func(w *lanesOf, _ *fabric.Fabric) { w.remark = 48 }, "fail on priority 6 of b.rail0they left a.rail0 on priority 5 and came in at b.rail0 on priority 6", 0},
		"not counted":      {func(w *lanesOf, _ *fabric.Fabric) { w.nics["aeth0"].names = "" }, "skip no per-priority counters on a.rail0", 0},
		"no class":         {func(_ *lanesOf, f *fabric.Fabric) { f.Hosts[0].NICs[0].QoS, f.Hosts[1].NICs[0].QoS = nil, nil }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			v, w := lanesOfVerbs()
			f := lossless(rdmaFabric())
			f.Links = f.Links[:1]
			c.change(w, f)
			results, all, passes := measure(t, f, v, Options{Only: []Check{CheckVerbs}}), "", 0
			for _, r := range results {
				if r.Item == ClassCounted {
					all += string(r.Verdict) + " " + r.Found + r.Cause + "\n"
					if r.Verdict == Pass {
						passes++
					}
				}
			}
			if !strings.Contains(all, c.want) || passes != c.passes || (c.want == "") != (all == "") {
				t.Errorf("%d passes:\n%s", passes, all)
			}
			for _, s := range v.asked {
				if want := map[bool]int{true: 160}[c.want != ""]; s.Test.TrafficClass != want {
					t.Errorf("traffic class %d, want %d", s.Test.TrafficClass, want)
				}
			}
		})
	}
}

// TestThroughputIsSentInItsClass, and its bytes are counted on the class's priority at both ends.
func TestThroughputIsSentInItsClass(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *lanesOf, f *fabric.Fabric)
		want   string // in a result of the class
		passes int    // results of the class that pass
	}{
		"right":            {func(*lanesOf, *fabric.Fabric) {}, "pass on priority 5 at both ends", 2},
		"a switch remarks": {func(w *lanesOf, _ *fabric.Fabric) { w.remark = 48 }, "fail on priority 6 of b.rail0they left a.rail0 on priority 5 and came in at b.rail0 on priority 6", 0},
		"some are lost":    {func(w *lanesOf, _ *fabric.Fabric) { w.lost = 100 }, "fail b.rail0 received only 900000 of 1000000 bytes on priority 5", 0},
		"other traffic": {func(w *lanesOf, _ *fabric.Fabric) { w.noise = [8]uint64{0: 1000, 5: 1000} },
			"warn not proven: other traffic is on priority 5 of b.rail0 (2000000 bytes, 1000000 were sent), and priority 0 had bytes enough to hide them", 0},
		"not counted": {func(w *lanesOf, _ *fabric.Fabric) { w.nics["aeth0"].names = "" }, "skip no per-priority counters on a.rail0", 0},
		"no class":    {func(_ *lanesOf, f *fabric.Fabric) { f.Hosts[0].NICs[0].QoS, f.Hosts[1].NICs[0].QoS = nil, nil }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, f := newLanes(), lossless(two())
			f.Links = f.Links[:1]
			c.change(w, f)
			all, passes, class := "", 0, (*int)(nil)
			for _, r := range measure(t, f, w, Options{Only: []Check{CheckTCP}}) {
				switch r.Item {
				case ClassCounted:
					all += string(r.Verdict) + " " + r.Found + r.Cause + "\n"
					if r.Verdict == Pass {
						passes++
						if m := r.Counters[1]; m.Counter != "rx_prio5_bytes" || m.AtLeast != 1e6 || *r.Setup.TrafficClass != 160 {
							t.Errorf("%+v", r)
						}
					}
				case Throughput:
					class = r.Setup.TrafficClass
				}
			}
			if !strings.Contains(all, c.want) || passes != c.passes || (c.want == "") != (all == "") {
				t.Errorf("%d passes:\n%s", passes, all)
			}
			want := probe.Class{TrafficClass: 160, Priority: 5}
			if c.want == "" {
				want = probe.Class{}
			}
			if len(w.sent) != 2 || w.sent[0] != want || w.sent[1] != want || (class != nil) != (c.want != "") {
				t.Errorf("sent in %+v, and said %v", w.sent, class)
			}
		})
	}
}

// TestTheClassOfAVLANIsCountedOnItsPort: the VLAN itself has neither counters nor DCB.
func TestTheClassOfAVLANIsCountedOnItsPort(t *testing.T) {
	for _, kind := range []string{"vlan", "macvlan"} {
		t.Run(kind, func(t *testing.T) { classOfAVLAN(t, kind) })
	}
}

func classOfAVLAN(t *testing.T, kind string) {
	w, f := newLanes(), lossless(two())
	f.Links = f.Links[:1]
	for h, snap := range w.snaps {
		snap.Links = append(snap.Links, host.Link{Index: 9, Name: "eth0.7", Kind: kind, Parent: snap.Links[0].Index, MTU: 9000, Up: true, Carrier: true})
		snap.Addrs[0].Index = 9
		f.Host(h).NICs[0].Netdev = "eth0.7"
		w.counters[h+"eth0.7"] = &probe.Counters{}
	}
	on(w.fake, probe.Ping, func(_ context.Context, h string, s probe.PingSpec) ([]probe.PingResult, error) {
		w.carry(h, "eth0", s.TrafficClass>>2, uint64(s.Count))
		w.carry(peer(h), "eth0", s.TrafficClass>>2, uint64(s.Count))
		return []probe.PingResult{{Sent: s.Count, Received: s.Count}}, nil
	})
	w.nics["beth0"].dcb.PFC = nil
	text := ""
	for _, r := range measure(t, f, w, Options{Only: []Check{CheckQoS}}) {
		text += fmt.Sprintf("%s %s %s %s\n", r.Item, r.Verdict, r.Found, r.Cause)
	}
	if strings.Count(text, "class pass on priority 5 at both ends") != 2 || !strings.Contains(text, "pfc fail  b.rail0 has no PFC on priority 5") {
		t.Error(text)
	}
}

// TestNoPayloadIsInNoClass: what did not arrive was not counted either.
func TestNoPayloadIsInNoClass(t *testing.T) {
	w, f := newLanes(), lossless(two())
	on(w.fake, probe.CollectTCP, func(context.Context, string, string) (probe.TCPResult, error) {
		return probe.TCPResult{Streams: 4}, nil
	})
	for _, r := range measure(t, f, w, Options{Only: []Check{CheckTCP}}) {
		if r.Item == ClassCounted {
			t.Errorf("%+v", r)
		}
	}
}

// TestCongestionOfAGroupIsNamed by link, while all its links send at once.
func TestCongestionOfAGroupIsNamed(t *testing.T) {
	w, f := newLanes(), lossless(two())
	for _, l := range f.Links {
		l.PortGroup = "p0"
	}
	w.nics["aeth1"].more = []probe.Statistic{{Name: "rx_prio5_pause", Counts: probe.PauseFrames, Priority: 5}}
	w.nics["beth1"].more = []probe.Statistic{{Name: "tx_prio5_pause", Counts: probe.PauseFrames, Sent: true, Priority: 5}}
	w.nics["aeth1"].more = append(w.nics["aeth1"].more, probe.Statistic{Name: "rx_prio5_pause_duration", Counts: probe.PausedMicros, Priority: 5})
	runs := map[string]int{}
	on(w.fake, probe.SendTCP, func(_ context.Context, h string, s probe.TCPSendSpec) (probe.TCPResult, error) {
		w.move(h, s.Netdev, 1000, 2e6)
		w.carry(h, s.Netdev, s.TrafficClass>>2, 1000)
		time.Sleep(3 * time.Second) // to start both ends: the share of pauses is that of the sending
		w.mu.Lock()
		defer w.mu.Unlock()
		if own := netip.MustParsePrefix(railAddress[h+s.Netdev[3:]]).Addr(); s.Source != own || s.Target.Addr() == own {
			t.Errorf("host %s sends from %s to %s", h, s.Source, s.Target)
		}
		if runs[h+s.Netdev]++; h+s.Netdev == "aeth1" && runs["aeth1"] == 2 { // the second time is that of the group
			w.nics["aeth1"].more[0].Value += 9
			w.nics["aeth1"].more[1].Value += 6e5
			w.nics["beth1"].more[0].Value += 9
		}
		return probe.TCPResult{}, nil
	})
	var said []string
	for _, r := range measure(t, f, w, Options{Only: []Check{CheckTCP}}) {
		if r.Item == Congested {
			said = append(said, fmt.Sprintf("%s %s %s → %s: %s %s", r.Subject.Name, r.Object, r.Host, r.Peer, r.Verdict, r.Cause))
		}
	}
	const want = "rail1 p0 a → b: fail b.rail1 pauses a.rail1 (9 PFC frames of priority 5)"
	if len(said) != 1 || !strings.HasPrefix(said[0], want) || !strings.Contains(said[0], "silent for 60 % of the time") {
		t.Errorf("%q", said)
	}
}

// TestCongestionIsNamed: who pauses whom, storms, drops and marks, with the counters that show it.
func TestCongestionIsNamed(t *testing.T) {
	stat := func(name string, counts probe.Counted, sent bool, priority int) probe.Statistic {
		return probe.Statistic{Name: name, Counts: counts, Sent: sent, Priority: priority}
	}
	pausedA, pausesB := stat("rx_prio5_pause", probe.PauseFrames, false, 5), stat("tx_prio5_pause", probe.PauseFrames, true, 5)
	dropsB := stat("rx_prio5_buf_discard", probe.Discards, false, 5)
	for name, c := range map[string]struct {
		rises   map[string][]probe.Statistic // of eth0, by host; names that end in ! stay as they are, and with ? they appear during the test
		by      uint64
		noClass bool
		want    Verdict // "": no result
		says    []string
	}{
		"nothing":             {nil, 0, false, "", nil},
		"the receiver pauses": {map[string][]probe.Statistic{"a": {pausedA}, "b": {pausesB}}, 9, false, Warn, []string{"b.rail0 pauses a.rail0 (9 PFC frames of priority 5)", "a.rail0 rx_prio5_pause 9", "b.rail0 tx_prio5_pause 9"}},
		"a switch pauses": {map[string][]probe.Statistic{"a": {pausedA}, "b": {stat("tx_prio5_pause!", probe.PauseFrames, true, 5)}}, 9, false, Warn,
			[]string{"a switch pauses a.rail0 (9 PFC frames of priority 5)"}},
		"a switch or the peer": {map[string][]probe.Statistic{"a": {pausedA}}, 9, false, Warn,
			[]string{"b.rail0 or a switch pauses a.rail0 (9 PFC frames of priority 5): b.rail0 does not count the pauses that it sends"}},
		"nobody hears": {map[string][]probe.Statistic{"a": {stat("rx_prio5_pause!", probe.PauseFrames, false, 5)}, "b": {pausesB}}, 9, false, Warn,
			[]string{"b.rail0 sends 9 PFC frames of priority 5, and a.rail0 receives none"}},
		"nobody counts":     {map[string][]probe.Statistic{"b": {pausesB}}, 9, false, Warn, []string{"a.rail0 does not count whether it receives them"}},
		"a counter appears": {map[string][]probe.Statistic{"a": {stat("rx_prio5_pause?", probe.PauseFrames, false, 5)}}, 9, false, "", nil},
		"pause of the port": {map[string][]probe.Statistic{"a": {stat("rx_global_pause", probe.PauseFrames, false, probe.WholePort)},
			"b": {stat("tx_global_pause!", probe.PauseFrames, true, probe.WholePort)}}, 9, false, Warn, []string{"a switch pauses a.rail0 (9 pause frames)"}},
		"paused for 40 % of the second": {map[string][]probe.Statistic{"a": {pausedA, stat("rx_prio5_pause_duration", probe.PausedMicros, false, 5)}}, 4e5, false, Warn, []string{"pauses a.rail0"}},
		"paused for 60 % of the second": {map[string][]probe.Statistic{"a": {pausedA, stat("rx_prio5_pause_duration", probe.PausedMicros, false, 5)}}, 6e5, false, Fail, []string{"silent for 60 % of the time"}},
		"one packet under two names":    {map[string][]probe.Statistic{"b": {dropsB, stat("rx_prio5_discards", probe.Discards, false, 5)}}, 9, false, Fail, []string{"b.rail0 dropped 9 packets of priority 5 although its class is lossless (rx_prio5_buf_discard 9, rx_prio5_discards 9)"}},
		"a storm by time":               {map[string][]probe.Statistic{"a": {pausedA, stat("rx_prio5_pause_duration", probe.PausedMicros, false, 5)}}, 1e9, false, Fail, []string{"that is a pause storm: a.rail0 had to be silent for 100 % of the time"}},
		"a storm as mlx5 says":          {map[string][]probe.Statistic{"b": {stat("tx_pause_storm_error_events", probe.PauseStorms, true, probe.WholePort)}}, 2, false, Fail, []string{"b.rail0 has reported 2 pause storms of its own"}},
		"drops beside pauses": {map[string][]probe.Statistic{"a": {pausedA}, "b": {pausesB, dropsB}}, 9, false, Fail,
			[]string{"b.rail0 dropped 9 packets of priority 5 although its class is lossless and it pauses the other end: its buffer is full before the pause takes effect (rx_prio5_buf_discard 9)", "more receive buffer"}},
		"drops without pauses":   {map[string][]probe.Statistic{"b": {dropsB}}, 9, false, Fail, []string{"b.rail0 dropped 9 packets of priority 5 although its class is lossless", "switch has PFC"}},
		"drops of another class": {map[string][]probe.Statistic{"b": {stat("rx_prio0_discards", probe.Discards, false, 0)}}, 9, false, Warn, []string{"b.rail0 dropped 9 packets of priority 0"}},
		"drops without a class": {map[string][]probe.Statistic{"b": {stat("rx_discards_phy", probe.Discards, false, probe.WholePort)}}, 9, true, Warn,
			[]string{"b.rail0 dropped 9 packets, and the files declare no class of traffic for it", "declare a lossless class for RDMA in a qos block"}},
		"the NIC marks": {map[string][]probe.Statistic{"b": {stat("rx_prio5_marked", probe.Marked, false, 5)}}, 9, false, Warn, []string{"b.rail0 itself marked 9 packets (ECN)"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newLanes()
			for h, all := range c.rises {
				for _, s := range all {
					if !strings.HasSuffix(s.Name, "?") {
						w.nics[h+"eth0"].more = append(w.nics[h+"eth0"].more, s)
					}
				}
			}
			on(w.fake, probe.SendTCP, func(_ context.Context, h string, s probe.TCPSendSpec) (probe.TCPResult, error) {
				w.move(h, s.Netdev, 1000, 2e6)
				w.carry(h, s.Netdev, s.TrafficClass>>2, 1000)
				time.Sleep(3 * time.Second) // to start both ends and to wait for late counters: the share of pauses is that of the sending
				for _, at := range []string{"a", "b"} {
					n := w.nics[at+"eth0"]
					for i := range n.more {
						if h == "a" && !strings.HasSuffix(n.more[i].Name, "!") {
							n.more[i].Value += c.by
						}
					}
					for _, s := range c.rises[at] {
						if h == "a" && strings.HasSuffix(s.Name, "?") {
							s.Value = c.by
							n.more = append(n.more, s)
						}
					}
				}
				return probe.TCPResult{}, nil
			})
			f := two()
			if f.Links = f.Links[:1]; !c.noClass {
				lossless(f)
			}
			var found []Result
			for _, r := range measure(t, f, w, Options{Only: []Check{CheckTCP}}) {
				if r.Item == Congested {
					found = append(found, r)
				}
			}
			if c.want == "" {
				if len(found) > 0 {
					t.Errorf("%+v", found)
				}
				return
			}
			if len(found) != 1 || found[0].Verdict != c.want {
				t.Fatalf("%+v", found)
			}
			text := found[0].Cause + "; " + found[0].Cure
			for _, m := range found[0].Counters {
				text += fmt.Sprintf("; %s %s %d", m.Port, m.Counter, m.Rise)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in %s", want, text)
				}
			}
		})
	}
}

// TestCongestionIsNamedWhereATestFails: a storm can be the reason.
func TestCongestionIsNamedWhereATestFails(t *testing.T) {
	v, w := lanesOfVerbs()
	v.outcome = perftest.ProgramRun{Exit: 1, Stderr: []byte("Completion with error at client\nFailed status 12: wr_id 0 syndrom 0x81\n")}
	w.nics["aeth0"].more = []probe.Statistic{{Name: "rx_prio5_pause", Counts: probe.PauseFrames, Priority: 5}}
	on(v.fake, probe.RunVerbs, func(ctx context.Context, h string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error) {
		w.nics["aeth0"].more[0].Value += 9
		return v.run(ctx, h, s)
	})
	f := lossless(rdmaFabric())
	f.Links = f.Links[:1]
	named := 0
	for _, r := range measure(t, f, v, Options{Only: []Check{CheckVerbs}}) {
		if r.Item == Congested && strings.Contains(r.Cause, "a switch pauses a.rail0 (9 PFC frames of priority 5)") {
			named++
		}
		if r.Item == ClassCounted {
			t.Errorf("%+v", r)
		}
	}
	if named != 2 {
		t.Errorf("congestion is named in %d directions", named)
	}
}

// TestATestIsMeasuredWithoutPriorities: a driver that cannot be read costs the class and congestion alone.
func TestATestIsMeasuredWithoutPriorities(t *testing.T) {
	v, _ := lanesOfVerbs()
	on(v.fake, probe.ReadPriorities, func(context.Context, string, string) (probe.Priorities, error) {
		return probe.Priorities{}, errors.New("input/output error")
	})
	f := lossless(rdmaFabric())
	f.Links = f.Links[:1]
	got := map[string]int{}
	for _, r := range measure(t, f, v, Options{Only: []Check{CheckTCP, CheckVerbs}}) {
		got[fmt.Sprintf("%s %s %t", r.Item, r.Verdict, strings.Contains(r.Cause, "input/output error"))]++
	}
	if got["throughput pass false"] != 2 || got["perftest pass false"] != 4 || got["class fail true"] != 6 || got["congestion warn true"] != 6 || len(got) != 4 {
		t.Error(got)
	}
}

// TestCNPsAreNamed: marks, the packets that answer them, and who ignores those.
func TestCNPsAreNamed(t *testing.T) {
	for driver, names := range map[string][4]string{"mlx5": {"np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored"},
		"bnxt_re": {"rx_ecn_marked_pkts", "tx_cnp_pkts", "rx_cnp_pkts", "none"}, "irdma": {"RxECNMrkd", "cnpSent", "cnpHandled", "cnpIgnored"}} {
		v, _ := lanesOfVerbs()
		on(v.fake, probe.RunVerbs, func(ctx context.Context, h string, s probe.VerbsRunSpec) (probe.VerbsOutcome, error) {
			if h == "a" {
				v.rdma["brdma0"][names[0]] += 7
				v.rdma["brdma0"][names[1]] += 6
				v.rdma["ardma0"][names[2]] += 5
				v.rdma["ardma0"][names[3]] += 1
			}
			return v.run(ctx, h, s)
		})
		f := rdmaFabric()
		f.Links = f.Links[:1]
		said := ""
		for _, r := range measure(t, f, v, Options{Only: []Check{CheckVerbs}}) {
			if r.Item == Congested {
				said += string(r.Verdict) + ": " + r.Cause + "\n"
			}
		}
		want := "warn: b.rail0 received 7 marked packets (ECN) and sent 6 CNPs, and a.rail0 slowed down for 5"
		if names[3] != "none" {
			want += "; a.rail0 ignored 1 CNP"
		}
		if said != want+"\n"+want+"\n" {
			t.Errorf("%s: %s", driver, said)
		}
	}
}

// TestNCCLsTrafficClassIsJudgedByTheMapOfTheHost, whoever has written it.
func TestNCCLsTrafficClassIsJudgedByTheMapOfTheHost(t *testing.T) {
	off := false
	for name, c := range map[string]struct {
		tc   string
		dcb  *probe.DCB
		qos  *fabric.QoS
		want string
	}{
		"right":           {"160", &probe.DCB{PFC: []int{5}, DSCP: map[int]int{40: 5}}, nil, "pass DSCP 40, priority 5"},
		"with ECN's bits": {"162", &probe.DCB{PFC: []int{5}, DSCP: map[int]int{40: 5}}, nil, "pass DSCP 40, priority 5"},
		"no PFC": {"106", &probe.DCB{PFC: []int{5}, DSCP: map[int]int{26: 3}}, nil,
			"warn DSCP 26, priority 3: NCCL_IB_TC = 106 is DSCP 26, and eth0 leads it to priority 3, which has no PFC: packets are dropped under congestion"},
		"PFC is off": {"160", &probe.DCB{DSCP: map[int]int{40: 5}}, &fabric.QoS{PFC: &off}, "pass DSCP 40, priority 5"},
		"not mapped": {"160", &probe.DCB{PFC: []int{5}, DSCP: map[int]int{26: 3}}, nil, "warn : NCCL_IB_TC = 160 is DSCP 40, and the map of eth0 has no entry for it"},
		"trusts PCP": {"160", &probe.DCB{PFC: []int{5}, TrustsPCP: true}, nil, "warn : NCCL_IB_TC = 160 is DSCP 40, and eth0 trusts the PCP of VLAN tags"},
		"no DCB":     {"160", nil, nil, ""},
		"no class":   {"0", &probe.DCB{}, nil, ""},
	} {
		v, w := lanesOfVerbs()
		w.nics["aeth0"].dcb = c.dcb
		v.snaps["a"].Files = map[string]facts.File{fabric.NCCLConf: {Text: "NCCL_IB_TC=" + c.tc + "\n"}}
		f := rdmaFabric()
		f.Links = f.Links[:1]
		f.Hosts[0].NICs[0].QoS = c.qos
		got := ""
		for _, r := range measure(t, f, v, Options{Only: []Check{CheckNCCL}}) {
			if r.Item == NCCLClass {
				if got = string(r.Verdict) + " " + r.Found; r.Cause != "" {
					got += ": " + r.Cause
				}
			}
		}
		if !strings.HasPrefix(got, c.want) || (c.want == "") != (got == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
