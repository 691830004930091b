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
)

// collectiveFraction of the links' ceiling is what RDMA must reach where no threshold is declared.
// Headers take 2 % at an RDMA MTU of 4096, and 7 % at 1024.
const collectiveFraction = 0.8

// operations are checked on every rank, in this order; a broadcast once from the first and once from
// the last rank.
var operations = []string{"all_reduce", "broadcast", "send_recv"}

// values judges each operation's results on all ranks.
func (j *job) values(ranks []ended) (out []Result) {
	for _, op := range operations {
		res := j.result(Pass, op+" values")
		checked := 0
		for _, e := range ranks {
			mine := 0
			for _, v := range e.Values {
				if v.Op != op {
					continue
				}
				mine += v.Count
				if v.Wrong > 0 && res.Verdict == Pass {
					res.Verdict, res.Measured, res.Expected = Fail, "wrong", "all right"
					res.Cause = fmt.Sprintf("rank %d on host %s: %d of %d values are wrong; the first is number %d, %d instead of %d: data is damaged on its way, so look at memory, PCIe and GPUDirect of that host", e.Rank, e.host, v.Wrong, v.Count, v.At, v.Got, v.Want)
				}
			}
			if mine == 0 && res.Verdict == Pass {
				res.Verdict, res.Measured, res.Cause = Fail, unmeasured, fmt.Sprintf("rank %d on host %s did not tell of it", e.Rank, e.host)
			}
			checked += mine
		}
		if res.Verdict == Pass {
			res.Measured = fmt.Sprintf("%d on %d ranks, all right", checked, len(ranks))
		}
		out = append(out, res)
	}
	return out
}

// bandwidth judges the largest size of the sweep, if the hosts' ports show that they carried it.
func (j *job) bandwidth(ctx context.Context, told account, before []moves) Result {
	res := j.result(Pass, "all_reduce")
	sweep, world := told.sweep, j.world()
	if len(sweep) == 0 {
		res.Verdict, res.Measured, res.Cause = Fail, unmeasured, "rank 0 told of no size"
		return res
	}
	all := make([]string, 0, len(sweep))
	for _, s := range sweep {
		all = append(all, fmt.Sprintf("%s %s", size(int(min(s.Bytes, math.MaxInt32))), short(collective.BusBandwidth(s, world))))
	}
	last := sweep[len(sweep)-1]
	got := collective.BusBandwidth(last, world)
	res.Measured = fmt.Sprintf("%s GB/s bus bandwidth at %s (%s)", short(got), size(int(min(last.Bytes, math.MaxInt32))), strings.Join(all, ", "))
	if b := told.beyond; b != nil {
		res.Measured += fmt.Sprintf("; ended before %s: one pass would take %s s", size(int(min(b.Bytes, math.MaxInt32))), short(b.Seconds))
	}
	need, text := j.threshold()
	res.Expected = text
	if denied, err := j.carried(ctx, before, sweep); err != nil {
		res.Verdict, res.Cause = Fail, err.Error()
	} else if denied != "" {
		res.Verdict, res.Cause = Fail, "measured, but not over the fabric: "+denied
	} else if got < need {
		res.Verdict, res.Cause = Fail, "slower than that: a rail that is not used, sockets instead of RDMA, memory copies for want of GPUDirect, or a NIC far from its GPU; the log's findings and `fabricform show` tell"
	}
	return res
}

// ceiling is what the narrowest host's links carry in GB/s; 0: no speed is declared.
func (j *job) ceiling() float64 {
	speed := map[string]float64{} // host.netdev's NIC
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
			onRail := slices.ContainsFunc(rails, func(d facts.RDMADevice) bool { return d.Netdev == n.Netdev })
			if onRail || !usesRDMA(h) && n.Netdev == h.Socket {
				sum += speed[h.Name+"."+n.Name]
			}
		}
		least = min(least, sum/8)
	}
	return least
}

// threshold is the least GB/s that passes.
func (j *job) threshold() (float64, string) {
	top := j.ceiling()
	of := ""
	if top > 0 {
		of = fmt.Sprintf("; the links carry %s GB/s", short(top))
	}
	switch {
	case j.options.Lab:
		return 0, "reported only: a lab's links are shared"
	case j.check.MinBusbwGBs != nil:
		return *j.check.MinBusbwGBs, fmt.Sprintf("≥ %s GB/s%s", short(*j.check.MinBusbwGBs), of)
	case top == 0:
		return 0, "reported only: neither min_busbw_gbs nor a speed is declared"
	case !slices.ContainsFunc(j.hosts, func(h launch.Host) bool { return !usesRDMA(h) }):
		return collectiveFraction * top, fmt.Sprintf("≥ %s GB/s, %g %% of what the links carry", short(collectiveFraction*top), 100*collectiveFraction)
	}
	return 0, "reported only: sockets, and no min_busbw_gbs is declared" + of
}

// moves is what a host's ports have sent: bytes of the socket interface, or packets of RDMA devices' ports,
// by device:port.
type moves struct {
	socket probe.Counters
	rdma   map[string]probe.RDMACounters
}

func (j *job) traffic(ctx context.Context) ([]moves, error) {
	out := make([]moves, len(j.hosts))
	for i, h := range j.hosts {
		var err error
		if out[i].socket, err = j.fleet.Counters(ctx, h.Name, h.Socket); err != nil {
			return nil, fmt.Errorf("host %s: %w", h.Name, err)
		}
		out[i].rdma = map[string]probe.RDMACounters{}
		for _, d := range j.rails(h) {
			if out[i].rdma[fmt.Sprintf("%s:%d", d.Name, d.Port)], err = j.fleet.RDMACounters(ctx, h.Name, d.Name, d.Port); err != nil {
				return nil, fmt.Errorf("host %s: %w", h.Name, err)
			}
		}
	}
	return out, nil
}

// carried reads the counters until they show what every host has sent at the very least: of an
// all-reduce, what the other hosts do not have yet.
func (j *job) carried(ctx context.Context, before []moves, sweep []collective.Sweep) (denied string, err error) {
	payload := 0.0
	for _, s := range sweep {
		payload += float64(s.Bytes) * float64(s.Iterations)
	}
	payload *= float64(len(j.hosts)-1) / float64(len(j.hosts))
	for deadline := time.Now().Add(lateCounters); ; {
		after, err := j.traffic(ctx)
		if err != nil {
			return "", err
		}
		denied = ""
		for i, h := range j.hosts {
			if why := missing(h, before[i], after[i], payload); why != "" {
				denied = "host " + h.Name + ": " + why
				break
			}
		}
		if denied == "" || time.Now().After(deadline) {
			return denied, nil
		}
		if !rest(ctx, lateCounters/5) {
			return "", ctx.Err()
		}
	}
}

// missing says what a host's ports should have sent and have not. An RDMA packet has 4096 bytes at the
// most; a port that carried less than a hundredth of its share carried nothing of it.
func missing(h launch.Host, before, after moves, payload float64) string {
	if !usesRDMA(h) {
		if sent := float64(grown(before.socket.TxBytes, after.socket.TxBytes)); sent < payload {
			return fmt.Sprintf("%s sent %.0f bytes, of at least %.0f", h.Socket, sent, payload)
		}
		return ""
	}
	total, idle := 0.0, ""
	for _, port := range slices.Sorted(maps.Keys(after.rdma)) {
		n, there := rise(before.rdma[port], after.rdma[port], packetsOut)
		if !there {
			return port + " has no counters of packets, so nothing proves what it carried"
		}
		if total += float64(n); float64(n) < payload/4096/float64(len(after.rdma))/100 {
			idle = port
		}
	}
	switch {
	case total < payload/4096:
		return fmt.Sprintf("its RDMA devices sent %.0f packets, of at least %.0f", total, payload/4096)
	case idle != "":
		return idle + " carried nothing of it, and is one of the ports that NCCL may use"
	}
	return ""
}
