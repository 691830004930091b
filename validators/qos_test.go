package validators

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/probe"
)

// lanesOf is wires whose NICs count by priority, with names as mlx5's.
type lanesOf struct {
	*wires
	mu     sync.Mutex
	nics   map[string]*nicLanes // by host and netdev
	remark int                  // the DSCP that a switch gives to every packet; -1: it keeps them
}

type nicLanes struct {
	dcb   *probe.DCB
	names string // of packets: "%s_prio%d_packets"; "": it does not count
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
		if s.TrafficClass > 0 {
			w.carry(h, s.Netdev, s.TrafficClass>>2, uint64(s.Count))
			w.carry(peer(h), s.Netdev, s.TrafficClass>>2, uint64(s.Count))
		}
		return w.ping(ctx, h, s)
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
	rx.rx[rx.priority(dscp)] += n
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
				probe.Statistic{Name: fmt.Sprintf(n.names, "rx", i), Counts: probe.Packets, Priority: i, Value: n.rx[i]})
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
		"right": {func(*lanesOf) {}, "", 0},
		"the sender's map": {func(w *lanesOf) { w.nics["aeth0"].dcb = &probe.DCB{PFC: []int{5}, DSCP: map[int]int{40: 3}} },
			"on priority 3 of a.rail0: a.rail0 sent them on priority 3: its map leads DSCP 40 to priority 3; run `fabricform plan`, then `fabricform apply`", 2},
		"no map": {func(w *lanesOf) { w.nics["aeth0"].dcb = &probe.DCB{PFC: []int{5}, TrustsPCP: true} },
			"a.rail0 sent them on priority 0: it trusts the PCP of VLAN tags instead of the DSCP", 2},
		"the receiver's map": {func(w *lanesOf) { w.nics["beth0"].dcb = &probe.DCB{PFC: []int{5}, DSCP: map[int]int{48: 6}} },
			"b.rail0 received them on priority 0: its map has no entry for DSCP 40", 2},
		"a switch remarks": {func(w *lanesOf) { w.remark = 48 },
			"they left a.rail0 on priority 5 and came in at b.rail0 on priority 6, whose map leads DSCP 40 to priority 5: a switch between them has changed their DSCP", 4},
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
