package validators

import (
	"context"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/probe"
)

// portGroups measures together the links that share a physical port: each link alone does not show the
// port's throughput.
func (r *run) portGroups(ctx context.Context, trials []*trial) []Result {
	groups := map[string][]*trial{}
	var order []string
	for _, t := range trials {
		if g := t.path.PortGroup; g != "" {
			if groups[g] == nil {
				order = append(order, g)
			}
			groups[g] = append(groups[g], t)
		}
	}
	var out []Result
	for _, name := range order {
		if g := groups[name]; len(g) > 1 {
			r.options.progress("tcp: port group " + name)
			for _, backwards := range []bool{false, true} {
				out = append(out, r.together(ctx, name, g, backwards)...)
			}
		}
	}
	return out
}

// together sends over all links of a group at once, in one direction. Further results name congestion, by link, if there was any.
func (r *run) together(ctx context.Context, name string, group []*trial, backwards bool) []Result {
	res := group[0].both(CheckTCP, GroupThroughput)
	if res.Subject = (Subject{Kind: SubjectGroup, Name: name}); backwards {
		res.Host, res.Peer = res.Peer, res.Host
	}
	shares := make([]share, len(group))
	found := make([][]pair, len(group))
	for i, t := range group {
		found[i] = pairs(t.ends, false)
		switch {
		case t.skip != "":
			return []Result{res.skips(t.skip, t.path.Name+": "+t.why)}
		case !t.path.Validate.TCP.Enabled:
			return []Result{res.skips(Disabled, t.path.Name+": disabled in the validate block")}
		case len(found[i]) == 0:
			return []Result{res.skips(NoAddressPair, t.path.Name+": "+t.noPair())}
		}
	}
	parallel.Each(0, group, func(i int, t *trial) { shares[i] = t.share(ctx, name, found[i][0], backwards) })
	sum := Measurement{Name: MetricThroughput, Unit: Gbps, Threshold: r.groupThreshold(group)}
	parts := make([]Measurement, len(group))
	for i, t := range group {
		sum.Value += shares[i].gbps
		parts[i] = Measurement{Name: MetricThroughput, Value: shares[i].gbps, Unit: Gbps, Of: t.path.Name}
		res.Counters = append(res.Counters, shares[i].counters...)
		if shares[i].cause != "" {
			res = res.fails(t.path.Name+": "+shares[i].cause, "")
		}
	}
	res.Values = append([]Measurement{sum}, parts...)
	if res.Verdict == Pass && !sum.Met() {
		res = res.fails("the links together are slower than declared: "+
			"one of them is not used, or other traffic shares the port, its PCIe lanes or the CPUs", "")
	}
	if res.Verdict == Pass {
		res = res.judgedBy(sum)
	}
	out := []Result{res}
	for _, s := range shares {
		out = append(out, s.congestion...)
	}
	return out
}

// share is one link's part of a group's measurement; cause says why it does not count, if so.
type share struct {
	gbps       float64
	cause      string
	counters   []Movement
	congestion []Result
}

// share sends over one link of the group of that name.
func (t *trial) share(ctx context.Context, group string, p pair, backwards bool) share {
	from, to := t.ends[0], t.ends[1]
	if backwards {
		from, to, p = to, from, p.reverse()
	}
	w := t.watch(ctx, from.tap(), to.tap())
	w.sends = t.path.Validate.TCP.Duration
	out := t.part(ctx, from, to, p)
	res := t.result(CheckTCP, Congested, from.host, to.host)
	res.Object = group
	out.congestion = w.congested(ctx, res, [2]*fabric.NIC{from.spec, to.spec}, [2]func([]string) Movement{})
	return out
}

// part measures the link's part in one direction.
func (t *trial) part(ctx context.Context, from, to side, p pair) share {
	before, err := t.ports(ctx, [2]side{from, to})
	var got probe.TCPResult
	if err == nil {
		_, got, err = t.transfer(ctx, t.path.Validate.TCP, from, to, p)
	}
	if err != nil {
		return share{cause: err.Error()}
	}
	port, err := t.prove(ctx, before, from, to, minimum{packets: 1, bytes: uint64(got.Bytes)})
	switch {
	case err != nil:
		return share{cause: err.Error()}
	case got.Bytes == 0:
		return share{cause: "no payload arrived", counters: port.counters}
	case port.denied != "":
		return share{cause: "measured, but not over this cable: " + port.denied, counters: port.counters}
	}
	return share{gbps: got.Gbps, counters: port.counters}
}

// groupThreshold returns the least throughput of the group in Gb/s: the sum of its links' thresholds, but at
// most the port's negotiated speed.
func (r *run) groupThreshold(group []*trial) *Threshold {
	if r.options.Lab && r.options.LabCapGbps == 0 {
		return notJudged(VirtualMachines)
	}
	sum, port, fraction := 0.0, 0.0, 1.0
	for _, t := range group {
		sum += t.path.ExpectGbps
		port = max(port, t.path.SpeedGbps)
		f := defaultFraction
		if own := t.path.Validate.TCP.MinFraction; own != nil {
			f = *own
		}
		fraction = min(fraction, f)
	}
	if port > 0 {
		sum = min(sum, port)
	}
	if sum == 0 {
		return notJudged(NothingDeclared)
	}
	if r.options.Lab && port > r.options.LabCapGbps {
		out := atLeast(fraction * sum * r.options.LabCapGbps / port)
		out.LabGbps, out.DeclaredGbps = r.options.LabCapGbps, port
		return out
	}
	return atLeast(fraction * sum)
}
