package widearea

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

func TestRangesAreWrittenAsFarAsTheyAreKnown(t *testing.T) {
	for _, c := range []struct {
		r    Range
		u    Unit
		want string
	}{
		{Exactly(0.0098), Seconds, "9.8 ms"},
		{Range{0.011, 0.013}, Seconds, "11 to 13 ms"},
		{Range{0.9, 1.2}, Seconds, "900 ms to 1.2 s"},
		{atLeast(1.25), Gbps, "at least 1.25 Gb/s"},
		{atMost(0.05), Gbps, "at most 50 Mb/s"},
		{unknown, Bytes, "unknown"},
		{Exactly(4 << 20), Bytes, "4.19 MB"},
		{Exactly(0.001), Share, "0.1 %"},
		{Exactly(2e-6), Seconds, "2 µs"},
		{Exactly(70.6e9), Count, "70600000000"},
		{Exactly(0), Seconds, "0 s"},
		{Exactly(999.9e6), Bytes, "1 GB"},
	} {
		if got := c.r.In(c.u); got != c.want {
			t.Errorf("%v in %q is written %q, want %q", c.r, c.u, got, c.want)
		}
	}
	raw, err := json.Marshal([]Range{atLeast(2), {1, 3}})
	if want := `[{"low":2},{"low":1,"high":3}]`; err != nil || string(raw) != want {
		t.Errorf("JSON: %s %v, want %s", raw, err, want)
	}
}

func TestNothingOfSomethingUnboundedIsNothing(t *testing.T) {
	for _, r := range []Range{unknown.times(Exactly(0)), unknown.over(unknown), Exactly(0).over(Exactly(0)), unknown.times(unknown), unknown.plus(unknown)} {
		if math.IsNaN(r.Low) || math.IsNaN(r.High) || r.Low > r.High {
			t.Errorf("%v", r)
		}
	}
}

func roughly(t *testing.T, what string, got, want float64) {
	t.Helper()
	if math.Abs(got-want) > 0.005*want {
		t.Errorf("%s is %g, want about %g", what, got, want)
	}
}

func TestFiguresOfALongPath(t *testing.T) {
	roughly(t, "the round trip of 1,000 km", Fibre(1000).Value.Low, 9.79e-3)
	p := Path{RTT: Exactly(0.1), Rate: Exactly(10), MTU: 4096, Soft: true}
	roughly(t, "what fills 10 Gb/s over 100 ms", Window(p).Value.High, 125e6)
	roughly(t, "one queue pair of Soft-RoCE", PairRate(p, Exactly(1)).Value.High, 0.0419)
	roughly(t, "four of them", PairRate(p, Exactly(4)).Value.High, 0.168)
	roughly(t, "how many fill it", PairsToFill(p).Value.High, 239)
	roughly(t, "a channel of NCCL", ChannelRate(p, NCCL{Exactly(1), Exactly(1), Exactly(4 << 20), Exactly(1)}).Value.High, 0.336)
	fill := ChannelsToFill(p, DefaultNCCL()).Value
	roughly(t, "how many channels of 4 MiB fill it", fill.High, 30)
	roughly(t, "how many of LL128's buffers", fill.Low, 26)
	roughly(t, "a switch's buffer", LosslessBuffer(p).Value.High, 125e6)
	p.Soft = false
	if got := PairRate(p, Exactly(1)).Value; got.Low != 0 || got.High < 2000 {
		t.Errorf("of a NIC the model knows %v, want only the most that the specification allows", got)
	}
	for rtt, want := range map[time.Duration]int{67 * time.Millisecond: 14, 68 * time.Millisecond: 15, 200 * time.Millisecond: 16, time.Microsecond: 1} {
		if got, ok := Timeout(Exactly(rtt.Seconds())); got != want || !ok {
			t.Errorf("the timeout for %s is %d, want %d", rtt, got, want)
		}
	}
	if got, ok := Timeout(Exactly(3 * 3600)); ok || got != 31 {
		t.Errorf("no timeout exceeds 3 hours, and the model says %d", got)
	}
}

// TestLossesCostRoundTrips: the closed form is that of go-back-N, and with losses of losses the timeout counts.
func TestLossesCostRoundTrips(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: atLeast(0), MTU: 4096, Soft: true, Loss: 0.01}
	w, whole := 128.0, PairRate(p, Exactly(1)).Value.High
	roughly(t, "without timeouts", Goodput(p, Exactly(1)).Value.High, whole*(1-0.01)/(1-0.01+w*0.01))
	p.Timeout = 18 // 1.07 s
	late := Goodput(p, Exactly(1)).Value.High
	roughly(t, "with a timeout of 1.07 s", late, 4096*8e-9/(0.1/w+0.01/0.99*(0.1+0.01*1.0737)))
	if got := Goodput(p, Exactly(1)); !strings.HasPrefix(got.Text(), "about ") || !Predict(p, 1, 128, 1<<20).Mean {
		t.Errorf("a mean is written as a bound: %s", got.Text())
	}
	p.Loss = 0
	if got := Goodput(p, Exactly(1)); got.Mean {
		t.Error("without losses it is a bound")
	}
	roughly(t, "without losses", Goodput(p, Exactly(1)).Value.High, whole)
}

// TestNoVerdictRestsOnMeans: training over a path with losses may be as fast as without them, and as slow as the losses fall.
func TestNoVerdictRestsOnMeans(t *testing.T) {
	p := Path{RTT: Exactly(0.1), Rate: Exactly(100), MTU: 4096, Soft: true}
	n := NCCL{Communicators: Exactly(1), Channels: Exactly(2), Pairs: Exactly(1), Buffer: Exactly(4 << 20)}
	clean, _ := training{p: p, n: n}.rate()
	p.Loss = 0.01
	lossy, figures := training{p: p, n: n}.rate()
	if lossy.Low != 0 || lossy.High != clean.High || clean.High == 0 {
		t.Errorf("without losses %v, with them %v", clean, lossy)
	}
	if last := figures[len(figures)-1]; !last.Mean || last.Value.High >= clean.High {
		t.Errorf("the mean is not shown: %+v", last)
	}
}

func seconds(v float64) *float64 { return &v }

// TestVerdictsAreNoFinerThanTheirInputs: an error needs that no value of the inputs holds, and a tick that all do.
func TestVerdictsAreNoFinerThanTheirInputs(t *testing.T) {
	p := Path{RTT: Exactly(0.02), Rate: Exactly(100), MTU: 4096}
	w := &fabric.Workload{Layers: 80, KVHeads: 8, HeadSize: 128, Tokens: 32768, Sites: 2, MaxFirstTokenSeconds: seconds(2)}
	for _, c := range []struct {
		precision string
		prefill   *float64
		limit     float64
		want      Verdict
	}{
		{"bf16", nil, 2, Undecided}, // nobody knows the prefill
		{"bf16", seconds(1), 2, Holds},
		{"", seconds(1), 2, Undecided}, // 4 bytes may be too many
		{"bf16", seconds(3), 2, Broken},
		{"", nil, 0.1, Broken}, // half a byte is still too many
	} {
		w.Precision, w.PrefillSeconds, w.MaxFirstTokenSeconds = c.precision, c.prefill, seconds(c.limit)
		if b := Work(w, "inference", p, DefaultNCCL()).Bound; b.Verdict != c.want || (b.Verdict == Broken) != (len(b.Would) > 0) {
			t.Errorf("%+v: %s %v, of %s", c, b.Verdict, b.Would, b.Of.Text())
		}
	}
	if e := Work(w, "storage", p, DefaultNCCL()); e.Bound != nil || e.Figures != nil {
		t.Errorf("storage has a part of the workload: %+v", e)
	}
}

// TestUnknownInputsAreNamed: an undecided bound says what to declare, and holds when that is done.
func TestUnknownInputsAreNamed(t *testing.T) {
	interval := time.Hour
	w := &fabric.Workload{Sites: 2, StepsPerSync: 1, MaxStepSeconds: seconds(10), MaxFirstTokenSeconds: seconds(10), CheckpointInterval: &interval}
	p, n := Path{RTT: atLeast(0.02), Rate: atLeast(0), RateBy: "expect_gbps", MTU: 4096, Soft: true}, DefaultNCCL()
	is := func(when, role, want string) {
		t.Helper()
		b := Work(w, role, p, n).Bound
		if got := strings.Join(b.Unknown, ", "); got != want || (b.Verdict == Undecided) != (want != "") {
			t.Errorf("%s, %s: %s, unknown %q, want %q", when, role, b.Verdict, got, want)
		}
	}
	is("nothing declared", "training", "rtt, expect_gbps, parameters, precision, step_seconds, all_reduce, ranks, how many channels NCCL has (NCCL_MIN_CTAS in nccl.env sets the fewest)")
	p.Soft = false
	is("nothing declared", "inference", "rtt, expect_gbps, layers, kv_heads, head_size, tokens, kv_precision, prefill_seconds")
	is("nothing declared", "checkpoint", "rtt, expect_gbps, checkpoint_bytes")
	w.Layers = 80
	is("layers", "inference", "rtt, expect_gbps, kv_heads, head_size, tokens, kv_precision, prefill_seconds")
	w.KVHeads, w.HeadSize, w.Tokens, w.PrefillSeconds = 8, 128, 1000, seconds(1)
	p.RTT, p.Rate = Exactly(0.02), Exactly(100)
	w.Parameters, w.Precision, w.StepSeconds, w.AllReduce, w.Ranks, w.CheckpointBytes = seconds(1e6), "bf16", seconds(1), "ring", 8, seconds(1e9)
	is("all declared", "inference", "")
	is("all declared", "checkpoint", "")
	n.Channels = Exactly(2)
	is("all declared", "training", "how much the NICs have in flight, which is not published")
	p.Soft = true
	is("Soft-RoCE", "training", "")
	w.MaxStepSeconds = seconds(1.05)
	is("a bound between", "training", "how much of the all-reduce hides behind the step")
}

// TestWhatWouldDoDoes: the proposals of a broken bound hold it.
func TestWhatWouldDoDoes(t *testing.T) {
	interval := time.Minute
	w := &fabric.Workload{Name: "llm", Parameters: seconds(70e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, MaxStepSeconds: seconds(5),
		CheckpointBytes: seconds(1e12), CheckpointInterval: &interval}
	p := Path{RTT: Exactly(0.02), Rate: Exactly(100), MTU: 4096}
	b := Work(w, "training", p, DefaultNCCL()).Bound
	if got := strings.Join(b.Would, "; "); got != "max_step_seconds = 11.3; steps_per_sync = 3; a link of 225 Gb/s" {
		t.Fatal(got)
	}
	wide := p
	wide.Rate = Exactly(225)
	later, seldom := *w, *w
	later.MaxStepSeconds, seldom.StepsPerSync = seconds(11.3), 3
	for name, b := range map[string]*Bound{"max_step_seconds": Work(&later, "training", p, DefaultNCCL()).Bound,
		"steps_per_sync": Work(&seldom, "training", p, DefaultNCCL()).Bound, "a link": Work(w, "training", wide, many()).Bound} {
		if b.Verdict == Broken {
			t.Errorf("%s does not do: %s", name, b.Of.Text())
		}
	}
	if b := Work(w, "checkpoint", p, DefaultNCCL()).Bound; strings.Join(b.Would, "; ") != `checkpoint_interval = "80.1s"; a link of 134 Gb/s` {
		t.Error(b.Would)
	}
	// A window binds: the link has the rate, if enough is in flight.
	few := NCCL{Exactly(1), Exactly(2), Exactly(4 << 20), Exactly(1)}
	later.MaxStepSeconds, later.AllReduce = seconds(20), "ring"
	if b := Work(&later, "training", p, few).Bound; b.Verdict != Broken || !strings.Contains(b.Would[2], "which the link has if 140 MB are in flight") {
		t.Error(b.Verdict, b.Would)
	}
	// Nothing but a shorter way helps.
	tiny := &fabric.Workload{Parameters: seconds(1), Precision: "bf16", Sites: 2, StepsPerSync: 1, MaxStepSeconds: seconds(0.01)}
	if b := Work(tiny, "training", p, DefaultNCCL()).Bound; b.Verdict != Broken || !strings.Contains(b.Would[2], "a round trip of 10 ms, which is 1021 km of fibre") {
		t.Error(b.Verdict, b.Would)
	}
}

// many is an NCCL whose buffers are no limit.
func many() NCCL { return NCCL{atLeast(1), Exactly(64), Exactly(1 << 30), Exactly(1)} }

// TestPublishedHandOvers recomputes what others published. DistServe (Zhong et al., OSDI 2024, arXiv:2401.09670, 3.3): the KV cache of
// 512 tokens of OPT-66B is 1.13 GB, and 10 requests a second need 90 Gb/s, both in binary units. Prefill-as-a-Service (Qin et al.,
// arXiv:2604.15039): a prefill instance of MiniMax-M2.5 makes 59.93 Gb/s of KV cache from prompts of 32 k tokens.
func TestPublishedHandOvers(t *testing.T) {
	opt := &fabric.Workload{Precision: "fp16", Layers: 64, KVHeads: 72, HeadSize: 128, Tokens: 512, Sites: 2}
	kv := KVCache(opt).Value
	roughly(t, "OPT-66B in GiB", kv.High/(1<<30), 1.125)
	roughly(t, "ten of them a second in Gibit/s", 10*8*kv.High/(1<<30), 90)

	dense := &fabric.Workload{Precision: "bf16", Layers: 62, KVHeads: 8, HeadSize: 128, Tokens: 32768, Sites: 2}
	p := Path{RTT: Exactly(0.02), Rate: Exactly(100), MTU: 4096}
	hand := Work(dense, "inference", p, DefaultNCCL()).Figures[1].Value
	roughly(t, "32 k tokens over 100 Gb/s, pushed", hand.Low, 0.676)
	roughly(t, "32 k tokens over 100 Gb/s, pulled", hand.High, 0.686)
	roughly(t, "a prefill by the published rate", KVCache(dense).Value.High*8e-9/59.93, 1.11)
}

// TestPublishedTraining: NVIDIA trained Nemotron-4 340B in two data centres about 1,000 km apart with 96 % of the speed of one (Turbocharge
// LLM Training Across Long-Haul Data Center Networks with NVIDIA NeMo Framework, 2025); a step of that model took 8.0 s (technical report
// of Nemotron-4 340B, table 2).
func TestPublishedTraining(t *testing.T) {
	w := &fabric.Workload{Parameters: seconds(340e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, AllReduce: "hierarchical", StepSeconds: seconds(8),
		MaxStepSeconds: seconds(8 / 0.96)}
	p := Path{RTT: Exactly(0.02), Rate: Exactly(1e6), MTU: 4096}
	one := DefaultNCCL()
	one.Communicators = Exactly(1)
	roughly(t, "what NCCL's buffers let through at 20 ms, for one communicator", ChannelRate(p, one).Value.High, 126)
	for gbps, want := range map[float64]Verdict{600: Broken, 800: Undecided} { // the shards' communicators may be as many as it takes
		p.Rate = Exactly(gbps)
		if b := Work(w, "training", p, DefaultNCCL()).Bound; b.Verdict != want || want == Broken && b.Would[2] != "a link of 654 Gb/s" {
			t.Errorf("with %g Gb/s: %s %v, of %s", gbps, b.Verdict, b.Would, b.Of.Text())
		}
	}
	// One ring of all ranks has one communicator.
	w.AllReduce = "ring"
	if b := Work(w, "training", p, DefaultNCCL()).Bound; b.Verdict != Broken {
		t.Errorf("in one ring: %s, of %s", b.Verdict, b.Of.Text())
	}
}

// TestBuffersBindOneCommunicatorAlone: a hierarchical all-reduce has a communicator for each shard, which together fill the link. Those
// of 340e9 parameters in 3,072 ranks need 273 Gb/s for 20 s, which a link of 800 has.
func TestBuffersBindOneCommunicatorAlone(t *testing.T) {
	p := Path{RTT: Exactly(0.02), Rate: Exactly(800), MTU: 4096}
	for _, c := range []struct {
		how   string
		ranks int
		want  Verdict
	}{
		{"hierarchical", 3072, Undecided}, {"", 3072, Undecided}, {"", 0, Undecided}, {"hierarchical", 0, Undecided},
		{"ring", 3072, Broken}, {"hierarchical", 2, Broken}, {"", 2, Broken}, // one communicator: at most 126 Gb/s
	} {
		w := &fabric.Workload{Parameters: seconds(340e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, Ranks: c.ranks, AllReduce: c.how, MaxStepSeconds: seconds(20)}
		if b := Work(w, "training", p, DefaultNCCL()).Bound; b.Verdict != c.want {
			t.Errorf("%+v: %s, of %s", c, b.Verdict, b.By.Sentence())
		}
	}
	soft := p // the queue pairs' windows bind in the same way
	soft.Soft = true
	w := &fabric.Workload{Parameters: seconds(1e9), Precision: "bf16", Sites: 2, StepsPerSync: 1, AllReduce: "hierarchical", Ranks: 16, MaxStepSeconds: seconds(1)}
	if b := Work(w, "training", soft, DefaultNCCL()).Bound; b.Verdict != Undecided {
		t.Errorf("Soft-RoCE: %s, of %s", b.Verdict, b.By.Sentence())
	}
}
