package validators

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/fabricform/fabricform/probe"
)

const (
	pingInterval = 5 * time.Millisecond
	pingTimeout  = time.Second
	smallPayload = 56 // as ping(8) sends
	fullCount    = 3
)

// pair is one address of each end.
type pair struct{ a, b netip.Addr }

func (p pair) reverse() pair { return pair{p.b, p.a} }

// pairs matches the ends' declared addresses: each with one of the same subnet, or on a routed
// path the first of each family.
func pairs(ends [2]side, routed bool) []pair {
	var out []pair
	seen := map[bool]bool{}
	for _, a := range ends[0].spec.Addresses {
		for _, b := range ends[1].spec.Addresses {
			same := a.Masked() == b.Masked()
			family := routed && a.Addr().Is4() == b.Addr().Is4() && !seen[a.Addr().Is4()]
			if same || family {
				seen[a.Addr().Is4()] = true
				out = append(out, pair{a.Addr(), b.Addr()})
				break
			}
		}
	}
	return out
}

// noPair says why there is nothing to measure between.
func (t *trial) noPair() string {
	if t.path.Routed {
		return "the ends have no addresses of one family"
	}
	return "the ends have no addresses in one subnet"
}

func (t *trial) ping(ctx context.Context) {
	ends, spec := t.ends, t.path.Validate.Ping
	skip := Result{Check: "ping", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Skip, What: "ping"}
	found := pairs(ends, t.path.Routed)
	switch {
	case !spec.Enabled:
		skip.Cause = "disabled in validate"
	case len(found) == 0:
		skip.Cause = t.noPair()
	case !ends[0].link.Carrier || !ends[1].link.Carrier:
		skip.Verdict, skip.Measured, skip.Expected = Fail, "not sent", "an answer"
		skip.Cause = "there is no carrier on this link (see the link check)"
	default:
		for _, p := range found {
			t.pingOne(ctx, ends[0], ends[1], p)
			t.pingOne(ctx, ends[1], ends[0], p.reverse())
		}
		return
	}
	t.add(skip)
}

// pingOne sends small packets, which find loss and time, and then full-size ones that may not be
// fragmented, which find a smaller MTU on the way.
func (t *trial) pingOne(ctx context.Context, from, to side, p pair) {
	want := t.path.Validate.Ping
	t.acquaint(ctx, from, p)
	small := t.echo(ctx, from, to, p, want.Count, smallPayload, false)
	small.What = "ping " + p.b.String()
	small.Expected = fmt.Sprintf("loss ≤ %g %%", want.MaxLossPercent)
	if want.MaxRTT != nil {
		small.Expected += fmt.Sprintf(", max ≤ %s", *want.MaxRTT)
	}
	t.add(small.judge(want.MaxLossPercent, want.MaxRTT))
	if small.Verdict == Fail {
		return // a larger packet would only say the same again
	}
	overhead := 28
	if p.a.Is6() {
		overhead = 48
	}
	mtu := from.link.MTU
	full := t.echo(ctx, from, to, p, fullCount, mtu-overhead, true)
	full.What = fmt.Sprintf("full size %d", mtu)
	full.Expected = "all answered, unfragmented"
	res := full.judge(0, nil)
	if res.Verdict == Fail && !strings.Contains(res.Cause, "cable") {
		res.Cause = fmt.Sprintf("%s and %s, or a switch between them, do not both take %d bytes; %s", from.port(), to.port(), mtu, res.Cause)
	}
	t.add(res)
}

// patience is how many seconds the two ends are given to find each other.
const patience = 5

// acquaint lets the two ends learn each other's hardware addresses before anything is counted, and
// unlearn those from before a cable was moved.
func (r *run) acquaint(ctx context.Context, from side, p pair) {
	for try := range patience {
		got, err := r.fleet.Ping(ctx, from.host, probe.PingSpec{Netdev: from.link.Name, Source: p.a, Target: p.b, Count: 1,
			Interval: pingInterval, Timeout: pingTimeout, Size: smallPayload, Fresh: try > 0})
		if err != nil || got.Received > 0 {
			return // what is wrong is found and said by the measurement
		}
	}
}

// echoes is one measurement on its way to a Result.
type echoes struct {
	Result
	got   probe.PingResult
	proof string // why the counters deny it
}

func (t *trial) echo(ctx context.Context, from, to side, p pair, count, size int, whole bool) *echoes {
	e := &echoes{Result: Result{Check: "ping", Link: t.path.Name, Host: from.host, Peer: to.host, Verdict: Pass}}
	fail := func(err error) *echoes {
		e.Verdict, e.Measured, e.Cause = Fail, "not measured", err.Error()
		return e
	}
	before, err := t.ports(ctx, [2]side{from, to})
	if err != nil {
		return fail(err)
	}
	e.got, err = t.fleet.Ping(ctx, from.host, probe.PingSpec{Netdev: from.link.Name, Source: p.a, Target: p.b, Count: count,
		Interval: pingInterval, Timeout: pingTimeout, Size: size, DontFragment: whole})
	if err != nil {
		return fail(err)
	}
	if e.got.Received > 0 {
		n := uint64(e.got.Received)
		denied, err := t.prove(ctx, before, from, to, minimum{packets: n, bytes: n * uint64(size)})
		if err != nil {
			return fail(err)
		}
		if denied != "" {
			e.proof = "answered, but not over this cable: " + denied
		}
		return e
	}
	after, err := t.ports(ctx, [2]side{from, to})
	if err != nil {
		return fail(err)
	}
	if why := stranger(before, after, from, to); why != "" {
		e.got.Errors = append(e.got.Errors, why)
	}
	return e
}

func (e *echoes) judge(maxLoss float64, maxRTT *time.Duration) Result {
	if e.Verdict == Fail {
		return e.Result
	}
	loss := 100 * float64(e.got.Sent-e.got.Received) / float64(max(e.got.Sent, 1))
	e.Measured = fmt.Sprintf("%d of %d", e.got.Received, e.got.Sent)
	if e.got.Received > 0 {
		e.Measured += fmt.Sprintf(", %s / %s / %s", micro(e.got.Min), micro(e.got.Avg), micro(e.got.Max))
	}
	switch {
	case e.proof != "":
		e.Verdict, e.Cause = Fail, e.proof
	case loss > maxLoss || e.got.Received == 0:
		e.Verdict = Fail
		e.Cause = strings.Join(e.got.Errors, "; ")
		if e.Cause == "" {
			e.Cause = "no answer: a wrong cable, an address that is not there, or a firewall on the peer"
		}
	case maxRTT != nil && e.got.Max > *maxRTT:
		e.Verdict, e.Cause = Fail, "slower than declared: a longer path than a cable, or a host that is busy or saves power"
	}
	return e.Result
}

func micro(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }
