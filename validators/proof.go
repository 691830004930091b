package validators

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/retry"
)

// ports has the counters of all fabric NICs of two hosts, before and after a test. Only counters show which
// cable carried the test: of two cables in one subnet, one can answer the other's pings.
type ports map[fabric.NICRef]probe.Counters

// minimum is the least traffic that a test must cause.
type minimum struct{ packets, bytes uint64 }

func (r *run) ports(ctx context.Context, ends [2]side) (ports, error) {
	out := ports{}
	for _, s := range ends {
		for _, n := range r.hosts[s.host].NICs {
			l := nccl.Netdev(r.snapshots[s.host], n)
			if l == nil {
				continue
			}
			c, err := probe.ReadCounters.Call(ctx, r.fleet, s.host, l.Name)
			if err != nil {
				return nil, fmt.Errorf("host %s: %w", s.host, err)
			}
			out[fabric.NICRef{Host: s.host, NIC: n.Name}] = c
		}
	}
	return out, nil
}

// lateCounters is how long a driver may take to update its counters: bnxt copies its statistics once a
// second by default (BNXT_DEF_STATS_COAL_TICKS).
const lateCounters = 2200 * time.Millisecond

// proof is the evidence of the counters for a test. denied says why they do not show it; "" if they do.
type proof struct {
	denied   string
	counters []Movement
}

// prove reads the counters after a test, until they show it or lateCounters is over.
func (r *run) prove(ctx context.Context, before ports, from, to side, least minimum) (proof, error) {
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := r.ports(ctx, [2]side{from, to})
		if err != nil {
			return proof{}, err
		}
		p := moved(before, after, from, to, least)
		if p.denied == "" || time.Now().After(deadline) {
			return p, nil
		}
		if retry.Pause(ctx, lateCounters/5) != nil {
			return proof{}, ctx.Err()
		}
	}
}

// grown returns a counter's growth; 0 if the counter was reset in between.
func grown(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}

// movement returns how much the sender's port sent and the receiver's port received.
func movement(before, after ports, from, to side, least minimum) []Movement {
	tx, rx := from.ref(), to.ref()
	return []Movement{
		{Port: tx.String(), Counter: "tx_packets", Rise: grown(before[tx].TxPackets, after[tx].TxPackets), AtLeast: least.packets},
		{Port: tx.String(), Counter: "tx_bytes", Rise: grown(before[tx].TxBytes, after[tx].TxBytes), AtLeast: least.bytes},
		{Port: rx.String(), Counter: "rx_packets", Rise: grown(before[rx].RxPackets, after[rx].RxPackets), AtLeast: least.packets},
		{Port: rx.String(), Counter: "rx_bytes", Rise: grown(before[rx].RxBytes, after[rx].RxBytes), AtLeast: least.bytes},
	}
}

// moved checks that the sender's port sent the test and the receiver's port received it. If not, the proof
// says which ports did.
func moved(before, after ports, from, to side, least minimum) proof {
	p := proof{counters: movement(before, after, from, to, least)}
	sent, received := p.counters[0].Rise, p.counters[2].Rise
	if received > 0 && !slices.ContainsFunc(p.counters, func(m Movement) bool { return m.Rise < m.AtLeast }) {
		return p
	}
	p.denied = fmt.Sprintf("%s sent %d packets and %s received %d", from.port(), sent, to.port(), received)
	if other := elsewhere(before, after, to, least); other != "" {
		p.denied += "; " + other
	}
	return p
}

// elsewhere names the other ports of the receiving host that received the test.
func elsewhere(before, after ports, to side, least minimum) string {
	var others []fabric.NICRef
	for ref, c := range after {
		if ref.Host == to.host && ref != to.ref() && !slices.Contains(to.under, ref) && grown(before[ref].RxPackets, c.RxPackets) >= max(least.packets, 1) {
			others = append(others, ref)
		}
	}
	if len(others) == 1 {
		return fmt.Sprintf("they arrived at %s: the cables of %s and %s are swapped, or both NICs are in one subnet", others[0],
			to.port(), others[0])
	}
	return ""
}

// stranger looks for another port of the receiving host that received the sender's packets: even without
// an answer, neighbour resolution moves the counters of the port at the cable's end.
func stranger(before, after ports, from, to side) string {
	tx, rx := from.ref(), to.ref()
	if after[tx].TxPackets == before[tx].TxPackets || after[rx].RxPackets != before[rx].RxPackets {
		return ""
	}
	return elsewhere(before, after, to, minimum{})
}
