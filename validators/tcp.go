package validators

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/probe"
)

// The items and metrics of the check.
const (
	Throughput      Item = "throughput"
	GroupThroughput Item = "throughput_of_port" // of links that share a port, at once

	MetricThroughput  Metric = "throughput" // payload
	MetricRetransmits Metric = "retransmits"
	MetricDuration    Metric = "duration" // how long data flowed
)

// defaultFraction is the fraction of a declared speed that TCP must reach; headers take 1 to 6 %.
const defaultFraction = 0.9

// tcp measures the throughput of all paths, and then of links that share a port together. In a lab it
// measures one path at a time, because the hosts share one machine's processors.
func (r *run) tcp(ctx context.Context, trials []*trial) []Result {
	r.check(ctx, trials, CheckTCP, r.options.Lab && r.options.LabCapGbps > 0, (*trial).tcp)
	return r.portGroups(ctx, trials)
}

// tcp measures throughput in both directions, one after the other: together they would share CPUs.
func (t *trial) tcp(ctx context.Context) {
	ends, res := t.ends, t.both(CheckTCP, Throughput)
	if found := t.measurable(t.path.Validate.TCP.Enabled, res); len(found) > 0 {
		t.out = append(t.out, t.throughput(ctx, ends[0], ends[1], found[0])...)
		t.out = append(t.out, t.throughput(ctx, ends[1], ends[0], found[0].reverse())...)
	}
}

// throughput measures one direction, in the class of the sending NIC. Further results say on which priority its bytes were counted, and name
// congestion, if there was any.
func (t *trial) throughput(ctx context.Context, from, to side, p pair) []Result {
	res := t.result(CheckTCP, Throughput, from.host, to.host)
	w := t.watch(ctx, from.tap(), to.tap())
	w.sends = t.path.Validate.TCP.Duration
	before, err := t.ports(ctx, [2]side{from, to})
	var sent, got probe.TCPResult
	if err == nil {
		sent, got, err = t.transfer(ctx, t.path.Validate.TCP, from, to, p)
	}
	var port proof
	if err == nil {
		port, err = t.prove(ctx, before, from, to, minimum{packets: 1, bytes: uint64(got.Bytes)})
	}
	if err != nil {
		res = res.unmeasured(err.Error(), "")
	} else {
		res = t.transferred(res, from, sent, got, port)
	}
	out := []Result{res}
	if got.Bytes > 0 {
		if class := w.classed(ctx, res, from, load{probe.Bytes, uint64(got.Bytes), classOf(from).TrafficClass}); class != nil {
			out = append(out, *class)
		}
	}
	return append(out, w.congested(ctx, t.result(CheckTCP, Congested, from.host, to.host), [2]*fabric.NIC{from.spec, to.spec},
		[2]func([]string) Movement{})...)
}

// transferred judges the throughput by the counters of both ports and its threshold.
func (t *trial) transferred(res Result, from side, sent, got probe.TCPResult, port proof) Result {
	rate := Measurement{Name: MetricThroughput, Value: got.Gbps, Unit: Gbps, Threshold: t.threshold(t.path)}
	res.Values = []Measurement{rate, {Name: MetricRetransmits, Value: float64(sent.Retransmits), OutOf: float64(sent.Segments)},
		{Name: MetricDuration, Value: got.Elapsed.Seconds(), Unit: Seconds}}
	res.Setup = &Setup{Streams: got.Streams, CongestionControl: sent.Congestion, SegmentBytes: sent.Segment, BufferBytes: min(sent.Buffer, got.Buffer)}
	if class := classOf(from); class != (probe.Class{}) {
		res.Setup.TrafficClass = &class.TrafficClass
	}
	res.Counters = port.counters
	switch {
	case got.Bytes == 0:
		return res.fails("the connections opened, but no payload arrived: full-size packets do not pass, or the cable was cut", "")
	case port.denied != "":
		return res.fails("measured, but not over this cable: "+port.denied, "")
	case got.Elapsed < t.path.Validate.TCP.Duration*8/10:
		return res.fails(fmt.Sprintf("the streams stopped after %s of %s: the cable was cut, or the link flapped",
			got.Elapsed.Round(10*time.Millisecond), t.path.Validate.TCP.Duration), "")
	case !rate.Met() && t.options.Lab:
		return res.fails("slower than declared: in a lab, mostly because other work keeps the machine busy", "measure again when it is idle")
	case !rate.Met():
		return res.fails("slower than declared: possible causes are a small MTU, a lower negotiated speed, too few PCIe lanes, "+
			"busy CPUs, or retransmits", "")
	}
	return res.judgedBy(rate)
}

func (r *run) transfer(ctx context.Context, c fabric.TCPCheck, from, to side, p pair) (sent, got probe.TCPResult, err error) {
	token := rand.Text()
	listen, err := probe.ListenTCP.Call(ctx, r.fleet, to.host, probe.TCPListenSpec{Netdev: to.link.Name, Address: p.b,
		Token: token, Streams: c.Streams, Duration: c.Duration})
	if err != nil {
		return sent, got, fmt.Errorf("host %s: %w", to.host, err)
	}
	sent, err = probe.SendTCP.Call(ctx, r.fleet, from.host,
		probe.TCPSendSpec{Netdev: from.link.Name, Source: p.a, Target: netip.AddrPortFrom(p.b, listen.Port),
			Token: token, Streams: c.Streams, Duration: c.Duration, Class: classOf(from)})
	if err != nil {
		return sent, got, fmt.Errorf("host %s: %w", from.host, err)
	}
	got, err = probe.CollectTCP.Call(ctx, r.fleet, to.host, listen.ID)
	if err != nil {
		err = fmt.Errorf("host %s: %w", to.host, err)
	}
	return sent, got, err
}

// threshold returns the least Gb/s that passes. A lab's links carry less than declared, so the threshold is
// scaled by the same factor.
func (r *run) threshold(l fabric.Path) *Threshold {
	if r.options.Lab && r.options.LabCapGbps == 0 {
		return notJudged(VirtualMachines)
	}
	c := l.Validate.TCP
	gbps := 0.0
	if c.MinGbps != nil {
		gbps = *c.MinGbps
	}
	expect := l.ExpectGbps
	if expect == 0 {
		expect = l.SpeedGbps
	}
	fraction := c.MinFraction
	if fraction == nil && expect > 0 && c.MinGbps == nil {
		f := defaultFraction
		fraction = &f
	}
	if fraction != nil {
		gbps = max(gbps, *fraction*expect)
	}
	labCap := r.options.LabCapGbps
	switch {
	case gbps == 0:
		return notJudged(NothingDeclared)
	case r.options.Lab && l.SpeedGbps == 0 && gbps > defaultFraction*labCap:
		out := atLeast(defaultFraction * labCap)
		out.LabGbps = labCap
		return out
	case r.options.Lab && l.SpeedGbps > labCap:
		out := atLeast(gbps * labCap / l.SpeedGbps)
		out.LabGbps, out.DeclaredGbps = labCap, l.SpeedGbps
		return out
	}
	return atLeast(gbps)
}
