package validators

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/probe"
)

// portGroups measures links that share a physical port together: each half alone says nothing of
// what the port carries.
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
				out = append(out, r.together(ctx, name, g, backwards))
			}
		}
	}
	return out
}

// together sends over all links of a group at once, in one direction.
func (r *run) together(ctx context.Context, name string, group []*trial, backwards bool) Result {
	first := group[0]
	res := Result{Check: "tcp", Link: "port group " + name, Host: first.path.Endpoints[0].Host, Peer: first.path.Endpoints[1].Host, Verdict: Pass, What: "together"}
	if backwards {
		res.Host, res.Peer = res.Peer, res.Host
	}
	rates := make([]float64, len(group))
	causes := make([]string, len(group))
	var wg sync.WaitGroup
	for i, t := range group {
		found := pairs(t.ends, false)
		switch {
		case t.why != "":
			res.Verdict, res.Cause = Skip, t.path.Name+": "+t.why
			return res
		case !t.path.Validate.TCP.Enabled:
			res.Verdict, res.Cause = Skip, t.path.Name+": disabled in validate"
			return res
		case len(found) == 0:
			res.Verdict, res.Cause = Skip, t.path.Name+": "+t.noPair()
			return res
		}
		wg.Go(func() { rates[i], causes[i] = t.share(ctx, found[0], backwards) })
	}
	wg.Wait()
	sum, parts := 0.0, make([]string, len(group))
	for i, t := range group {
		sum += rates[i]
		parts[i] = fmt.Sprintf("%s %.2f", t.path.Name, rates[i])
		if causes[i] != "" {
			res.Verdict, res.Cause = Fail, t.path.Name+": "+causes[i]
		}
	}
	res.Measured = fmt.Sprintf("%.2f Gb/s (%s)", sum, strings.Join(parts, ", "))
	need, text := r.groupThreshold(group)
	res.Expected = text
	if res.Verdict == Pass && sum < need {
		res.Verdict, res.Cause = Fail, "the halves together are slower than declared: one of them is not used, or the port, its PCIe lanes or the CPUs are shared by more than this"
	}
	return res
}

// share is one link's part of a group's measurement.
func (t *trial) share(ctx context.Context, p pair, backwards bool) (gbps float64, cause string) {
	from, to := t.ends[0], t.ends[1]
	if backwards {
		from, to, p = to, from, p.reverse()
	}
	before, err := t.ports(ctx, [2]side{from, to})
	var got probe.TCPResult
	if err == nil {
		_, got, err = t.transfer(ctx, t.path.Validate.TCP, from, to, p)
	}
	if err != nil {
		return 0, err.Error()
	}
	denied, err := t.prove(ctx, before, from, to, minimum{packets: 1, bytes: uint64(got.Bytes)})
	switch {
	case err != nil:
		return 0, err.Error()
	case got.Bytes == 0:
		return 0, "no payload arrived"
	case denied != "":
		return 0, "measured, but not over this cable: " + denied
	}
	return got.Gbps, ""
}

// groupThreshold is what the group must carry: the sum of what its links are expected to, and never
// more than the port negotiates.
func (r *run) groupThreshold(group []*trial) (gbps float64, text string) {
	if r.options.Lab && r.options.LabCapGbps == 0 {
		return 0, emulated
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
		return 0, "reported only: no speed is declared"
	}
	gbps = fraction * sum
	if r.options.Lab && port > r.options.LabCapGbps {
		gbps *= r.options.LabCapGbps / port
		return gbps, fmt.Sprintf("≥ %.2f Gb/s; lab links, %g Gb/s scaled to %g", gbps, port, r.options.LabCapGbps)
	}
	return gbps, fmt.Sprintf("≥ %.2f Gb/s", gbps)
}
