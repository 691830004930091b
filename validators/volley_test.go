package validators

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/probe"
)

// segment is hosts on one switch, in memory.
type segment struct {
	fake
	mu       sync.Mutex
	fabric   *fabric.Fabric
	extra    map[string]netip.Addr               // further addresses, by host
	takes    func(from string, to string) string // which host a packet to a host arrives at; "": none
	lag      time.Duration                       // of the counters
	moves    []move
	requests int
	reach    bool
	dup      string // pair whose answers come twice
	loses    string // pair of which one answer is lost
}

type move struct {
	at   time.Time
	host string
	tx   bool
	n    uint64
	size int
}

func newSegment(hosts int) *segment {
	f := &fabric.Fabric{Name: "net"}
	n := &fabric.Network{Name: "rail", Validate: fabric.Validate{Pairs: "all", Ping: fabric.PingCheck{Enabled: true, Count: 5}}}
	for i := range hosts {
		name := fmt.Sprintf("h%02d", i)
		nic := &fabric.NIC{Name: "rail", Host: name, Netdev: "eth0", Addresses: []netip.Prefix{netip.PrefixFrom(address(i), 24)}}
		f.Hosts = append(f.Hosts, &fabric.Host{Name: name, NICs: []*fabric.NIC{nic}})
		n.Members = append(n.Members, nic.Ref())
	}
	f.Networks = []*fabric.Network{n}
	s := &segment{fake: fake{}, fabric: f, extra: map[string]netip.Addr{}, takes: func(_, to string) string { return to }}
	on(s.fake, probe.Ping, s.ping)
	on(s.fake, probe.ReadCounters, s.readCounters)
	return s
}

func address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}) }

func (s *segment) Snapshot(_ context.Context, h string) (*facts.Snapshot, error) {
	var i int
	_, err := fmt.Sscanf(h, "h%d", &i)
	snap := &facts.Snapshot{Links: []host.Link{{Index: 1, Name: "eth0", MTU: 9000, Up: true, Carrier: true}},
		Addrs: []host.Addr{{Index: 1, Prefix: netip.PrefixFrom(address(i), 24)}}}
	if a, has := s.extra[h]; has {
		snap.Addrs = append(snap.Addrs, host.Addr{Index: 1, Prefix: netip.PrefixFrom(a, 24)})
	}
	return snap, err
}

func (s *segment) ping(_ context.Context, from string, p probe.PingSpec) (out []probe.PingResult, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	for _, t := range p.Targets {
		to := s.fabric.Hosts[t.As4()[3]-1].Name
		there := s.takes(from, to)
		r := probe.PingResult{Sent: p.Count}
		s.count(from, true, p)
		if there != "" {
			s.count(there, false, p)
			s.count(there, true, p)
			s.count(from, false, p)
			r.Received = p.Count
		}
		if s.loses == from+to && p.Count > 1 {
			r.Received--
		}
		if s.dup == from+to {
			r.Duplicates = 1
		}
		out = append(out, r)
	}
	return out, nil
}

func (s *segment) count(host string, tx bool, p probe.PingSpec) {
	s.moves = append(s.moves, move{time.Now().Add(s.lag), host, tx, uint64(p.Count), p.Size + 42})
}

func (s *segment) readCounters(_ context.Context, h, _ string) (c probe.Counters, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.moves {
		switch {
		case m.host != h || m.at.After(time.Now()):
		case m.tx:
			c.TxPackets, c.TxBytes = c.TxPackets+m.n, c.TxBytes+m.n*uint64(m.size)
		default:
			c.RxPackets, c.RxBytes = c.RxPackets+m.n, c.RxBytes+m.n*uint64(m.size)
		}
	}
	return c, nil
}

// pings runs the pings of the segment and answers with the failures, and how long it took.
func (s *segment) pings(t *testing.T) (results []Result, failures string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		results = Run(t.Context(), s.fabric, s, Options{Only: []Check{CheckPing}, Reach: s.reach})
		took = time.Since(start)
	})
	return results, failed(results), took
}

func TestAllPairsArePingedAtOnce(t *testing.T) {
	s := newSegment(16)
	results, failures, took := s.pings(t)
	if failures != "" || len(results) != 16*15*2 {
		t.Fatalf("%d results; failures: %s", len(results), failures)
	}
	// Each host is asked thrice: to find its peers, small packets, full-size ones.
	if s.requests != 16*3 || took != 0 {
		t.Errorf("%d requests, %s", s.requests, took)
	}
}

// TestReachTakesNoFullSizePackets: hosts of which one has its new MTU already lose them, and each loss is waited for.
func TestReachTakesNoFullSizePackets(t *testing.T) {
	s := newSegment(4)
	s.reach, s.dup = true, "h00h01" // this pair is measured alone, too
	results, failures, _ := s.pings(t)
	if failures != "" || len(results) != 4*3 {
		t.Errorf("%d results; failures: %s", len(results), failures)
	}
	if i := slices.IndexFunc(s.moves, func(m move) bool { return m.size > 1500 }); i >= 0 {
		t.Errorf("a packet of %d bytes was sent", s.moves[i].size)
	}
}

func TestTwoHostsThatAnswerForEachOtherAreNotProven(t *testing.T) {
	s := newSegment(6)
	// What is meant for h01 arrives at h02 and the other way round: every port moves as many packets
	// as it must.
	s.extra["h01"], s.extra["h02"] = address(2), address(1)
	s.takes = func(_, to string) string {
		switch to {
		case "h01":
			return "h02"
		case "h02":
			return "h01"
		}
		return to
	}
	_, failures, _ := s.pings(t)
	if strings.Count(failures, "packets_received 5 of 5") != 2*5 || strings.Count(failures, "not over this cable") != 2*5 {
		t.Fatalf("from all other hosts to each of the two must fail:\n%s", failures)
	}
}

func TestAnAddressThatAnotherHostHasIsFound(t *testing.T) {
	s := newSegment(6)
	s.takes = func(from, to string) string {
		if from == "h03" && to == "h01" {
			return "h02"
		}
		return to
	}
	_, failures, _ := s.pings(t)
	if failures != "rail:h01-h03 ping: packets_received 5 of 5, packet_loss 0 ≤ 0, round_trip_time 0, round_trip_time_max 0: answered, but not over this cable: h03.rail sent 5 packets and h01.rail received 0; \n" {
		t.Fatal(failures)
	}
}

func TestLossesDoNotHideWhatIsMissing(t *testing.T) {
	s := newSegment(6)
	s.loses = "h00h01"
	s.takes = func(from, to string) string {
		if from == "h03" && to == "h01" {
			return "h02"
		}
		return to
	}
	_, failures, _ := s.pings(t)
	if strings.Count(failures, "\n") != 2 || !strings.Contains(failures, "rail:h00-h01 ping: packets_received 4 of 5") || !strings.Contains(failures, "rail:h01-h03 ping: packets_received 5 of 5") {
		t.Fatal(failures)
	}
}

func TestLateCountersProveInTheEnd(t *testing.T) {
	s := newSegment(8)
	s.lag = time.Second
	if _, failures, _ := s.pings(t); failures != "" {
		t.Fatal(failures)
	}
	if s.requests > 8*5 {
		t.Errorf("%d requests: measured alone", s.requests)
	}
	s = newSegment(8)
	s.lag = time.Second
	s.takes = func(from, to string) string {
		if from == "h03" && to == "h01" {
			return "h02"
		}
		return to
	}
	if _, failures, _ := s.pings(t); strings.Count(failures, "\n") != 1 || !strings.Contains(failures, "rail:h01-h03 ping: packets_received 5 of 5") {
		t.Fatal(failures)
	}
}

func TestADeadHostInALargeNetworkTakesSeconds(t *testing.T) {
	s := newSegment(32)
	s.takes = func(from, to string) string {
		if from == "h07" || to == "h07" {
			return ""
		}
		return to
	}
	results, failures, took := s.pings(t)
	if n := strings.Count(failures, "\n"); n != 2*31+1 {
		t.Errorf("%d failures:\n%s", n, failures)
	}
	if last := results[len(results)-1]; last.Check != CheckCulprit || last.Host != "h07" {
		t.Errorf("the culprit is not named: %+v", last)
	}
	if took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
}

func TestAnswersThatComeTwiceAreMeasuredAlone(t *testing.T) {
	s := newSegment(3)
	s.dup = "h00h01"
	if _, failures, _ := s.pings(t); failures != "" {
		t.Fatal(failures)
	}
	if s.requests == 3*3 {
		t.Error("proven by counters that duplicates moved")
	}
}

func TestSwappedRailsWhoseHostsAnswerAreNotProven(t *testing.T) {
	w := newWires()
	w.carries = func(from, netdev string) (string, string, string) {
		return netdev, peer(from), map[string]string{"eth0": "eth1", "eth1": "eth0"}[netdev]
	}
	if got := failed(measure(t, two(), w, Options{Only: []Check{CheckPing}})); strings.Count(got, "not over this cable") != 4 {
		t.Fatal(got)
	}
}
