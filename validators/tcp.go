package validators

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/probe"
)

// defaultFraction of a declared speed is what TCP must reach; headers take 1 to 6 %.
const defaultFraction = 0.9

// tcp measures throughput in both directions, one after the other: together they would share CPUs.
func (t *trial) tcp(ctx context.Context) {
	ends := t.ends
	skip := Result{Check: "tcp", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Skip, What: "throughput"}
	found := pairs(ends, t.path.Routed)
	switch {
	case !t.path.Validate.TCP.Enabled:
		skip.Cause = "disabled in validate"
	case len(found) == 0:
		skip.Cause = t.noPair()
	case !ends[0].link.Carrier || !ends[1].link.Carrier:
		skip.Verdict, skip.Measured, skip.Expected = Fail, "not sent", "a measurement"
		skip.Cause = "there is no carrier on this link (see the link check)"
	default:
		t.add(t.throughput(ctx, ends[0], ends[1], found[0]))
		t.add(t.throughput(ctx, ends[1], ends[0], found[0].reverse()))
		return
	}
	t.add(skip)
}

func (t *trial) throughput(ctx context.Context, from, to side, p pair) Result {
	res := Result{Check: "tcp", Link: t.path.Name, Host: from.host, Peer: to.host, Verdict: Pass, What: "throughput"}
	before, err := t.ports(ctx, [2]side{from, to})
	var sent, got probe.TCPResult
	if err == nil {
		sent, got, err = t.transfer(ctx, t.path.Validate.TCP, from, to, p)
	}
	var denied string
	if err == nil {
		denied, err = t.prove(ctx, before, from, to, minimum{packets: 1, bytes: uint64(got.Bytes)})
	}
	if err != nil {
		res.Verdict, res.Measured, res.Cause = Fail, "not measured", err.Error()
		return res
	}
	res.Measured = fmt.Sprintf("%.2f Gb/s, %d streams, %s, %d retransmits", got.Gbps, got.Streams, sent.Congestion, sent.Retransmits)
	need, text := t.threshold(t.path)
	res.Expected = text
	switch {
	case got.Bytes == 0:
		res.Verdict, res.Cause = Fail, "the streams were opened, and no payload arrived: small packets pass and full-size ones do not, or the cable was cut"
	case denied != "":
		res.Verdict, res.Cause = Fail, "measured, but not over this cable: "+denied
	case got.Elapsed < t.path.Validate.TCP.Duration*8/10:
		res.Verdict = Fail
		res.Cause = fmt.Sprintf("the streams stopped after %s of %s: the cable was cut or the link flapped meanwhile", got.Elapsed.Round(10*time.Millisecond), t.path.Validate.TCP.Duration)
	case got.Gbps < need:
		res.Verdict = Fail
		res.Cause = "slower than declared: too small an MTU, a port that negotiated less, a PCIe slot with too few lanes, busy CPUs, or retransmits"
	}
	return res
}

func (r *run) transfer(ctx context.Context, c fabric.TCPCheck, from, to side, p pair) (sent, got probe.TCPResult, err error) {
	listen, err := r.fleet.TCPListen(ctx, to.host, probe.TCPListenSpec{Netdev: to.link.Name, Address: p.b, Streams: c.Streams, Duration: c.Duration})
	if err != nil {
		return sent, got, fmt.Errorf("host %s: %w", to.host, err)
	}
	sent, err = r.fleet.TCPSend(ctx, from.host, probe.TCPSendSpec{Netdev: from.link.Name, Source: p.a, Target: netip.AddrPortFrom(p.b, listen.Port),
		Token: listen.Token, Streams: c.Streams, Duration: c.Duration})
	if err != nil {
		return sent, got, fmt.Errorf("host %s: %w", from.host, err)
	}
	got, err = r.fleet.TCPCollect(ctx, to.host, listen.ID)
	if err != nil {
		err = fmt.Errorf("host %s: %w", to.host, err)
	}
	return sent, got, err
}

// emulated is why nothing is asked of a lab's virtual machines.
const emulated = "reported, not judged: virtual machines"

// threshold is the least Gb/s that passes. A lab's links carry less than declared, and what is
// asked of them shrinks by the same factor.
func (r *run) threshold(l fabric.Path) (gbps float64, text string) {
	if r.options.Lab && r.options.LabCapGbps == 0 {
		return 0, emulated
	}
	c := l.Validate.TCP
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
	if gbps == 0 {
		return 0, "reported only: no speed or threshold is declared"
	}
	if r.options.Lab && l.SpeedGbps == 0 && gbps > defaultFraction*r.options.LabCapGbps {
		gbps = defaultFraction * r.options.LabCapGbps
		return gbps, fmt.Sprintf("≥ %.2f Gb/s; lab link of %g Gb/s, no speed is declared", gbps, r.options.LabCapGbps)
	}
	if r.options.Lab && l.SpeedGbps > r.options.LabCapGbps {
		gbps *= r.options.LabCapGbps / l.SpeedGbps
		return gbps, fmt.Sprintf("≥ %.2f Gb/s; lab link, %g Gb/s scaled to %g", gbps, l.SpeedGbps, r.options.LabCapGbps)
	}
	return gbps, fmt.Sprintf("≥ %.2f Gb/s", gbps)
}
