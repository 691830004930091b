package validators

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/widearea"
)

// The items and metrics of the check.
const (
	DeclaredRTT   Item = "declared_round_trip"
	RateModel     Item = "rate_model"     // the model's rate beside the measured one
	WorkloadBound Item = "workload_bound" // a bound of the workload, by measured values

	MetricPredicted Metric = "predicted_bandwidth"
	MetricShare     Metric = "share_of_prediction" // what was measured, of what was predicted
	MetricWork      Metric = "work"                // how long the bounded work takes, at least
)

// slack is what a measured rate may be above the predicted one: pings measure the round trip some seconds before.
const slack = 1.02

// workloads holds the model of long links against what the checks before it measured, and judges bounds of workloads by that.
func (r *run) workloads(_ context.Context, trials []*trial) []Result {
	for _, t := range trials {
		s := widearea.SegmentOf(t.path)
		if w := t.fabric.Workload(t.path.Span.Workload); w == nil && widearea.Roundtrip(t.path.Span).Low == 0 {
			continue // nothing is declared about it
		}
		if len(ready([]*trial{t}, CheckWorkload)) > 0 {
			t.workload(s)
		}
	}
	return nil
}

// workload adds the results about one path.
func (t *trial) workload(s widearea.Segment) {
	rtt, known := t.roundTrip()
	if !known {
		t.add(t.both(CheckWorkload, "").skips(NotMeasured, "no round trip was measured: run the check ping, too"))
		return
	}
	t.add(t.declaredRTT(rtt))
	p := s.Path(t.fabric)
	p.RTT = rtt
	if t.options.Lab && t.options.LabCapGbps == 0 { // virtual machines have no link rate
		p.Rate = widearea.Range{High: math.Inf(1)}
	}
	rate := widearea.Range{High: widearea.Exactly(s.Gbps).High}
	if s.Gbps == 0 {
		rate.High = math.Inf(1)
	}
	measured := "" // what bounds the rate
	for _, r := range t.out {
		if r.Check != CheckVerbs || r.Item != PerftestRun || r.Verdict == Skip || r.Unmeasured || !perftest.Test(r.Object).Bandwidth() {
			continue
		}
		model, window := t.rateModel(p, r)
		t.add(model)
		if got := r.Values[0].Value; !t.options.Lab && got > rate.Low {
			if rate.Low, measured = got, ""; !window { // the link or the ends let no more through
				measured = fmt.Sprintf(": at most %s, measured with %d queue pairs", widearea.Exactly(got).In(widearea.Gbps), max(r.Setup.QueuePairs, 1))
			}
		}
	}
	if rate.High = max(rate.High, rate.Low); measured != "" {
		rate.High = rate.Low
	}
	t.bound(s, p, rate, measured)
}

// roundTrip returns the range of the round trips that the ping check measured on the path, in seconds.
func (t *trial) roundTrip() (out widearea.Range, known bool) {
	out.Low = math.Inf(1)
	for _, r := range t.out {
		for _, v := range r.Values {
			if r.Check == CheckPing && r.Item == SmallPing && v.Name == MetricRTT && v.Spread != nil {
				out.Low, out.High, known = min(out.Low, v.Spread.Min/1e6), max(out.High, v.Spread.Max/1e6), true
			}
		}
	}
	return out, known
}

// declaredRTT compares the declared round trip with the measured ones.
func (t *trial) declaredRTT(rtt widearea.Range) Result {
	res := t.both(CheckWorkload, DeclaredRTT)
	want := widearea.Roundtrip(t.path.Span)
	res.Found, res.Wanted = rtt.In(widearea.Seconds), want.In(widearea.Seconds)+" declared"
	switch {
	case want.Low == 0:
		return res.skips(NotDeclared, "no rtt or distance_km declared")
	case rtt.High < want.Low:
		res.Verdict, res.Cause = Warn, "shorter than declared: what was judged offline is too strict"
	case rtt.Low > want.High && t.options.Lab:
		return res.skips(InLab, "longer than declared: emulated machines answer late, or the cable has a fault")
	case rtt.Low > want.High:
		res.Verdict, res.Cause = Warn, "longer than declared: what was judged offline is too mild"
	}
	if res.Verdict == Warn {
		res.Cure = "correct rtt, jitter or distance_km"
	}
	return res
}

// rateModel compares the rate of a bandwidth test with the model's. window reports whether the test's own windows explain the rate.
func (t *trial) rateModel(p widearea.Path, measured Result) (res Result, window bool) {
	res = t.result(CheckWorkload, RateModel, measured.Host, measured.Peer)
	res.Object = measured.Object
	setup, got := measured.Setup, measured.Values[0].Value
	p.MTU, p.Timeout = setup.RDMAMTU, cmp.Or(setup.AckTimeout, perftest.DefaultAckTimeout)
	p.Soft = t.soft(measured.Host, setup) && t.soft(measured.Peer, setup)
	f := widearea.Predict(p, max(setup.QueuePairs, 1), perftest.TxDepth, int(setup.MessageBytes))
	share := 100 * got / f.Value.High
	res.Found = f.Sentence()
	res.Values = []Measurement{
		{Name: MetricPredicted, Value: f.Value.High, Unit: Gbps, Spread: &Spread{Min: f.Value.Low, Max: f.Value.High}},
		{Name: MetricBandwidth, Value: got, Unit: Gbps}, {Name: MetricShare, Value: share, Unit: Percent}}
	if f.Mean {
		return res.skips(Undecided, "with losses the model gives a mean, which is neither reached nor broken"), true
	}
	if got > slack*f.Value.High {
		res.Verdict = Warn
		res.Cause = "more than the model allows: it does not hold here, because the round trip changed, the link has more than declared, or the ends have more in flight than it knows"
	}
	return res, got >= f.Value.Low/slack
}

// soft reports whether a device that a test used on a host is Soft-RoCE.
func (t *trial) soft(host string, s *Setup) bool {
	for _, d := range t.snapshots[host].RDMA {
		if d.Name == s.From.Device || d.Name == s.To.Device {
			return d.Driver == facts.SoftRoCE
		}
	}
	return false
}

// bound judges the bound of the workload over the path. measured says which measurement bounds the rate; "" if none does.
func (t *trial) bound(s widearea.Segment, p widearea.Path, rate widearea.Range, measured string) {
	w := t.fabric.Workload(t.path.Span.Workload)
	if w == nil {
		return
	}
	p.Rate = rate
	b := widearea.Work(w, s.Role, p, widearea.NCCLOf(t.fabric, s.NICs)).Bound
	if b == nil {
		return
	}
	res := t.both(CheckWorkload, WorkloadBound)
	res.Object, res.Found = b.Attribute, b.By.Sentence()
	res.Values = []Measurement{{Name: MetricWork, Value: b.Of.Value.Low, Unit: Seconds, Threshold: atMost(b.Seconds)}}
	switch b.Verdict {
	case widearea.Broken:
		res = res.fails("the "+b.Of.Name+" takes "+b.Of.Text()+" over what was measured"+measured, b.Cure())
	case widearea.Undecided:
		res = res.skips(Undecided, "the "+b.Of.Name+" takes "+b.Of.Text()+": that can hold, but what was measured and declared does not prove it; "+b.Open())
	}
	t.add(res)
}
