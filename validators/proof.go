package validators

import (
	"context"
	"fmt"
	"strings"

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
		for _, n := range r.fabric.Host(s.host).NICs {
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

// moved says whether the sender's port sent and the receiver's port received the test; where not,
// why tells which ports moved instead.
func moved(before, after ports, from, to side, least minimum) (ok bool, why string) {
	tx := after[from.port()].TxPackets - before[from.port()].TxPackets
	txBytes := after[from.port()].TxBytes - before[from.port()].TxBytes
	rx := after[to.port()].RxPackets - before[to.port()].RxPackets
	rxBytes := after[to.port()].RxBytes - before[to.port()].RxBytes
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
		if strange && c.RxPackets > before[port].RxPackets && c.RxPackets-before[port].RxPackets >= max(least.packets, 1) {
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
