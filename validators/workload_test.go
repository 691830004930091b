package validators

import (
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// longWay is a fabric of two cables whose first is 100 ms long, with Soft-RoCE at both ends.
func longWay(t *testing.T, role string, change func(*fabric.Workload)) (*verbs, *fabric.Fabric) {
	t.Helper()
	v, f := newVerbs(), rdmaFabric()
	for _, s := range v.snaps {
		for i := range s.RDMA {
			s.RDMA[i].Driver = "rxe"
		}
	}
	rtt, jitter, one := 100*time.Millisecond, 5*time.Millisecond, 1.0
	w := &fabric.Workload{Name: "w", Parameters: &one, Precision: "bf16", Sites: 2, StepsPerSync: 1}
	change(w)
	f.Workloads = []*fabric.Workload{w}
	l := f.Links[0]
	l.Role, l.Span = role, fabric.Span{RTT: &rtt, Jitter: &jitter, Workload: "w"}
	for _, l := range f.Links {
		l.Validate.Ping = fabric.PingCheck{Enabled: true, Count: 10}
	}
	v.rtt = 101 * time.Millisecond
	return v, f
}

func ofWorkload(results []Result) (out []Result) {
	for _, r := range results {
		if r.Check == CheckWorkload {
			out = append(out, r)
		}
	}
	return out
}

// TestTheModelStandsBesideTheMeasurement: the rate that 128 packets in flight allow, and a rate above it is not believed.
func TestTheModelStandsBesideTheMeasurement(t *testing.T) {
	for gbps, want := range map[float64]struct {
		verdict Verdict
		share   float64
	}{0.16: {Pass, 96}, 0.3: {Warn, 181}} {
		v, f := longWay(t, "storage", func(*fabric.Workload) {})
		v.gbps = gbps
		all := ofWorkload(measure(t, f, v, Options{}))
		if len(all) != 3 || all[0].Item != DeclaredRTT || all[0].Verdict != Pass {
			t.Fatalf("%+v", all)
		}
		for _, r := range all[1:] {
			if r.Item != RateModel || r.Verdict != want.verdict || !strings.Contains(r.Found, "QPs · packets in flight · MTU / RTT, with 4 · 128 · 4096 B") {
				t.Errorf("%g Gb/s: %s %s", gbps, r.Verdict, r.Found)
			}
			if got := r.Values[2].Value; got < want.share-2 || got > want.share+2 {
				t.Errorf("%g Gb/s are %g %% of %v", gbps, got, r.Values[0])
			}
		}
		if asked := v.asked[len(v.asked)-1].Test; asked.AckTimeout != 15 {
			t.Errorf("perftest's timeout is %d, want 15 (134 ms)", asked.AckTimeout)
		}
	}
}

// TestARateWithLossesIsShownAndNotJudged: the model's mean may be exceeded, as guests did (docs/tested.md), and bounds nothing.
func TestARateWithLossesIsShownAndNotJudged(t *testing.T) {
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	percent := 1.0
	f.Links[0].Loss = &percent
	v.gbps = 0.16
	all := ofWorkload(measure(t, f, v, Options{}))
	if len(all) != 3 {
		t.Fatalf("%+v", all)
	}
	for _, r := range all[1:] {
		if r.Verdict != Skip || r.Skipped != Undecided || !strings.Contains(r.Found, "is about ") || r.Values[1].Value != 0.16 {
			t.Errorf("%+v", r)
		}
	}
}

// TestBoundsAreJudgedByMeasuredValues: a bound that cannot hold over what was measured fails, also where the declared values allow it.
func TestBoundsAreJudgedByMeasuredValues(t *testing.T) {
	limit := func(v float64) func(*fabric.Workload) {
		return func(w *fabric.Workload) { w.MaxStepSeconds = &v }
	}
	for name, c := range map[string]struct {
		change  func(*fabric.Workload)
		verdict Verdict
		cause   string
	}{
		"too far":    {limit(0.09), Fail, "takes at least 101 ms over what was measured"},
		"far enough": {limit(5), Skip, "does not prove it; unknown: step_seconds"},
	} {
		t.Run(name, func(t *testing.T) {
			v, f := longWay(t, "training", c.change)
			all := ofWorkload(measure(t, f, v, Options{}))
			last := all[len(all)-1]
			if last.Item != WorkloadBound || last.Object != "max_step_seconds" || last.Verdict != c.verdict || !strings.Contains(last.Cause, c.cause) {
				t.Errorf("%+v", last)
			}
			if c.verdict == Fail && !strings.Contains(last.Cure, "max_step_seconds = 0.101") {
				t.Errorf("the cure is %q", last.Cure)
			}
		})
	}
}

// TestAMeasuredUpperEndIsNamed: the fastest test bounds the link, and the cause says with how many queue pairs.
func TestAMeasuredUpperEndIsNamed(t *testing.T) {
	v, f := longWay(t, "training", func(w *fabric.Workload) {
		parameters, limit := 1e9, 5.0
		w.Parameters, w.MaxStepSeconds = &parameters, &limit
	})
	v.gbps = 0.01 // far less than the windows allow
	all := ofWorkload(measure(t, f, v, Options{}))
	last := all[len(all)-1]
	if last.Verdict != Fail || !strings.HasSuffix(last.Cause, "over what was measured: at most 10 Mb/s, measured with 4 queue pairs") {
		t.Errorf("%+v", last)
	}
}

// TestNothingIsComputedFromWhatWasNotMeasured: without pings the check says so, and a path without a declaration has no result.
func TestNothingIsComputedFromWhatWasNotMeasured(t *testing.T) {
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	all := ofWorkload(measure(t, f, v, Options{Only: []Check{CheckWorkload}}))
	if len(all) != 1 || all[0].Skipped != NotMeasured || all[0].Subject.Name != f.Links[0].Name {
		t.Errorf("%+v", all)
	}
}

// TestADistanceUnlikeTheDeclaredOneIsNamed: what was judged offline was judged by another one.
func TestADistanceUnlikeTheDeclaredOneIsNamed(t *testing.T) {
	for rtt, want := range map[time.Duration]Verdict{101 * time.Millisecond: Pass, 300 * time.Millisecond: Warn, 20 * time.Millisecond: Warn} {
		v, f := longWay(t, "storage", func(*fabric.Workload) {})
		v.rtt = rtt
		if got := ofWorkload(measure(t, f, v, Options{Only: []Check{CheckPing, CheckWorkload}})); got[0].Item != DeclaredRTT || got[0].Verdict != want {
			t.Errorf("%s: %+v", rtt, got[0])
		}
	}
}
