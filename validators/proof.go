package validators

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/probe"
)

// ports are the counters of all fabric NICs of two hosts, before and after a test. Only they say
// which cable carried it: two cables in one subnet answer each other's pings.
type ports map[string]probe.Counters

// minimum is what a test must have moved at least.
type minimum struct{ packets, bytes uint64 }

func (r *run) ports(ctx context.Context, ends [2]side) (ports, error) {
	out := ports{}
	for _, s := range ends {
		for _, n := range r.hosts[s.host].NICs {
			l := nccl.Netdev(r.snapshots[s.host], n)
			if l == nil {
				continue
			}
			c, err := r.fleet.Counters(ctx, s.host, l.Name)
			if err != nil {
				return nil, fmt.Errorf("host %s: %w", s.host, err)
			}
			out[s.host+"."+n.Name] = c
		}
	}
	return out, nil
}

// lateCounters is how long a driver may take to show what it moved: bnxt copies its statistics
// once a second by default (BNXT_DEF_STATS_COAL_TICKS).
const lateCounters = 2200 * time.Millisecond

// prove reads the counters after a test until they show it; denied says why they do not.
func (r *run) prove(ctx context.Context, before ports, from, to side, least minimum) (denied string, err error) {
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := r.ports(ctx, [2]side{from, to})
		if err != nil {
			return "", err
		}
		ok, why := moved(before, after, from, to, least)
		if ok {
			return "", nil
		}
		if time.Now().After(deadline) {
			return why, nil
		}
		if !rest(ctx, lateCounters/5) {
			return "", ctx.Err()
		}
	}
}

// grown is a counter's growth. One that was reset meanwhile proves nothing.
func grown(before, after uint64) uint64 {
	if after < before {
		return 0
	}
	return after - before
}

// moved says whether the sender's port sent and the receiver's port received the test; where not,
// why tells which ports moved instead.
func moved(before, after ports, from, to side, least minimum) (ok bool, why string) {
	tx := grown(before[from.port()].TxPackets, after[from.port()].TxPackets)
	txBytes := grown(before[from.port()].TxBytes, after[from.port()].TxBytes)
	rx := grown(before[to.port()].RxPackets, after[to.port()].RxPackets)
	rxBytes := grown(before[to.port()].RxBytes, after[to.port()].RxBytes)
	if tx >= least.packets && rx >= least.packets && txBytes >= least.bytes && rxBytes >= least.bytes && rx > 0 {
		return true, ""
	}
	why = fmt.Sprintf("%s sent %d packets and %s received %d", from.port(), tx, to.port(), rx)
	if other := elsewhere(before, after, from, to, least); other != "" {
		why += "; " + other
	}
	return false, why
}

// elsewhere names the ports of the receiving host that took what was meant for another.
func elsewhere(before, after ports, from, to side, least minimum) string {
	var others []string
	for port, c := range after {
		strange := strings.HasPrefix(port, to.host+".") && port != to.port()
		if strange && grown(before[port].RxPackets, c.RxPackets) >= max(least.packets, 1) {
			others = append(others, port)
		}
	}
	if len(others) == 1 {
		return fmt.Sprintf("they arrived at %s: the cables of %s and %s are swapped, or both NICs stand in one subnet", others[0], to.port(), others[0])
	}
	return ""
}

// stranger looks for a port of the receiving host that heard the sender although the right one did
// not: even unanswered, address resolution moves the counters of the port at the cable's end.
func stranger(before, after ports, from, to side) string {
	if after[from.port()].TxPackets == before[from.port()].TxPackets || after[to.port()].RxPackets != before[to.port()].RxPackets {
		return ""
	}
	return elsewhere(before, after, from, to, minimum{})
}
