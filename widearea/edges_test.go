package widearea

import (
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// summaries are those of a fabric's problems.
func summaries(f *fabric.Fabric) map[string]bool {
	out := map[string]bool{}
	for _, p := range Check(f) {
		out[p.Summary] = true
	}
	return out
}

// TestAtTheEdgeNothingIsBroken: a round trip as long as its limit, a buffer as large as what is under way, and 1 ms are right; a bit more is not.
func TestAtTheEdgeNothingIsBroken(t *testing.T) {
	for name, c := range map[string]struct {
		build func(more time.Duration) *fabric.Fabric
		says  string
	}{
		"max_rtt": {func(more time.Duration) *fabric.Fabric {
			f := trainingAcross(span(0, 20*time.Millisecond+more, 0))
			limit := 20 * time.Millisecond
			f.Links[0].Role, f.Links[0].Validate.Ping.MaxRTT = "storage", &limit
			return f
		}, "Round trip cannot be within max_rtt"},
		"training over 1 ms": {func(more time.Duration) *fabric.Fabric { return trainingAcross(span(0, time.Millisecond+more, 0)) }, "Collectives over a wide area"},
		"max_rtt of 1 ms": {func(more time.Duration) *fabric.Fabric {
			f := trainingAcross(fabric.Span{})
			limit := time.Millisecond + more
			f.Links[0].Validate.Ping.MaxRTT = &limit
			return f
		}, "Collectives over a wide area"},
		"two sites": {func(more time.Duration) *fabric.Fabric {
			f := trainingAcross(span(0, time.Millisecond+more, 0))
			f.Links[0].Role = "inference"
			for _, site := range []string{"a", "b"} { // each trains with another host
				near := &fabric.Host{Name: site + "2", NICs: []*fabric.NIC{{Name: "r", Host: site + "2"}}}
				f.Hosts = append(f.Hosts, near)
				f.Links = append(f.Links, &fabric.Link{Name: site, Role: "training", Endpoints: []fabric.NICRef{{Host: site, NIC: "r"}, {Host: near.Name, NIC: "r"}}})
			}
			return f
		}, "Collectives would cross a wide area unasked"},
		"buffer": {func(more time.Duration) *fabric.Fabric {
			f := trainingAcross(span(0, 5*time.Millisecond+more, 0))
			has, yes := 62.5e6, true // 100 Gb/s · 5 ms
			f.Links[0].Role, f.Links[0].BufferBytes = "storage", &has
			for _, h := range f.Hosts {
				h.NICs[0].QoS = &fabric.QoS{Name: "q", PFC: &yes}
			}
			return f
		}, "Buffer too small for a lossless class"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summaries(c.build(0)); len(got) != 0 {
				t.Errorf("at the edge: %v", got)
			}
			if got := summaries(c.build(time.Millisecond)); !got[c.says] {
				t.Errorf("beyond it: %v", got)
			}
		})
	}
	for at, want := range map[time.Duration]bool{time.Millisecond: false, time.Millisecond + time.Nanosecond: true} {
		if got := Segments(trainingAcross(span(0, at, 0)))[0].Long(); got != want {
			t.Errorf("%s is long: %v", at, got)
		}
	}
}

// TestATimeoutExceedsTheRoundTrip: one that is as long is over when the answer comes.
func TestATimeoutExceedsTheRoundTrip(t *testing.T) {
	for n := 1; n < largestTimeout; n++ {
		if got, ok := Timeout(Exactly(ackTimeout(n))); got != n+1 || !ok {
			t.Errorf("for the timeout of %d: %d %v", n, got, ok)
		}
	}
	if got, ok := Timeout(Exactly(ackTimeout(largestTimeout))); got != largestTimeout || ok {
		t.Errorf("the largest timeout exceeds itself: %d", got)
	}
	if f := RetryTimeout(Path{RTT: Exactly(9000)}); f.Value != unknown || f.Limits != "no timeout exceeds the round trip: the field has five bits" {
		t.Errorf("%+v", f)
	}
}

// TestAtLeastOneFills: a queue pair and a channel are needed, however little is in flight.
func TestAtLeastOneFills(t *testing.T) {
	for _, soft := range []bool{true, false} {
		p := Path{RTT: Exactly(1e-6), Rate: atMost(1e-3), MTU: 4096, Soft: soft}
		if got := PairsToFill(p).Value; got.Low != 1 || soft && got.High != 1 {
			t.Errorf("queue pairs: %v", got)
		}
		if got := ChannelsToFill(p, DefaultNCCL()).Value; got != Exactly(1) {
			t.Errorf("channels: %v", got)
		}
	}
}

// TestTheEndsTogetherBoundAPath: the smaller MTU holds, both hosts' settings of NCCL may, and a device of Soft-RoCE at one end is not two.
func TestTheEndsTogetherBoundAPath(t *testing.T) {
	f := trainingAcross(span(0, 20*time.Millisecond, 0))
	a, b := f.Hosts[0], f.Hosts[1]
	a.NICs[0].MTU = 1500
	a.RXE = []*fabric.RXE{{Name: "rxe0", NIC: a.NICs[0].Ref()}}
	path := func() Path { return Segments(f)[0].Path(f) }
	if p := path(); p.MTU != 1024 || p.Soft {
		t.Errorf("MTU %d, Soft-RoCE %v", p.MTU, p.Soft)
	}
	a.NICs[0].MTU, b.NICs[0].MTU = 9000, 1500
	b.RXE = []*fabric.RXE{{Name: "rxe0", Netdev: "eth2"}}
	if p := path(); p.MTU != 1024 || !p.Soft {
		t.Errorf("MTU %d, Soft-RoCE %v", p.MTU, p.Soft)
	}
	a.NCCL.Env = map[string]string{"NCCL_BUFFSIZE": "8388608", "NCCL_MAX_CTAS": "1000", "NCCL_MIN_CTAS": "2", "NCCL_IB_QPS_PER_CONNECTION": "4"}
	b.NCCL.Env = map[string]string{"NCCL_MAX_CTAS": "4", "NCCL_MIN_CTAS": "8"}
	got := NCCLOf(f, f.Links[0].Endpoints)
	if want := (NCCL{atLeast(1), Range{2, mostChannels}, Range{ncclBuffer, 8388608}, Range{1, 4}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := NCCLOf(f, f.Links[0].Endpoints[1:]).Channels; got != Exactly(4) {
		t.Errorf("more channels at least than at most: %v", got)
	}
}

// TestABoundThatIsMetExactlyHolds: a limit is what may be reached.
func TestABoundThatIsMetExactlyHolds(t *testing.T) {
	judged := func(low, high float64) Verdict {
		return judge("x", 1, Figure{Value: Range{low, high}}, Figure{}, "").Verdict
	}
	for want, of := range map[Verdict][][2]float64{Holds: {{0, 1}, {1, 1}}, Undecided: {{0, 1.1}, {1, 1.1}}, Broken: {{1.1, 2}}} {
		for _, r := range of {
			if got := judged(r[0], r[1]); got != want {
				t.Errorf("%v of 1 is %s, want %s", r, got, want)
			}
		}
	}
}

// TestTheSlowerPartIsNamed: what decides a broken bound is the step or the prefill itself, where they alone take too long.
func TestTheSlowerPartIsNamed(t *testing.T) {
	p := Path{RTT: Exactly(0.02), Rate: Exactly(100), MTU: 4096}
	w := &fabric.Workload{Parameters: seconds(70e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, MaxStepSeconds: seconds(5), StepSeconds: seconds(30),
		KVTokenBytes: seconds(1e6), Tokens: 100_000, MaxFirstTokenSeconds: seconds(5), PrefillSeconds: seconds(30)}
	for role, own := range map[string]string{"training": "training step", "inference": "first token"} {
		if b := Work(w, role, p, DefaultNCCL()).Bound; b.By.Name != own || !b.NoLink || len(b.Would) != 1 || b.Cure() == "" {
			t.Errorf("%s: by %s, %v, %v", role, b.By.Name, b.Would, b.NoLink)
		}
	}
	w.StepSeconds, w.PrefillSeconds = seconds(5), seconds(5) // as long as allowed: another link would do
	for role, part := range map[string]string{"training": "all-reduce, hierarchical", "inference": "hand-over of the KV cache"} {
		if b := Work(w, role, p, DefaultNCCL()).Bound; b.By.Name != part || b.NoLink || len(b.Would) < 2 {
			t.Errorf("%s: by %s, %v, %v", role, b.By.Name, b.Would, b.NoLink)
		}
	}
}

// TestProcessorsThatSendAreNoKnownRate: over Soft-RoCE the link's rate is the most, so a hand-over that fits it is not proven.
func TestProcessorsThatSendAreNoKnownRate(t *testing.T) {
	w := &fabric.Workload{Sites: 2, KVTokenBytes: seconds(1e3), Tokens: 1000, PrefillSeconds: seconds(1), MaxFirstTokenSeconds: seconds(60)}
	p := Path{RTT: Exactly(0.02), Rate: Exactly(100), MTU: 4096, Soft: true}
	if b := Work(w, "inference", p, DefaultNCCL()).Bound; b.Verdict != Undecided || len(b.Unknown) != 1 || b.Unknown[0] != softRate {
		t.Errorf("%s %v", b.Verdict, b.Unknown)
	}
}

// TestFewerTokensAreProposedWhereSomeFit: not a prompt of none.
func TestFewerTokensAreProposedWhereSomeFit(t *testing.T) {
	p := Path{RTT: Exactly(0.02), Rate: Exactly(1), MTU: 4096}
	for tokens, want := range map[int]string{1000: "tokens = 120", 8: ""} { // a token takes 8 ms, or 1 s
		w := &fabric.Workload{Sites: 2, KVTokenBytes: seconds(1e6), Tokens: tokens, MaxFirstTokenSeconds: seconds(0.9701)}
		if tokens == 8 {
			w.KVTokenBytes = seconds(125e6)
		}
		b := Work(w, "inference", p, DefaultNCCL()).Bound
		if got := b.Would[1]; want != "" && got != want || want == "" && got[:6] == "tokens" {
			t.Errorf("%d tokens: %v", tokens, b.Would)
		}
	}
}
