package validators

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
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

// wires is a fleet of two hosts in memory: carries says which NIC of which host a packet leaves by
// and arrives at, whatever was asked for.
type wires struct {
	rtt, varies time.Duration // of pings, and how much longer the slowest takes; 0: 1 ms
	fake
	mu       sync.Mutex
	snaps    map[string]*facts.Snapshot
	counters map[string]*probe.Counters
	carries  func(from, netdev string) (tx, rxHost, rx string)
	answers  bool
	gbps     float64
	tcp      probe.TCPResult // besides: what the sender's kernel says, and the buffers of both ends
	lost     int             // of the small pings of each request
}

func newWires() *wires {
	w := &wires{fake: fake{}, snaps: map[string]*facts.Snapshot{}, counters: map[string]*probe.Counters{}, answers: true, gbps: 24}
	for _, h := range []string{"a", "b"} {
		s := &facts.Snapshot{}
		for i, n := range []string{"eth0", "eth1"} {
			s.Links = append(s.Links, host.Link{Index: i + 1, Name: n, MTU: 9000, Up: true, Carrier: true, SpeedMbps: 25000})
			s.Addrs = append(s.Addrs, host.Addr{Index: i + 1, Prefix: netip.MustParsePrefix(railAddress[h+n[3:]])})
			w.counters[h+n] = &probe.Counters{}
		}
		w.snaps[h] = s
	}
	w.carries = func(from, netdev string) (string, string, string) { return netdev, peer(from), netdev }
	on(w.fake, probe.Ping, w.ping)
	on(w.fake, probe.ReadCounters, w.readCounters)
	on(w.fake, probe.ReadPriorities, func(context.Context, string, string) (probe.Priorities, error) { return probe.Priorities{}, nil })
	on(w.fake, probe.ListenTCP, func(context.Context, string, probe.TCPListenSpec) (probe.TCPListenResult, error) {
		return probe.TCPListenResult{ID: "x", Port: 40001}, nil
	})
	on(w.fake, probe.SendTCP, func(_ context.Context, h string, s probe.TCPSendSpec) (probe.TCPResult, error) {
		w.move(h, s.Netdev, 1000, 2e6)
		sent := w.tcp
		sent.Congestion = "cubic"
		return sent, nil
	})
	on(w.fake, probe.CollectTCP, func(context.Context, string, string) (probe.TCPResult, error) {
		return probe.TCPResult{Bytes: 1e6, Gbps: w.gbps, Streams: 4, Elapsed: time.Second, Buffer: w.tcp.Buffer}, nil
	})
	return w
}

func peer(h string) string {
	if h == "a" {
		return "b"
	}
	return "a"
}

// move counts packets on the port that they leave by and on the one where they arrive.
func (w *wires) move(from, netdev string, packets, bytes uint64) (rxHost, rx string) {
	tx, rxHost, rx := w.carries(from, netdev)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counters[from+tx].TxPackets += packets
	w.counters[from+tx].TxBytes += bytes
	w.counters[rxHost+rx].RxPackets += packets
	w.counters[rxHost+rx].RxBytes += bytes
	return rxHost, rx
}

func (w *wires) Snapshot(_ context.Context, h string) (*facts.Snapshot, error) {
	return w.snaps[h], nil
}

func (w *wires) ping(_ context.Context, h string, s probe.PingSpec) (out []probe.PingResult, err error) {
	for range s.Targets {
		n := uint64(s.Count)
		rxHost, rx := w.move(h, s.Netdev, n, n*uint64(s.Size+42))
		r := probe.PingResult{Sent: s.Count}
		if w.answers {
			w.move(rxHost, rx, n, n*uint64(s.Size+42))
			r.Received, r.Avg = s.Count, time.Millisecond
			if !s.DontFragment {
				r.Received -= w.lost
			}
			if w.rtt > 0 {
				r.Min, r.Avg, r.Max = w.rtt, w.rtt, w.rtt+w.varies
			}
		}
		out = append(out, r)
	}
	return out, nil
}

func (w *wires) readCounters(_ context.Context, h, netdev string) (probe.Counters, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return *w.counters[h+netdev], nil
}

// railAddress is the address of each NIC, by host and number.
var railAddress = map[string]string{"a0": "192.168.88.1/30", "b0": "192.168.88.2/30", "a1": "192.168.88.5/30", "b1": "192.168.88.6/30"}

// two is note 000's fabric: two hosts, two cables.
func two() *fabric.Fabric {
	f := &fabric.Fabric{Name: "two"}
	on := fabric.Validate{Ping: fabric.PingCheck{Enabled: true, Count: 5}, TCP: fabric.TCPCheck{Enabled: true, Duration: time.Second, Streams: 4}}
	for _, h := range []string{"a", "b"} {
		host := &fabric.Host{Name: h}
		for _, i := range []string{"0", "1"} {
			host.NICs = append(host.NICs, &fabric.NIC{Name: "rail" + i, Host: h, Netdev: "eth" + i, MTU: 9000, AddressesSet: true,
				Addresses: []netip.Prefix{netip.MustParsePrefix(railAddress[h+i])}})
		}
		f.Hosts = append(f.Hosts, host)
	}
	for _, n := range []string{"rail0", "rail1"} {
		f.Links = append(f.Links, &fabric.Link{Name: n, Role: "training", Endpoints: []fabric.NICRef{{Host: "a", NIC: n}, {Host: "b", NIC: n}}, SpeedGbps: 25, Validate: on})
	}
	return f
}

// measure runs the checks in a bubble whose clock jumps, so that patience costs no time.
func measure(t *testing.T, f *fabric.Fabric, fleet Fleet, o Options) (out []Result) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { out = Run(t.Context(), f, fleet, o) })
	return out
}

// failed are the failures, as "link check: values: cause; cure".
func failed(results []Result) string {
	var out strings.Builder
	for _, r := range results {
		if r.Verdict == Fail {
			fmt.Fprintf(&out, "%s %s: %s: %s; %s\n", cmp.Or(r.Subject.Path, r.Subject.Name), r.Check, values(r), r.Cause, r.Cure)
		}
	}
	return out.String()
}

// values are what a result found and measured.
func values(r Result) string {
	var out []string
	if r.Unmeasured {
		out = append(out, "unmeasured")
	}
	if r.Found != "" {
		out = append(out, r.Found)
	}
	for _, f := range r.FoundOn {
		out = append(out, fmt.Sprintf("%s on %s", cmp.Or(f.Value, "none"), strings.Join(f.Hosts, " ")))
	}
	for _, v := range r.Values {
		text := fmt.Sprintf("%s %.4g", v.Name, v.Value)
		if v.Of != "" {
			text = v.Of + " " + text
		}
		if v.OutOf > 0 {
			text += fmt.Sprintf(" of %g", v.OutOf)
		}
		if v.MessageBytes > 0 {
			text += fmt.Sprintf(" at %d B", v.MessageBytes)
		}
		if t := v.Threshold; t != nil {
			for sign, bound := range map[string]*float64{"≥": t.AtLeast, "≤": t.AtMost, "=": t.Exactly} {
				if bound != nil {
					text += fmt.Sprintf(" %s %.4g", sign, *bound)
				}
			}
			text += strings.TrimRight(" "+string(t.NotJudged), " ")
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestAWholeFabricPasses(t *testing.T) {
	results := measure(t, two(), newWires(), Options{})
	if got := failed(results); got != "" {
		t.Fatal(got)
	}
	if len(results) < 20 {
		t.Fatalf("only %d results", len(results))
	}
}

func TestTwoCablesInOneSubnetCannotPass(t *testing.T) {
	w := newWires()
	// As note 000 had it: every packet leaves and arrives on the first cable, and is answered.
	w.carries = func(from, _ string) (string, string, string) { return "eth0", peer(from), "eth0" }
	got := failed(measure(t, two(), w, Options{}))
	if strings.Contains(got, "rail0 ping") || strings.Contains(got, "rail0 tcp") || strings.Count(got, "not over this cable") != 4 {
		t.Fatalf("rail1's pings and throughput must fail in both directions, and only they:\n%s", got)
	}
}

func TestSwappedCablesAreNamed(t *testing.T) {
	w := newWires()
	w.answers = false
	w.carries = func(from, netdev string) (string, string, string) {
		return netdev, peer(from), map[string]string{"eth0": "eth1", "eth1": "eth0"}[netdev]
	}
	got := failed(measure(t, two(), w, Options{Only: []Check{CheckPing}}))
	if !strings.Contains(got, "arrived at b.rail1: the cables of b.rail0 and b.rail1 are swapped") || !strings.Contains(got, "rail1 ping") {
		t.Fatal(got)
	}
}

func TestLinkNamesWhatIsWrong(t *testing.T) {
	w := newWires()
	w.snaps["b"].Links[0].Carrier = false
	w.snaps["a"].Links[1].MTU = 1500
	w.snaps["b"].Links[1].SpeedMbps = 10000
	got := failed(measure(t, two(), w, Options{Only: []Check{CheckLink}}))
	for _, want := range []string{"rail0 link: no carrier", "tx and rx fibres are swapped", "a.rail1 mtu 1500, b.rail1 mtu 9000", "rail1 link: link_speed 10 = 25"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
}

func TestThroughputIsJudgedAgainstTheDeclaredSpeed(t *testing.T) {
	w := newWires()
	w.gbps = 20
	if got := failed(measure(t, two(), w, Options{Only: []Check{CheckTCP}})); strings.Count(got, "slower than declared") != 4 {
		t.Fatal(got)
	}
	w.gbps = 0.95
	results := measure(t, two(), w, Options{Only: []Check{CheckTCP}, Lab: true, LabCapGbps: 1})
	if to := results[0].Values[0].Threshold; failed(results) != "" || to.DeclaredGbps != 25 || to.LabGbps != 1 || *to.AtLeast != 0.9 {
		t.Fatalf("%s %+v", failed(results), to)
	}
}

func TestAnUnreachableHostsLinksAreSkippedWithTheReason(t *testing.T) {
	for _, r := range measure(t, two(), newWires(), Options{Unreachable: map[string]string{"b": "no answer"}}) {
		if r.Subject.Kind == SubjectLink && (r.Verdict != Skip || r.Skipped != HostUnreachable || !strings.Contains(r.Cause, "no answer")) {
			t.Fatalf("%+v", r)
		}
	}
}
