package validators

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/fabricform/fabricform/probe"
)

// The items and metrics of the check.
const (
	SmallPing    Item = "ping"
	FullSizePing Item = "full_size_ping" // as large as the MTU, unfragmented

	MetricPackets Metric = "packets_received"
	MetricLoss    Metric = "packet_loss"
	MetricRTT     Metric = "round_trip_time"     // the average
	MetricMaxRTT  Metric = "round_trip_time_max" // of the slowest answer
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

// pairs matches the ends' declared addresses: those in the same subnet, or on a routed path the first of
// each family.
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

// noPair says why there is no pair of addresses to measure between.
func (t *trial) noPair() string {
	if t.path.Routed {
		return "the ends have no addresses of one family"
	}
	return "the ends have no addresses in one subnet"
}

// hail is the pings from one end of a path to the other, between one pair of addresses. Each stage gets its
// result in a volley or alone.
type hail struct {
	*trial
	from, to side
	pair     pair
	met      bool             // neighbour resolution succeeded
	got      probe.PingResult // of neighbour resolution
	results  []Result         // of the completed stages
}

// hails returns a trial's pings in both directions. If there are none, it adds the reason to the trial.
func (t *trial) hails() (out []*hail) {
	ends, res := t.ends, t.both(CheckPing, SmallPing)
	for _, p := range t.measurable(t.path.Validate.Ping.Enabled, res) {
		out = append(out, &hail{trial: t, from: ends[0], to: ends[1], pair: p},
			&hail{trial: t, from: ends[1], to: ends[0], pair: p.reverse()})
	}
	return out
}

// measurable returns the pairs of addresses between which a check can measure. If there are none, res says why.
func (t *trial) measurable(enabled bool, res Result) []pair {
	found := pairs(t.ends, t.path.Routed)
	switch {
	case !enabled:
		t.add(res.skips(Disabled, "disabled in the validate block"))
	case len(found) == 0:
		t.add(res.skips(NoAddressPair, t.noPair()))
	case !t.ends[0].link.Carrier || !t.ends[1].link.Carrier:
		t.add(res.unmeasured("no carrier on this link (see the link check)", ""))
	default:
		return found
	}
	return nil
}

// stage is one measurement of a hail: first small packets, which show loss and round-trip time, then
// full-size ones that must not be fragmented, which show a smaller MTU on the way.
type stage int

const (
	small stage = iota
	full
	allStages
)

// stages is how many stages are measured.
func (r *run) stages() stage {
	if r.options.Reach {
		return full
	}
	return allStages
}

// spec returns the request to the hail's sender in a stage.
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

// echoes is the measurement of one stage of a hail.
type echoes struct {
	got  probe.PingResult
	err  error // the measurement failed
	port proof
}

// judge returns the result of a stage.
func (h *hail) judge(s stage, e echoes) Result {
	want := h.path.Validate.Ping
	maxLoss, maxRTT := want.MaxLossPercent, want.MaxRTT
	res := h.result(CheckPing, SmallPing, h.from.host, h.to.host)
	res.Object = h.pair.b.String()
	if s == full {
		res.Item, maxLoss, maxRTT = FullSizePing, 0, nil
	}
	if e.err != nil {
		return res.unmeasured(e.err.Error(), "")
	}
	res.Counters = e.port.counters
	loss := Measurement{Name: MetricLoss, Value: 100 * float64(e.got.Sent-e.got.Received) / float64(max(e.got.Sent, 1)),
		Unit: Percent, Threshold: atMost(maxLoss)}
	res.Values = []Measurement{{Name: MetricPackets, Value: float64(e.got.Received), OutOf: float64(e.got.Sent)}, loss}
	slowest := Measurement{Name: MetricMaxRTT, Value: micros(e.got.Max), Unit: Micros}
	if maxRTT != nil {
		slowest.Threshold = atMost(micros(*maxRTT))
	}
	if s == full {
		res.Setup = &Setup{MessageBytes: int64(h.from.link.MTU)}
	}
	if e.got.Received > 0 {
		res.Values = append(res.Values, Measurement{Name: MetricRTT, Value: micros(e.got.Avg), Unit: Micros,
			Spread: &Spread{Min: micros(e.got.Min), Max: micros(e.got.Max), StdDev: micros(e.got.StdDev)}}, slowest)
	}
	switch {
	case e.port.denied != "":
		return res.fails("answered, but not over this cable: "+e.port.denied, "")
	case !loss.Met() || e.got.Received == 0:
		return res.fails(h.lost(s, e.got), "")
	case !slowest.Met():
		return res.fails("slower than declared: the path is longer than one cable, or a host is busy or in power saving", "")
	}
	return res
}

// lost says why packets were lost. Full-size packets are sent only where small ones pass, so that for them
// a wrong cable or a firewall is not the reason.
func (h *hail) lost(s stage, got probe.PingResult) string {
	why := strings.Join(got.Errors, "; ")
	switch {
	case why != "":
	case got.Received > 0:
		why = "some packets are lost: possible causes are a bad cable or module, a full queue on the path, or a busy host"
	case s != full:
		why = "no answer: possible causes are a wrong cable, an address that the peer does not have, or a firewall on the peer"
	}
	if s != full {
		return why
	}
	text := fmt.Sprintf("%s and %s, or a switch between them, do not both take %d bytes", h.from.port(), h.to.port(), h.from.link.MTU)
	if why != "" {
		text += "; " + why
	}
	return text
}

// measureRest measures the remaining stages, while nothing else is sent between the two hosts.
func (h *hail) measureRest(ctx context.Context) {
	for s := stage(len(h.results)); s < h.stages(); s++ {
		res := h.judge(s, h.echo(ctx, h.spec(s)))
		h.results = append(h.results, res)
		if res.Verdict == Fail {
			return // a larger packet would fail for the same reason
		}
	}
}

// pingOne pings one peer.
func (r *run) pingOne(ctx context.Context, host string, s probe.PingSpec) (probe.PingResult, error) {
	got, err := probe.Ping.Call(ctx, r.fleet, host, s)
	if err == nil && len(got) != 1 {
		err = fmt.Errorf("host %s answered for %d peers instead of one", host, len(got))
	}
	if err != nil {
		return probe.PingResult{}, err
	}
	return got[0], nil
}

// echo measures one stage, and reads the counters before and after.
func (h *hail) echo(ctx context.Context, s probe.PingSpec) (e echoes) {
	before, err := h.ports(ctx, [2]side{h.from, h.to})
	if err != nil {
		return echoes{err: err}
	}
	began := time.Now()
	if e.got, err = h.pingOne(ctx, h.from.host, s); err != nil {
		return echoes{err: err}
	}
	if e.got.Received > 0 {
		n := uint64(e.got.Received)
		e.port, e.err = h.prove(ctx, before, h.from, h.to, minimum{packets: n, bytes: n * uint64(s.Size)})
		return e
	}
	after, err := h.ports(ctx, [2]side{h.from, h.to})
	if err != nil {
		return echoes{err: err}
	}
	e.port.counters = movement(before, after, h.from, h.to, minimum{})
	for _, why := range []string{stranger(before, after, h.from, h.to), astray(before, after, h.from, h.to, time.Since(began))} {
		if why != "" {
			e.got.Errors = append(e.got.Errors, why)
		}
	}
	return e
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
