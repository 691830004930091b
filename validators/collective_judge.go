package validators

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/retry"
)

// collectiveFraction is the fraction of the links' ceiling that RDMA must reach if no threshold is declared.
// Headers take 2 % at an RDMA MTU of 4096, and 7 % at 1024.
const collectiveFraction = 0.8

// operations are checked on every rank, in this order. A broadcast is checked from the first rank and from
// the last one.
var operations = []string{"all_reduce", "broadcast", "send_recv"}

// values judges each operation's results on all ranks.
func (j *job) values(ranks []ended) (out []Result) {
	for _, op := range operations {
		out = append(out, j.operation(op, ranks))
	}
	return out
}

// operation judges one operation. It stops at the first rank with wrong values.
func (j *job) operation(op string, ranks []ended) Result {
	res := j.result(CollectiveData)
	res.Object, res.Setup = op, &Setup{Ranks: len(ranks)}
	checked := 0
	for _, e := range ranks {
		mine := 0
		for _, v := range e.Values {
			if v.Op != op {
				continue
			}
			if mine += v.Count; v.Wrong > 0 {
				res.Values = []Measurement{{Name: MetricValuesWrong, Value: float64(v.Wrong), OutOf: float64(v.Count),
					Threshold: exactly(0)}}
				return res.fails(fmt.Sprintf("rank %d on host %s: %d of %d values are wrong, the first at index %d (%d instead of %d): "+
					"data is corrupted on the way", e.Rank, e.host, v.Wrong, v.Count, v.At, v.Got, v.Want),
					"check memory, PCIe and GPUDirect of that host")
			}
		}
		if mine == 0 {
			return res.unmeasured(fmt.Sprintf("rank %d on host %s did not report this operation", e.Rank, e.host), "")
		}
		checked += mine
	}
	res.Values = []Measurement{{Name: MetricValuesWrong, OutOf: float64(checked), Threshold: exactly(0)}}
	return res
}

// bandwidth judges the largest size of the sweep. It passes only if the hosts' ports show that they carried it.
func (j *job) bandwidth(ctx context.Context, told account, before []moves) Result {
	res := j.result(BusBandwidth)
	sweep, world := told.sweep, j.world()
	res.Object, res.Setup = "all_reduce", &Setup{Ranks: world}
	if len(sweep) == 0 {
		return res.unmeasured("rank 0 reported no bandwidth", "")
	}
	for _, s := range sweep {
		res.Values = append(res.Values, Measurement{Name: MetricBusBandwidth, Value: collective.BusBandwidth(s, world),
			Unit: GBps, MessageBytes: s.Bytes})
	}
	largest := &res.Values[len(sweep)-1]
	largest.Threshold = j.threshold()
	met := largest.Met()
	if b := told.beyond; b != nil {
		res.Values = append(res.Values, Measurement{Name: MetricPassTime, Value: b.Seconds, Unit: Seconds, MessageBytes: b.Bytes})
	}
	port, err := j.proveCarried(ctx, before, sweep)
	res.Counters = port.counters
	switch {
	case err != nil:
		return res.fails(err.Error(), "")
	case port.denied != "":
		return res.fails("measured, but not over the fabric: "+port.denied, "")
	case !met:
		return res.fails("slower than required: possible causes are an unused rail, sockets instead of RDMA, "+
			"copies through host memory because GPUDirect is missing, or a NIC far from its GPU",
			"see the findings from the log, and run "+j.options.Invocation.Hint("show"))
	}
	return res
}

// ceiling returns the GB/s that the links of the slowest host can carry, or 0 if no speed is declared.
func (j *job) ceiling() float64 {
	speed := map[string]float64{} // Gb/s by host.nic
	for _, p := range j.fabric.Paths() {
		gbps := p.ExpectGbps
		if gbps == 0 {
			gbps = p.SpeedGbps
		}
		for _, e := range p.Endpoints {
			speed[e.String()] = max(speed[e.String()], gbps)
		}
	}
	least := math.Inf(1)
	for _, h := range j.hosts {
		sum := 0.0
		rails := j.rails(h)
		for _, n := range h.NICs {
			onRail := slices.ContainsFunc(rails, func(d facts.RDMADevice) bool { return d.Serves(n.Netdev) })
			if onRail || !usesRDMA(h) && n.Netdev == h.Socket {
				sum += speed[h.Name+"."+n.Name]
			}
		}
		least = min(least, sum/8)
	}
	return least
}

// threshold returns the least GB/s that passes.
func (j *job) threshold() *Threshold {
	top := j.ceiling()
	out := &Threshold{Ceiling: top}
	switch {
	case j.options.Lab:
		return notJudged(SharedLabLinks)
	case j.check.MinBusbwGBs != nil:
		out.AtLeast = j.check.MinBusbwGBs
	case top == 0:
		out.NotJudged = NothingDeclared
	case !slices.ContainsFunc(j.hosts, func(h launch.Host) bool { return !usesRDMA(h) }):
		least := collectiveFraction * top
		out.AtLeast, out.Fraction = &least, collectiveFraction
	default:
		out.NotJudged = NoBusbwDeclared
	}
	return out
}

// moves has the traffic counters of a host: of its socket interface, and of its RDMA ports.
type moves struct {
	socket probe.Counters
	rdma   map[rdmaKey]probe.RDMACounters
}

// traffic reads the counters of all hosts.
func (j *job) traffic(ctx context.Context) ([]moves, error) {
	out := make([]moves, len(j.hosts))
	for i, h := range j.hosts {
		var err error
		if out[i].socket, err = probe.ReadCounters.Call(ctx, j.fleet, h.Name, h.Socket); err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Name, err)
		}
		out[i].rdma = map[rdmaKey]probe.RDMACounters{}
		for _, d := range j.rails(h) {
			if out[i].rdma[rdmaKey{h.Name, d.Name, d.Port}], err = probe.ReadRDMACounters.Call(ctx, j.fleet, h.Name,
				probe.RDMAPort{Device: d.Name, Port: d.Port}); err != nil {
				return nil, fmt.Errorf("host %s: %w", h.Name, err)
			}
		}
	}
	return out, nil
}

// proveCarried reads the counters until they show what every host must have sent, or until lateCounters is over.
// In an all-reduce over n hosts, each host sends at least (n-1)/n of the payload.
func (j *job) proveCarried(ctx context.Context, before []moves, sweep []collective.Sweep) (all proof, err error) {
	payload := 0.0
	for _, s := range sweep {
		payload += float64(s.Bytes) * float64(s.Iterations)
	}
	payload *= float64(len(j.hosts)-1) / float64(len(j.hosts))
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := j.traffic(ctx)
		if err != nil {
			return proof{}, err
		}
		all = proof{}
		for i, h := range j.hosts {
			p := proveSent(h, before[i], after[i], payload)
			all.counters = append(all.counters, p.counters...)
			if p.denied != "" && all.denied == "" {
				all.denied = "host " + h.Name + ": " + p.denied
			}
		}
		if all.denied == "" || time.Now().After(deadline) {
			return all, nil
		}
		if retry.Pause(ctx, lateCounters/5) != nil {
			return proof{}, ctx.Err()
		}
	}
}

// proveSent checks that a host's ports sent the payload. An RDMA packet has at most 4096 bytes. A port that sent
// less than a hundredth of its share counts as idle.
func proveSent(h launch.Host, before, after moves, payload float64) (p proof) {
	if !usesRDMA(h) {
		n := grown(before.socket.TxBytes, after.socket.TxBytes)
		if p.counters = []Movement{{Port: h.Name + "." + h.Socket, Counter: "tx_bytes", Rise: n,
			AtLeast: uint64(payload)}}; float64(n) < payload {
			p.denied = fmt.Sprintf("%s sent %d bytes instead of at least %.0f", h.Socket, n, payload)
		}
		return p
	}
	total, idle := 0.0, ""
	for _, port := range slices.SortedFunc(maps.Keys(after.rdma),
		func(a, b rdmaKey) int { return strings.Compare(a.String(), b.String()) }) {
		name, n, there := rise(before.rdma[port], after.rdma[port], packetsOut)
		at := fmt.Sprintf("%s:%d", port.device, port.port)
		if !there {
			return proof{denied: at + " has no packet counters, so it is unknown whether it carried the traffic"}
		}
		p.counters = append(p.counters, Movement{Port: port.String(), Counter: name, Rise: n})
		if total += float64(n); float64(n) < payload/4096/float64(len(after.rdma))/100 {
			idle = at
		}
	}
	switch {
	case total < payload/4096:
		p.denied = fmt.Sprintf("its RDMA devices sent %.0f packets instead of at least %.0f", total, payload/4096)
	case idle != "":
		p.denied = idle + " carried none of the traffic, although NCCL may use this port"
	}
	return p
}
