package validators

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/widearea"
)

// The items and metrics of the check.
const (
	DeclaredRTT    Item = "declared_round_trip"
	DeclaredJitter Item = "declared_jitter"
	DeclaredLoss   Item = "declared_loss"
	RateModel      Item = "rate_model"     // the model's rate beside the measured one
	WorkloadBound  Item = "workload_bound" // a bound of the workload, by measured values

	MetricPredicted Metric = "predicted_bandwidth"
	MetricShare     Metric = "share_of_prediction" // what was measured, of what was predicted
	MetricWork      Metric = "work"                // how long the bounded work takes, at least
)

const (
	// slack is what a measured rate may be above the predicted one: pings measure the round trip some seconds before.
	slack = 1.02
	// hostJitter is how much the hosts themselves may vary a round trip.
	hostJitter = 100 * time.Microsecond
	// tcpModel is the object of a rate model of TCP; others are tests of perftest.
	tcpModel = "TCP"
)

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
	p := s.Path(t.fabric)
	p.RTT = rtt
	t.add(t.declaredRTT(rtt))
	if t.path.Span.Jitter != nil {
		t.add(t.declaredJitter(rtt))
	}
	p = t.losses(p)
	switch labCap := t.options.LabCapGbps; {
	case t.options.Lab && labCap == 0: // virtual machines have no link rate
		p.Rate = widearea.Range{High: math.Inf(1)}
	case t.options.Lab && p.Rate.High > labCap:
		p.Rate = widearea.Exactly(labCap)
	}
	rate := widearea.Range{High: s.Gbps}
	if s.Gbps == 0 {
		rate.High = math.Inf(1)
	}
	p.RateBy = "the rate, which the check verbs measures"
	measured := "" // what bounds the rate
	for _, r := range t.out {
		if r.Check == CheckTCP && r.Item == Throughput && len(r.Values) > 0 {
			t.add(t.tcpModel(p, r))
		}
		if r.Check != CheckVerbs || r.Item != PerftestRun || len(r.Values) == 0 || !perftest.Test(r.Object).Bandwidth() {
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
	case rtt.High < want.Low && t.options.Lab && t.options.LabCapGbps > 0:
		return res.skips(InLab, "the cables of a namespace lab have no length; those of virtual machines (lab up -backend vm) have the declared one")
	case rtt.High < want.Low:
		res.Verdict, res.Cause = Warn, "shorter than declared: the judgement offline was too strict"
	case rtt.Low > want.High && t.options.Lab:
		return res.skips(InLab, "the round trip is longer than declared: emulated machines answer late, or the cable has a fault")
	case rtt.Low > want.High:
		res.Verdict, res.Cause = Warn, "longer than declared: the judgement offline was too lenient"
	}
	if res.Verdict == Warn {
		res.Cure = "correct rtt, jitter or distance_km"
	}
	return res
}

// declaredJitter compares the declared jitter with the measured one: half of the way from the shortest round trip to the longest.
func (t *trial) declaredJitter(rtt widearea.Range) Result {
	res := t.both(CheckWorkload, DeclaredJitter)
	want := *t.path.Span.Jitter
	got := time.Duration((rtt.High - rtt.Low) / 2 * float64(time.Second))
	res.Found, res.Wanted = widearea.Exactly(got.Seconds()).In(widearea.Seconds), "at most "+widearea.Exactly(want.Seconds()).In(widearea.Seconds)+" declared"
	switch {
	case got <= want+hostJitter:
	case t.options.Lab:
		return res.skips(InLab, "the jitter is more than declared: emulated machines answer late, or the cable has a fault")
	default:
		res.Verdict, res.Cause, res.Cure = Warn, "more than declared: retry timeouts and bounds were chosen for less", "correct jitter"
	}
	return res
}

// losses holds the declared loss against the measured one, on a path whose pings were answered. It returns the path with the loss that the
// model takes: the declared one as long as what was measured allows it, the measured one otherwise. Where no loss is declared and no
// ping was lost, there is none.
func (t *trial) losses(p widearea.Path) widearea.Path {
	lost, sent := 0, 0
	var most, mostly float64 // share of segments that TCP sent again, at most and likely: as many are lost, or fewer
	var again string         // by which
	for _, r := range t.out {
		for _, v := range r.Values {
			switch {
			case r.Item == SmallPing && v.Name == MetricPackets:
				lost, sent = lost+int(v.OutOf-v.Value), sent+int(v.OutOf)
			case r.Item == Throughput && v.Name == MetricRetransmits && v.OutOf > 0:
				if got, likely := widearea.LossOf(int(min(v.Value, v.OutOf)), int(v.OutOf), 1); got.High > most {
					most, mostly, again = got.High, likely, fmt.Sprintf("; TCP sent %g of %g segments again", v.Value, v.OutOf)
				}
			}
		}
	}
	got, likely := widearea.LossOf(lost, sent, 2)
	how := fmt.Sprintf("%d of %d pings lost", lost, sent)
	if most > 0 && most < got.High {
		if got.Low > most {
			got.Low = 0 // something drops pings alone
		}
		got.High, likely, how = most, min(likely, mostly), how+again
	}
	declared := t.path.Span.Loss
	if declared == nil && lost == 0 {
		return p
	}
	res := t.both(CheckWorkload, DeclaredLoss)
	res.Found = got.In(widearea.Share) + " (" + how + ")"
	if declared != nil {
		res.Wanted = widearea.Exactly(p.Loss).In(widearea.Share) + " declared"
	}
	if declared != nil && got.Low <= p.Loss && p.Loss <= got.High {
		t.add(res)
		return p
	}
	p.Loss, p.LossBy = likely, "measured"
	const taken = "the model takes the measured loss"
	switch {
	case declared == nil:
		res = res.skips(NotDeclared, "no loss declared: "+taken)
	case t.options.Lab:
		res = res.skips(InLab, "the loss is not as declared: emulated machines drop packets, or the cable has a fault; "+taken)
	default:
		res.Verdict, res.Cause, res.Cure = Warn, "not as declared; "+taken, "correct loss, or find what drops packets"
	}
	t.add(res)
	return p
}

// rateModel compares the rate of a bandwidth test with the model's. window reports whether the test's own windows explain the rate.
func (t *trial) rateModel(p widearea.Path, measured Result) (res Result, window bool) {
	res = t.result(CheckWorkload, RateModel, measured.Host, measured.Peer)
	res.Object = measured.Object
	setup, got := measured.Setup, measured.Values[0].Value
	p.MTU, p.Timeout = setup.RDMAMTU, cmp.Or(setup.AckTimeout, perftest.DefaultAckTimeout)
	p.Soft = t.soft(measured.Host, setup) && t.soft(measured.Peer, setup)
	f := widearea.Predict(p, max(setup.QueuePairs, 1), perftest.TxDepth, int(setup.MessageBytes))
	return res.beside(f, got), f.Mean || got >= f.Value.Low/slack
}

// tcpModel compares the rate of TCP streams with the model's.
func (t *trial) tcpModel(p widearea.Path, measured Result) Result {
	res := t.result(CheckWorkload, RateModel, measured.Host, measured.Peer)
	res.Object = tcpModel
	s, model := measured.Setup, widearea.TCP{}
	for _, v := range measured.Values {
		switch {
		case v.Name == MetricDuration:
			model.Seconds = v.Value
		case v.Name == MetricRetransmits && v.OutOf > 0:
			model.Resent = min(v.Value/v.OutOf, 1)
		}
	}
	if s.SegmentBytes == 0 || s.BufferBytes == 0 || model.Seconds == 0 {
		return res.skips(NotMeasured, "the hosts did not say how long their segments and buffers are, or no data arrived")
	}
	model.Streams, model.Segment, model.Control = s.Streams, s.SegmentBytes, s.CongestionControl
	model.Window = widearea.Range{Low: float64(s.BufferBytes) / 2, High: float64(s.BufferBytes)}
	return res.beside(model.Rate(p), measured.Values[0].Value)
}

// beside returns the result with a measured rate beside the model's figure, in Gb/s, judged where the figure is a bound.
func (r Result) beside(f widearea.Figure, got float64) Result {
	r.Found = f.Sentence()
	if !f.Value.Bounded() {
		return r.skips(Undecided, "nothing that is known bounds the rate")
	}
	r.Values = []Measurement{
		{Name: MetricPredicted, Value: f.Value.High, Unit: Gbps, Spread: &Spread{Min: f.Value.Low, Max: f.Value.High}},
		{Name: MetricBandwidth, Value: got, Unit: Gbps}, {Name: MetricShare, Value: 100 * got / f.Value.High, Unit: Percent}}
	switch {
	case f.Mean:
		return r.skips(Undecided, "with losses the model gives a mean, which is neither reached nor broken")
	case got > slack*f.Value.High:
		r.Verdict = Warn
		r.Cause = "more than the model allows: it does not hold here, because the round trip changed, the link has more than declared, or the ends have more in flight than it knows"
	}
	return r
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
