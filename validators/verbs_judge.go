package validators

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
	"github.com/fabricform/fabricform/retry"
)

// measurement is the one row of results of a perftest program.
type measurement struct {
	report perftest.Output
	value  Measurement
	bytes  int64 // the least number that was sent
	count  int64 // messages
}

// parseMeasurement parses a client's report: the text, and JSON if the release writes it correctly.
func parseMeasurement(o probe.VerbsOutcome) (measurement, error) {
	r, err := perftest.ParseText(o.Stdout)
	if err != nil {
		return measurement{}, err
	}
	if j, err := perftest.ParseJSON(o.JSON); err == nil && len(j.Bandwidth) == len(r.Bandwidth) && len(j.Latency) == len(r.Latency) {
		r.Bandwidth, r.Latency = j.Bandwidth, j.Latency
	}
	m := measurement{report: r}
	switch {
	case len(r.Bandwidth) > 0:
		b := r.Bandwidth[len(r.Bandwidth)-1]
		m.count, m.bytes = b.Iterations, b.Iterations*b.Size
		m.value = Measurement{Name: MetricBandwidth, Value: b.AverageGbps, Unit: Gbps}
		if b.PeakGbps > 0 {
			m.value.Spread = &Spread{Max: b.PeakGbps}
		}
	case len(r.Latency) > 0:
		l := r.Latency[len(r.Latency)-1]
		m.count = l.Iterations
		m.value = Measurement{Name: MetricLatency, Value: l.TypicalUs, Unit: Micros,
			Spread: &Spread{Min: l.MinUs, Average: l.AverageUs, Max: l.MaxUs, StdDev: l.StdDevUs, P99: l.P99Us, P999: l.P999Us}}
		if l.TypicalUs == 0 {
			m.value.Value, m.value.Spread.Average = l.AverageUs, 0
		}
	default:
		return m, errors.New("no row of results")
	}
	return m, nil
}

// packets returns the least number of packets that the messages took.
func (m measurement) packets() uint64 {
	if m.bytes > 0 && m.report.MTU > 0 {
		return uint64(m.bytes) / uint64(m.report.MTU)
	}
	return uint64(m.count)
}

// verbsThreshold returns the declared threshold of a test. Without one, a bandwidth must reach a fraction of
// the goodput at the link's speed.
func (t *trial) verbsThreshold(test perftest.Test, from, to port) *Threshold {
	c := t.path.Validate.Verbs
	switch {
	case t.options.Lab:
		return notJudged(VirtualMachines)
	case !test.Bandwidth() && c.MaxLatency == nil:
		return notJudged(NoLatencyDeclared)
	case !test.Bandwidth():
		return atMost(micros(*c.MaxLatency))
	}
	expect := t.path.ExpectGbps
	if expect == 0 {
		expect = t.path.SpeedGbps
	}
	gbps := 0.0
	if c.MinGbps != nil {
		gbps = *c.MinGbps
	}
	if fraction := c.MinFraction; fraction != nil || expect > 0 && c.MinGbps == nil {
		f := verbsFraction
		if fraction != nil {
			f = *fraction
		}
		mtu := min(from.mtu, to.mtu)
		goodput := perftest.Goodput(expect, mtu)
		if from.gid.Addr.IsValid() && !from.gid.Addr.Is4In6() {
			goodput = perftest.Goodput6(expect, mtu)
		}
		gbps = max(gbps, f*goodput)
	}
	if gbps == 0 {
		return notJudged(NothingDeclared)
	}
	return atLeast(gbps)
}

// rdmaKey names a port of an RDMA device on a host.
type rdmaKey struct {
	host, device string
	port         int
}

func (k rdmaKey) String() string {
	if k.port > 1 {
		return fmt.Sprintf("%s.%s:%d", k.host, k.device, k.port)
	}
	return k.host + "." + k.device
}

func (p port) key() rdmaKey { return rdmaKey{p.host, p.device.Name, p.device.Port} }

// counted has the counters of all RDMA devices of two hosts.
type counted map[rdmaKey]probe.RDMACounters

func (t *trial) devices(ctx context.Context, ends ...port) (counted, error) {
	out := counted{}
	for _, e := range ends {
		for _, d := range t.snapshots[e.host].RDMA {
			c, err := probe.ReadRDMACounters.Call(ctx, t.fleet, e.host, probe.RDMAPort{Device: d.Name, Port: d.Port})
			if err != nil {
				return nil, fmt.Errorf("host %s: %w", e.host, err)
			}
			out[rdmaKey{e.host, d.Name, d.Port}] = c
		}
	}
	return out, nil
}

// Names of counters, by direction: of hardware (ib_pma_portcounters_ext; data in words of 4 bytes)
// and of Soft-RoCE (rxe_hw_counters.c).
var (
	packetsOut = []string{"port_xmit_packets", "sent_pkts"}
	packetsIn  = []string{"port_rcv_packets", "rcvd_pkts"}
)

// rise returns how far the first existing counter has risen.
func rise(before, after probe.RDMACounters, names []string) (name string, n uint64, there bool) {
	for _, name := range names {
		if v, ok := after[name]; ok {
			return name, grown(before[name], v), true
		}
	}
	return "", 0, false
}

// trouble are counters that do not rise on a healthy path (counters.c of mlx5, rxe_hw_counters.c,
// and the port error counters of the InfiniBand specification).
var trouble = []string{
	"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err", "duplicate_request",
	"out_of_buffer", "req_transport_retries_exceeded", "req_cqe_error", "resp_cqe_error", "rx_icrc_encapsulated", "roce_adp_retrans",
	"roce_slow_restart", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err", "retry_exceeded_err",
	"retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed", "symbol_error", "port_rcv_errors", "port_xmit_discards",
	"local_link_integrity_errors", "excessive_buffer_overrun_errors", "link_error_recovery",
}

// proveCarried reads the counters after a test, until both ports show it or lateCounters is over. errors are the
// error counters that rose.
func (t *trial) proveCarried(ctx context.Context, before counted, m measurement, from, to port) (p proof, errors []Movement, err error) {
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := t.devices(ctx, from, to)
		if err != nil {
			return proof{}, nil, err
		}
		if p = proveCounters(before, after, m, from, to); p.denied == "" || time.Now().After(deadline) {
			return p, faults(before, after, from, to), nil
		}
		if retry.Pause(ctx, lateCounters/5) != nil {
			return proof{}, nil, ctx.Err()
		}
	}
}

// proveCounters checks that the sender's port sent the test and the receiver's port received it.
func proveCounters(before, after counted, m measurement, from, to port) proof {
	least := m.packets()
	nameOut, out, knowsOut := rise(before[from.key()], after[from.key()], packetsOut)
	nameIn, in, knowsIn := rise(before[to.key()], after[to.key()], packetsIn)
	if !knowsOut || !knowsIn {
		return proof{denied: fmt.Sprintf("%s or %s has no packet counters, so it is unknown which port carried the test",
			from.key(), to.key())}
	}
	p := proof{counters: []Movement{{Port: from.key().String(), Counter: nameOut, Rise: out, AtLeast: least},
		{Port: to.key().String(), Counter: nameIn, Rise: in, AtLeast: least}}}
	if out >= least && in >= least {
		return p
	}
	p.denied = fmt.Sprintf("%s sent %d packets and %s received %d instead of at least %d", from.key(), out, to.key(), in, least)
	for key := range after {
		if _, n, _ := rise(before[key], after[key], packetsIn); key.host == to.host && key != to.key() && n >= least {
			p.denied += "; they arrived at " + key.String()
		}
	}
	return p
}

// faults returns the error counters that rose.
func faults(before, after counted, ends ...port) (out []Movement) {
	for _, e := range ends {
		for _, name := range trouble {
			if n := grown(before[e.key()][name], after[e.key()][name]); n > 0 {
				out = append(out, Movement{Port: e.key().String(), Counter: name, Rise: n})
			}
		}
	}
	slices.SortFunc(out, func(a, b Movement) int { return cmp.Or(cmp.Compare(a.Port, b.Port), cmp.Compare(a.Counter, b.Counter)) })
	return out
}

// rose describes error counters that rose.
func rose(errors []Movement) string {
	var out []string
	for _, m := range errors {
		out = append(out, fmt.Sprintf("%s %s +%d", m.Port, m.Counter, m.Rise))
	}
	return "error counters rose: " + strings.Join(out, ", ")
}
