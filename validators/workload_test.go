package validators

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/probe"
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
	v.wires.gbps, v.tcp = 0.5, probe.TCPResult{Segment: 8948, Segments: 10_000, Buffer: 4 << 20}
	return v, f
}

// models are the results of the rate models: those of TCP, and those of perftest.
func models(all []Result) (tcp, rdma []Result) {
	for _, r := range all {
		switch {
		case r.Item == RateModel && r.Object == tcpModel:
			tcp = append(tcp, r)
		case r.Item == RateModel:
			rdma = append(rdma, r)
		}
	}
	return tcp, rdma
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
		_, rdma := models(all)
		if len(all) != 6 || len(rdma) != 2 || all[0].Item != DeclaredRTT || all[0].Verdict != Pass {
			t.Fatalf("%+v", all)
		}
		for _, r := range rdma {
			if r.Verdict != want.verdict || !strings.Contains(r.Found, "QPs · packets in flight · MTU / RTT, with 4 · 128 · 4096 B") {
				t.Errorf("%g Gb/s: %s %s", gbps, r.Verdict, r.Found)
			}
			if got := r.Values[2].Value; got < want.share-2 || got > want.share+2 {
				t.Errorf("%g Gb/s are %g %% of %v", gbps, got, r.Values[0])
			}
		}
		if asked := v.asked[len(v.asked)-1].Test; asked.AckTimeout != 17 {
			t.Errorf("perftest's timeout is %d, want 17 (537 ms, more than four round trips of 101 ms)", asked.AckTimeout)
		}
	}
}

// TestARateWithLossesIsShownAndNotJudged: the model's mean may be exceeded, as guests did (docs/tested.md), and bounds nothing.
func TestARateWithLossesIsShownAndNotJudged(t *testing.T) {
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	percent := 1.0
	f.Links[0].Loss = &percent
	v.gbps, v.tcp.Retransmits = 0.16, 100
	tcp, rdma := models(ofWorkload(measure(t, f, v, Options{})))
	if len(rdma) != 2 || len(tcp) != 2 {
		t.Fatalf("%+v %+v", tcp, rdma)
	}
	for i, r := range append(rdma, tcp...) {
		if r.Verdict != Skip || r.Skipped != Undecided || !strings.Contains(r.Found, "p 1 % declared") || !strings.Contains(r.Found, "is about ") || r.Values[1].Value != []float64{0.16, 0.16, 0.5, 0.5}[i] {
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
	if len(all) != 1 || all[0].Item != "" || all[0].Skipped != NotMeasured || all[0].Subject.Name != f.Links[0].Name {
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

// TestTCPStandsBesideItsModel: streams, buffers and round trip bound TCP, and a rate above that is not believed.
func TestTCPStandsBesideItsModel(t *testing.T) {
	only := Options{Only: []Check{CheckPing, CheckTCP, CheckWorkload}}
	for gbps, want := range map[float64]Verdict{0.5: Pass, 2: Warn} {
		v, f := longWay(t, "storage", func(*fabric.Workload) {})
		v.wires.gbps = gbps
		tcp, _ := models(ofWorkload(measure(t, f, v, only)))
		if len(tcp) != 2 || tcp[0].Host != "a" || tcp[1].Host != "b" {
			t.Fatalf("%+v", tcp)
		}
		for _, r := range tcp {
			if r.Verdict != want || !strings.Contains(r.Found, "4 streams, buffers 2.1 to 4.19 MB, RTT 101 ms, 1 s from 10 segments of 8948 B") || r.Values[1].Value != gbps {
				t.Errorf("%g Gb/s: %+v", gbps, r)
			}
		}
	}
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	v.tcp.Buffer = 0
	if tcp, _ := models(ofWorkload(measure(t, f, v, only))); tcp[0].Verdict != Skip || tcp[0].Skipped != NotMeasured {
		t.Errorf("%+v", tcp)
	}
}

// TestANamespaceLabHasNoDistance, and its links carry what they are limited to: that is no finding about the files.
func TestANamespaceLabHasNoDistance(t *testing.T) {
	v, f := longWay(t, "inference", func(w *fabric.Workload) {
		bytes, limit := 1e6, 60.0
		w.KVTokenBytes, w.Tokens, w.MaxFirstTokenSeconds = &bytes, 1000, &limit
	})
	f.Links[0].ExpectGbps, v.rtt = 25, time.Millisecond
	all := ofWorkload(measure(t, f, v, Options{Lab: true, LabCapGbps: 1, Only: []Check{CheckPing, CheckTCP, CheckWorkload}}))
	if all[0].Item != DeclaredRTT || all[0].Skipped != InLab || !strings.HasPrefix(all[0].Cause, "the cables of a namespace lab have no length") {
		t.Errorf("%+v", all[0])
	}
	tcp, _ := models(all)
	if len(tcp) != 2 || !strings.Contains(tcp[0].Found, "with B 1 Gb/s, ") || tcp[0].Values[0].Value != 1 {
		t.Errorf("%+v", tcp)
	}
	if last := all[len(all)-1]; last.Item != WorkloadBound || !strings.HasSuffix(last.Cause, "unknown: the rate, which the check verbs measures, prefill_seconds") {
		t.Errorf("%+v", last)
	}
}

// TestTheMeasuredLossIsTaken where it is not the declared one, and the figures say which it is.
func TestTheMeasuredLossIsTaken(t *testing.T) {
	few, much, none := 0.5, 20.0, 0.0
	for name, c := range map[string]struct {
		declared     *float64
		lost, resent int
		verdict      Verdict // "": no result
		found, p     string
	}{
		"none":                       {nil, 0, 0, "", "", ""},
		"as declared":                {&few, 2, 50, Pass, "0.0682 to 0.64 % (4 of 800 pings lost)", "p 0.5 % declared"},
		"declared, and not seen":     {&few, 0, 0, Warn, "at most 0.0369 % (0 of 800 pings lost; TCP sent 0 of 10000 segments again)", ""},
		"more than declared":         {&few, 40, 3000, Warn, "", "p 5.13 % measured"},
		"less than declared":         {&much, 40, 3000, Warn, "", "p 5.13 % measured"},
		"declared as none":           {&none, 40, 3000, Warn, "", "p 5.13 % measured"},
		"not declared":               {nil, 40, 3000, Skip, "", "p 5.13 % measured"},
		"pings dropped, and not TCP": {nil, 40, 1, Skip, "at most 0.0557 % (80 of 800 pings lost; TCP sent 1 of 10000 segments again)", "p 0.01 % measured"},
	} {
		t.Run(name, func(t *testing.T) {
			v, f := longWay(t, "storage", func(*fabric.Workload) {})
			v.gbps, v.lost, v.tcp.Retransmits, f.Links[0].Loss = 0.01, c.lost, c.resent, c.declared
			f.Links[0].Validate.Ping.Count, f.Links[0].Validate.Ping.MaxLossPercent = 400, 100
			all := ofWorkload(measure(t, f, v, Options{}))
			said := Result{}
			for _, r := range all {
				if r.Item == DeclaredLoss {
					said = r
				}
			}
			if said.Verdict != c.verdict || !strings.Contains(said.Found, c.found) {
				t.Errorf("%s %q", said.Verdict, said.Found)
			}
			tcp, rdma := models(all)
			for _, r := range append(tcp, rdma...) {
				if strings.Contains(r.Found, ", p ") != (c.p != "") || !strings.Contains(r.Found, c.p) {
					t.Errorf("%s", r.Found)
				}
			}
		})
	}
}

// TestTheMeasuredJitterIsHeldAgainstTheDeclared: more of it is named, in a lab without blame.
func TestTheMeasuredJitterIsHeldAgainstTheDeclared(t *testing.T) {
	for name, c := range map[string]struct {
		varies time.Duration
		o      Options
		want   Verdict
		found  string
	}{
		"none":     {0, Options{}, Pass, "0 s"},
		"as much":  {10 * time.Millisecond, Options{}, Pass, "5 ms"},
		"by hosts": {10100 * time.Microsecond, Options{}, Pass, "5.05 ms"},
		"more":     {11 * time.Millisecond, Options{}, Warn, "5.5 ms"},
		"in a lab": {30 * time.Millisecond, Options{Lab: true}, Skip, "15 ms"},
	} {
		t.Run(name, func(t *testing.T) {
			v, f := longWay(t, "storage", func(*fabric.Workload) {})
			v.varies, c.o.Only = c.varies, []Check{CheckPing, CheckWorkload}
			got := ofWorkload(measure(t, f, v, c.o))[1]
			if got.Item != DeclaredJitter || got.Verdict != c.want || got.Found != c.found || got.Wanted != "at most 5 ms declared" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestWhatTCPSentAgainIsNoLossOfThePath: its streams may have filled a queue themselves, so it lowers the lower end of TCP alone.
func TestWhatTCPSentAgainIsNoLossOfThePath(t *testing.T) {
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	v.gbps, v.tcp.Retransmits = 0.16, 50
	tcp, rdma := models(ofWorkload(measure(t, f, v, Options{})))
	for _, r := range tcp {
		if r.Verdict != Pass || !strings.Contains(r.Found, ", p at most 0.5 % sent again, is ") || r.Values[0].Spread.Min > 0.1 {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range rdma {
		if r.Verdict != Pass || strings.Contains(r.Found, ", p ") {
			t.Errorf("%+v", r)
		}
	}
}

// TestARateWithLossesBoundsNoLink: how many of them fell into the test is not known.
func TestARateWithLossesBoundsNoLink(t *testing.T) {
	v, f := longWay(t, "training", func(w *fabric.Workload) {
		parameters, limit := 1e9, 20.0
		w.Parameters, w.MaxStepSeconds = &parameters, &limit
	})
	percent := 1.0
	v.gbps, v.tcp.Retransmits, f.Links[0].Loss, f.Links[0].ExpectGbps = 0.01, 100, &percent, 100
	all := ofWorkload(measure(t, f, v, Options{}))
	if last := all[len(all)-1]; last.Item != WorkloadBound || last.Verdict != Skip || strings.Contains(last.Cause, "queue pairs") {
		t.Errorf("%+v", last)
	}
}

// TestARateThatNothingBoundsIsNoNumber: JSON has no infinity.
func TestARateThatNothingBoundsIsNoNumber(t *testing.T) {
	v, f := longWay(t, "storage", func(*fabric.Workload) {})
	v.rtt = 0
	all := ofWorkload(measure(t, f, v, Options{Lab: true}))
	tcp, _ := models(all)
	if len(tcp) != 2 || tcp[0].Skipped != Undecided || tcp[0].Cause != "nothing that is known bounds the rate" {
		t.Errorf("%+v", tcp)
	}
	if _, err := json.Marshal(all); err != nil {
		t.Error(err)
	}
}
