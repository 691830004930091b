package validators

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/perftest"
)

// measurement is what a perftest program measured: its one row.
type measurement struct {
	report perftest.Report
	text   string
	gbps   float64       // bandwidth
	lat    time.Duration // latency: the median, or the average where there is none
	bytes  int64         // that were sent at least
	count  int64         // messages
}

// measured reads a client's report: JSON where the release writes it well, and always the text.
func measured(o probe.VerbsOutcome) (measurement, error) {
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
		m.gbps, m.count, m.bytes = b.AverageGbps, b.Iterations, b.Iterations*b.Size
		m.text = fmt.Sprintf("%.2f Gb/s", b.AverageGbps)
		if b.PeakGbps > 0 {
			m.text += fmt.Sprintf(", peak %.2f", b.PeakGbps)
		}
	case len(r.Latency) > 0:
		l := r.Latency[len(r.Latency)-1]
		m.count, m.lat = l.Iterations, us(l.TypicalUs)
		if l.TypicalUs == 0 {
			m.lat = us(l.AverageUs)
		}
		m.text = fmt.Sprintf("%s µs typical, %s average", short(l.TypicalUs), short(l.AverageUs))
		if l.P99Us > 0 {
			m.text += fmt.Sprintf(", %s at 99 %%, %s at 99.9 %%", short(l.P99Us), short(l.P999Us))
		}
	default:
		return m, errors.New("it has no row of results")
	}
	return m, nil
}

// short is a figure of about three digits.
func short(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func us(v float64) time.Duration { return time.Duration(v * float64(time.Microsecond)) }

// judge compares with what is declared; bad is empty where it is met. Without a declaration a
// bandwidth must reach its share of the goodput that the link's speed leaves.
func (t *trial) judge(test perftest.Test, m measurement, from, to port) (need, bad string) {
	c := t.path.Validate.Verbs
	if t.options.Lab {
		return emulated, ""
	}
	if !test.Bandwidth() {
		if c.MaxLatency == nil {
			return "reported only: no max_latency is declared", ""
		}
		if m.lat > *c.MaxLatency {
			bad = "slower than declared: a switch or a longer path between, power saving, or a busy CPU"
		}
		return fmt.Sprintf("≤ %s", *c.MaxLatency), bad
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
		return "reported only: no speed or threshold is declared", ""
	}
	if m.gbps < gbps {
		bad = "slower than declared: a PCIe slot with too few lanes, a port that negotiated less, an RDMA MTU below 4096, or congestion"
	}
	return fmt.Sprintf("≥ %.2f Gb/s", gbps), bad
}

// counted are the counters of all RDMA devices of two hosts, by host.device.
type counted map[string]probe.RDMACounters

func (t *trial) devices(ctx context.Context, ends ...port) (counted, error) {
	out := counted{}
	for _, e := range ends {
		for _, d := range t.snapshots[e.host].RDMA {
			c, err := t.fleet.RDMACounters(ctx, e.host, d.Name, d.Port)
			if err != nil {
				return nil, fmt.Errorf("host %s: %w", e.host, err)
			}
			out[e.host+"."+d.Name] = c
		}
	}
	return out, nil
}

func (p port) key() string { return p.host + "." + p.device.Name }

// Names of counters, by direction: of hardware (ib_pma_portcounters_ext; data in words of 4 bytes)
// and of Soft-RoCE (rxe_hw_counters.c).
var (
	packetsOut = []string{"port_xmit_packets", "sent_pkts"}
	packetsIn  = []string{"port_rcv_packets", "rcvd_pkts"}
)

// rise is how far the first of the counters that is there has risen.
func rise(before, after probe.RDMACounters, names []string) (n uint64, there bool) {
	for _, name := range names {
		if v, ok := after[name]; ok {
			return grown(before[name], v), true
		}
	}
	return 0, false
}

// trouble are counters that do not rise on a sound path (counters.c of mlx5, rxe_hw_counters.c,
// and the port error counters of the InfiniBand specification).
var trouble = []string{
	"out_of_sequence", "packet_seq_err", "local_ack_timeout_err", "rnr_nak_retry_err", "implied_nak_seq_err", "duplicate_request",
	"out_of_buffer", "req_transport_retries_exceeded", "req_cqe_error", "resp_cqe_error", "rx_icrc_encapsulated", "roce_adp_retrans",
	"roce_slow_restart", "out_of_seq_request", "rcvd_rnr_err", "send_rnr_err", "rcvd_seq_err", "retry_exceeded_err",
	"retry_rnr_exceeded_err", "completer_retry_err", "send_err", "link_downed", "symbol_error", "port_rcv_errors", "port_xmit_discards",
	"local_link_integrity_errors", "excessive_buffer_overrun_errors", "link_error_recovery",
}

// carried reads the counters after a test: denied says why they do not show it on both ports, and
// errors what else rose.
func (t *trial) carried(ctx context.Context, before counted, m measurement, from, to port) (denied, errors string, err error) {
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := t.devices(ctx, from, to)
		if err != nil {
			return "", "", err
		}
		if denied = shown(before, after, m, from, to); denied == "" || time.Now().After(deadline) {
			return denied, rose(before, after, from, to), nil
		}
		select {
		case <-ctx.Done():
			return "", "", ctx.Err()
		case <-time.After(lateCounters / 5):
		}
	}
}

// shown is empty where the sender's port sent what was measured and the receiver's received it.
func shown(before, after counted, m measurement, from, to port) string {
	least := uint64(m.count)
	if m.bytes > 0 && m.report.MTU > 0 {
		least = uint64(m.bytes) / uint64(m.report.MTU)
	}
	out, knowsOut := rise(before[from.key()], after[from.key()], packetsOut)
	in, knowsIn := rise(before[to.key()], after[to.key()], packetsIn)
	if !knowsOut || !knowsIn {
		return fmt.Sprintf("%s or %s has no counters of packets, so nothing proves which port carried the test", from.key(), to.key())
	}
	if out >= least && in >= least {
		return ""
	}
	why := fmt.Sprintf("%s sent %d packets and %s received %d, of at least %d", from.key(), out, to.key(), in, least)
	for key := range after {
		n, _ := rise(before[key], after[key], packetsIn)
		if strings.HasPrefix(key, to.host+".") && key != to.key() && n >= least {
			why += "; they arrived at " + key
		}
	}
	return why
}

// rose names the error counters that did.
func rose(before, after counted, ends ...port) string {
	var out []string
	for _, e := range ends {
		for _, name := range trouble {
			if n := grown(before[e.key()][name], after[e.key()][name]); n > 0 {
				out = append(out, fmt.Sprintf("%s %s +%d", e.key(), name, n))
			}
		}
	}
	slices.Sort(out)
	if len(out) == 0 {
		return ""
	}
	return "error counters rose: " + strings.Join(out, ", ")
}
