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

// hail is the pings from one end of a path to the other, by one pair of addresses. It is settled
// stage by stage, by a volley or alone.
type hail struct {
	*trial
	from, to side
	pair     pair
	met      bool             // the two ends found each other
	got      probe.PingResult // of finding each other
	results  []Result         // of the stages that are settled
}

// hails are a trial's pings in both directions; where there are none, the trial says why.
func (t *trial) hails() []*hail {
	ends := t.ends
	skip := Result{Check: "ping", Link: t.path.Name, Host: ends[0].host, Peer: ends[1].host, Verdict: Skip, What: "ping"}
	found := pairs(ends, t.path.Routed)
	switch {
	case !t.path.Validate.Ping.Enabled:
		skip.Cause = "disabled in validate"
	case len(found) == 0:
		skip.Cause = t.noPair()
	case !ends[0].link.Carrier || !ends[1].link.Carrier:
		skip.Verdict, skip.Measured, skip.Expected = Fail, "not sent", "an answer"
		skip.Cause = "there is no carrier on this link (see the link check)"
	default:
		var out []*hail
		for _, p := range found {
			out = append(out, &hail{trial: t, from: ends[0], to: ends[1], pair: p}, &hail{trial: t, from: ends[1], to: ends[0], pair: p.reverse()})
		}
		return out
	}
	t.add(skip)
	return nil
}

// stage is what a hail measures: small packets, which find loss and time, and then full-size ones
// that may not be fragmented, which find a smaller MTU on the way.
type stage int

const (
	small stage = iota
	full
	stages
)

// spec is what the hail's sender is asked for in a stage.
func (h *hail) spec(s stage) probe.PingSpec {
	spec := probe.PingSpec{Netdev: h.from.link.Name, Source: h.pair.a, Targets: []netip.Addr{h.pair.b}, Count: h.path.Validate.Ping.Count,
		Interval: pingInterval, Timeout: pingTimeout, Size: smallPayload}
	if s == full {
		overhead := 28
		if h.pair.a.Is6() {
			overhead = 48
		}
		spec.Count, spec.Size, spec.DontFragment = fullCount, h.from.link.MTU-overhead, true
	}
	return spec
}

// judge is the result of a stage.
func (h *hail) judge(s stage, e *echoes) Result {
	want := h.path.Validate.Ping
	if s == small {
		e.What = "ping " + h.pair.b.String()
		e.Expected = fmt.Sprintf("loss ≤ %g %%", want.MaxLossPercent)
		if want.MaxRTT != nil {
			e.Expected += fmt.Sprintf(", max ≤ %s", *want.MaxRTT)
		}
		return e.judge(want.MaxLossPercent, want.MaxRTT)
	}
	mtu := h.from.link.MTU
	e.What = fmt.Sprintf("full size %d", mtu)
	e.Expected = "all answered, unfragmented"
	res := e.judge(0, nil)
	if res.Verdict == Fail && !strings.Contains(res.Cause, "cable") {
		res.Cause = fmt.Sprintf("%s and %s, or a switch between them, do not both take %d bytes; %s", h.from.port(), h.to.port(), mtu, res.Cause)
	}
	return res
}

// alone measures the stages that are not settled yet, while nothing else is sent between the two hosts.
func (h *hail) alone(ctx context.Context) {
	for s := stage(len(h.results)); s < stages; s++ {
		res := h.judge(s, h.echo(ctx, h.spec(s)))
		h.results = append(h.results, res)
		if res.Verdict == Fail {
			return // a larger packet would only say the same again
		}
	}
}

// one sends to one peer.
func (r *run) one(ctx context.Context, host string, s probe.PingSpec) (probe.PingResult, error) {
	got, err := r.fleet.Ping(ctx, host, s)
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("host %s answered for %d peers instead of one", host, len(got))
	}
	if err != nil {
		return probe.PingResult{}, err
	}
	return got[0], nil
}

// echoes is one measurement on its way to a Result.
type echoes struct {
	Result
	got   probe.PingResult
	proof string // why the counters deny it
}

func (h *hail) echoes(got probe.PingResult) *echoes {
	return &echoes{Result: Result{Check: "ping", Link: h.path.Name, Host: h.from.host, Peer: h.to.host, Verdict: Pass}, got: got}
}

func (h *hail) echo(ctx context.Context, s probe.PingSpec) *echoes {
	e, from, to := h.echoes(probe.PingResult{}), h.from, h.to
	fail := func(err error) *echoes {
		e.Verdict, e.Measured, e.Cause = Fail, "not measured", err.Error()
		return e
	}
	before, err := h.ports(ctx, [2]side{from, to})
	if err != nil {
		return fail(err)
	}
	if e.got, err = h.one(ctx, from.host, s); err != nil {
		return fail(err)
	}
	if e.got.Received > 0 {
		n := uint64(e.got.Received)
		denied, err := h.prove(ctx, before, from, to, minimum{packets: n, bytes: n * uint64(s.Size)})
		if err != nil {
			return fail(err)
		}
		if denied != "" {
			e.proof = "answered, but not over this cable: " + denied
		}
		return e
	}
	after, err := h.ports(ctx, [2]side{from, to})
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
			if e.got.Received > 0 {
				e.Cause = "some are lost: a bad cable or module, a queue that is full on the way, or a busy host"
			}
		}
	case maxRTT != nil && e.got.Max > *maxRTT:
		e.Verdict, e.Cause = Fail, "slower than declared: a longer path than a cable, or a host that is busy or saves power"
	}
	return e.Result
}

func micro(d time.Duration) string { return fmt.Sprintf("%.0f µs", float64(d)/1e3) }
