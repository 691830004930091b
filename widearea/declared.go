package widearea

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// Far is far above the round-trip time in one building: 1 ms is about 100 km of fibre.
const Far = time.Millisecond

// Segment is a link or a network with what the files say about its distance.
type Segment struct {
	Block fabric.Block
	Title string // names it in a message: "Link wan"
	Role  string
	Span  fabric.Span
	Gbps  float64 // 0: not declared
	NICs  []fabric.NICRef
	Ping  fabric.PingCheck
}

// Segments returns all links and networks.
func Segments(f *fabric.Fabric) (out []Segment) {
	for _, l := range f.Links {
		out = append(out, ofLink(l))
	}
	for _, n := range f.Networks {
		out = append(out, ofNetwork(n))
	}
	return out
}

// SegmentOf returns the link or network of a path, with the ends of the path alone.
func SegmentOf(p fabric.Path) Segment {
	var s Segment
	if p.Link != nil {
		s = ofLink(p.Link)
	} else {
		s = ofNetwork(p.Network)
	}
	s.NICs = p.Endpoints[:]
	return s
}

func ofLink(l *fabric.Link) Segment {
	return Segment{l.Block, "Link " + l.Title(), l.Role, l.Span, l.ExpectGbps, l.Endpoints, l.Validate.Ping}
}

func ofNetwork(n *fabric.Network) Segment {
	return Segment{n.Block, "Network " + n.Title(), n.Role, n.Span, n.ExpectGbps, n.Members, n.Validate.Ping}
}

// Roundtrip returns what the files say about the round trip of a span, in seconds: declared, or not shorter than light needs.
func Roundtrip(s fabric.Span) Range {
	fibre := Fibre(s.DistanceKm).Value.Low
	if s.RTT == nil {
		return atLeast(fibre)
	}
	rtt, jitter := s.RTT.Seconds(), 0.0
	if s.Jitter != nil {
		jitter = s.Jitter.Seconds()
	}
	return Range{math.Max(fibre, rtt-jitter), math.Max(fibre, rtt+jitter)}
}

// Long reports whether the files declare the way so long that collectives over it wait for the distance. Jitter makes no way shorter.
func (s Segment) Long() bool {
	return Fibre(s.Span.DistanceKm).Value.Low > Far.Seconds() || s.Span.RTT != nil && *s.Span.RTT > Far
}

// Path returns what the files say about the way.
func (s Segment) Path(f *fabric.Fabric) Path {
	p := Path{RTT: Roundtrip(s.Span), Rate: atLeast(0), RateBy: "expect_gbps", MTU: math.MaxInt}
	if s.Gbps > 0 {
		p.Rate = Exactly(s.Gbps)
	}
	if s.Span.Loss != nil {
		if p.Loss = *s.Span.Loss / 100; p.Loss > 0 {
			p.LossBy = "declared"
		}
	}
	p.Soft = len(s.NICs) > 0
	for _, r := range s.NICs {
		n, h := f.NIC(r), f.Host(r.Host)
		if n == nil || h == nil {
			continue
		}
		if mtu := facts.ActiveMTU(n.MTU); mtu > 0 {
			p.MTU = min(p.MTU, mtu)
		}
		p.Soft = p.Soft && slices.ContainsFunc(h.RXE, func(x *fabric.RXE) bool {
			return x.NIC == r || x.Netdev != "" && x.Netdev == n.Netdev
		})
	}
	if p.MTU == math.MaxInt {
		p.MTU = largestMTU
	}
	p.Timeout, _ = Timeout(p.RTT)
	return p
}

// largestMTU is the largest of RDMA, in bytes.
const largestMTU = 4096

// NCCLOf returns how NCCL sends between NICs, by the variables that the files set for their hosts.
func NCCLOf(f *fabric.Fabric, nics []fabric.NICRef) NCCL {
	out, first := DefaultNCCL(), true
	for _, r := range nics {
		h := f.Host(r.Host)
		if h == nil {
			continue
		}
		one, vars := DefaultNCCL(), f.NCCLOf(h).Env
		number := func(names ...string) float64 {
			for _, name := range names {
				if v := env.ParseNumber(vars[name]); vars[name] != "" && v.Value > 0 && v.Value < 1<<40 && !fabric.IsSensitive(vars[name]) {
					return float64(v.Value)
				}
			}
			return 0
		}
		one.Buffer = buffers(cmp.Or(number("NCCL_BUFFSIZE"), ncclBuffer), cmp.Or(number("NCCL_LL128_BUFFSIZE"), ll128Buffer))
		if v := number("NCCL_IB_QPS_PER_CONNECTION"); v > 0 {
			one.Pairs = Exactly(v)
		}
		if v := number("NCCL_MAX_CTAS", "NCCL_MAX_NCHANNELS"); v > 0 {
			one.Channels.High = math.Min(v, mostChannels)
		}
		if v := number("NCCL_MIN_CTAS", "NCCL_MIN_NCHANNELS"); v > 0 {
			one.Channels.Low = math.Min(v, one.Channels.High)
		}
		if first {
			out, first = one, false
		}
		out.Buffer, out.Pairs, out.Channels = out.Buffer.either(one.Buffer), out.Pairs.either(one.Pairs), out.Channels.either(one.Channels)
	}
	return out
}

// Estimate is what the files say about a long link or network, and what it does to its workload.
type Estimate struct {
	Title    string   `json:"title"`
	Role     string   `json:"role"`
	Workload string   `json:"workload,omitempty"` // "": none declared
	Figures  []Figure `json:"figures"`
	Bound    *Bound   `json:"bound,omitempty"` // nil: none declared for the role
}

// Estimates returns an estimate for each link and network with a declared distance or a workload, and never nil.
func Estimates(f *fabric.Fabric) []Estimate {
	out := []Estimate{}
	for _, s := range Segments(f) {
		w, p := f.Workload(s.Span.Workload), s.Path(f)
		if s.Block.Invalid || w == nil && p.RTT.Low == 0 {
			continue
		}
		e := Estimate{Title: s.Title, Role: s.Role}
		if s.Span.DistanceKm > 0 {
			e.Figures = append(e.Figures, Fibre(s.Span.DistanceKm))
		}
		e.Figures = append(e.Figures, Filling(p, NCCLOf(f, s.NICs), s.Role == "training")...)
		if w != nil && !w.Invalid {
			effect := Work(w, s.Role, p, NCCLOf(f, s.NICs))
			e.Workload, e.Bound, e.Figures = w.Name, effect.Bound, append(e.Figures, effect.Figures...)
		}
		out = append(out, e)
	}
	return out
}

// Filling returns what it takes to fill a path, to keep it lossless, and to survive its losses.
func Filling(p Path, n NCCL, collectives bool) []Figure {
	if p.RTT.Low == 0 {
		return nil
	}
	out := []Figure{Window(p), PairsToFill(p)}
	if collectives {
		out = append(out, ChannelsToFill(p, n))
	}
	return append(out, LosslessBuffer(p), RetryTimeout(p), OneLoss(p))
}

// Check returns the problems of declared distances and workloads.
func Check(f *fabric.Fabric) (out []fabric.Problem) {
	all := Segments(f)
	for _, s := range all {
		if !s.Block.Invalid {
			out = append(out, checker{f, s}.check()...)
		}
	}
	for _, w := range f.Workloads {
		if !w.Invalid && w.Ranks > 0 && w.Ranks < w.Sites {
			out = append(out, problem(fabric.Error, w.At("ranks"), "Site without a rank",
				"Workload %s has %d ranks in all its %d sites together, so that a site would have none. Correct ranks or sites.", w.Name, w.Ranks, w.Sites))
		}
	}
	return append(out, unused(f.Workloads, all)...)
}

// unused warns about workloads that nothing uses, and about bounds by which nothing is judged.
func unused(workloads []*fabric.Workload, all []Segment) (out []fabric.Problem) {
	missing := func(at fabric.Pos, summary, detail string, a ...any) {
		p := problem(fabric.Warning, at, summary, detail, a...)
		p.Absence = true
		out = append(out, p)
	}
	for _, w := range workloads {
		roles := map[string]bool{}
		for _, s := range all {
			if string(s.Span.Workload) == w.Name {
				roles[s.Role] = true
			}
		}
		switch {
		case w.Invalid:
		case len(roles) == 0:
			missing(w.Pos, "Workload that nothing uses",
				"No link or network has workload = workload.%s, so nothing is judged by it. Set that where it crosses, or remove the workload.", w.Name)
		default:
			for _, b := range []struct {
				declared        bool
				attribute, role string
			}{
				{w.MaxStepSeconds != nil, "max_step_seconds", "training"},
				{w.MaxFirstTokenSeconds != nil, "max_first_token_seconds", "inference"},
				{w.CheckpointInterval != nil, "checkpoint_interval", "checkpoint"},
			} {
				if b.declared && !roles[b.role] {
					missing(w.At(b.attribute), "Bound by which nothing is judged",
						"%s is judged over links and networks of role %q, and none of those has workload = workload.%s. Correct the role, or remove %s.",
						b.attribute, b.role, w.Name, b.attribute)
				}
			}
		}
	}
	return out
}

type checker struct {
	f *fabric.Fabric
	Segment
}

func problem(of fabric.Severity, at fabric.Pos, summary, detail string, a ...any) fabric.Problem {
	return fabric.Problem{Severity: of, Summary: summary, Detail: fmt.Sprintf(detail, a...), Pos: at}
}

func (c checker) check() (out []fabric.Problem) {
	span, rtt := c.Span, Roundtrip(c.Span)
	fibre := Fibre(span.DistanceKm)
	if span.RTT != nil && span.RTT.Seconds() < fibre.Value.Low {
		out = append(out, problem(fabric.Error, c.Block.At("rtt"), "Round trip faster than light",
			"%s has rtt = %s, but light needs %s there and back: %s (%s). Set rtt to at least that, or correct distance_km.", c.Title, *span.RTT,
			fibre.Text(), fibre.Numbers, fibre.Source))
	}
	if span.RTT != nil && span.Jitter != nil && *span.Jitter >= *span.RTT {
		out = append(out, problem(fabric.Error, c.Block.At("jitter"), "Jitter as long as the round trip",
			"%s has rtt = %s and jitter = %s, by which an answer would come before its question. Jitter is how much longer or shorter single round trips are: "+
				"correct it, or rtt.", c.Title, *span.RTT, *span.Jitter))
	}
	if limit := c.Ping.MaxRTT; limit != nil && rtt.Low > limit.Seconds() {
		out = append(out, problem(fabric.Error, c.Block.Pos, "Round trip cannot be within max_rtt",
			"%s has max_rtt = %s, but its round trip takes %s by the declared distance. Set max_rtt to at least %s, or correct rtt and distance_km.",
			c.Title, *limit, rtt.In(Seconds), amount(rtt.Low, Seconds)))
	}
	w := c.f.Workload(span.Workload)
	judged := false
	if w != nil && !w.Invalid {
		if b := Work(w, c.Role, c.Path(c.f), NCCLOf(c.f, c.NICs)).Bound; b != nil {
			judged = true
			if b.Verdict == Broken {
				out = append(out, c.broken(w, *b))
			}
		}
	}
	if c.Role == "training" && !judged {
		out = append(out, c.unasked(rtt)...)
	}
	return slices.Concat(out, c.lossless(rtt), c.timeouts(), c.twoSites(rtt))
}

// twoSites warns about a long link of another role that is all there is between two groups of hosts with training links: a job of
// all hosts, as render nccl writes it, would cross it unasked.
func (c checker) twoSites(rtt Range) []fabric.Problem {
	if c.Role == "training" || !c.Long() {
		return nil
	}
	site := map[string]string{} // a host that trains, and the first host of its site
	for _, s := range Segments(c.f) {
		if s.Role != "training" || len(s.NICs) == 0 {
			continue
		}
		into := s.NICs[0].Host
		if site[into] == "" {
			site[into] = into
		}
		for _, r := range s.NICs {
			if from := site[r.Host]; from != "" && from != site[into] {
				for h, of := range site {
					if of == from {
						site[h] = site[into]
					}
				}
			}
			site[r.Host] = site[into]
		}
	}
	var ends []string
	for _, r := range c.NICs {
		if s := site[r.Host]; s != "" && !slices.ContainsFunc(ends, func(e string) bool { return site[e] == s }) {
			ends = append(ends, r.Host)
		}
	}
	if len(ends) < 2 {
		return nil
	}
	return []fabric.Problem{problem(fabric.Warning, c.Block.Pos, "Collectives would cross a wide area unasked",
		"%s and %s train, and no training link joins them: between them is %s%s, of role %q, with a round trip of %s. A job of all hosts would cross it. "+
			"If no job is to cross it, render one for each site with -host; the warning stays. If one is, give it role \"training\", and a workload with max_step_seconds.",
		ends[0], ends[1], strings.ToLower(c.Title[:1]), c.Title[1:], c.Role, rtt.In(Seconds))}
}

// lossless reports a lossless class that cannot stay so over the distance. Pauses of a class without an answer for a whole round trip
// need a buffer for all that is under way.
func (c checker) lossless(rtt Range) []fabric.Problem {
	class := ""
	for _, r := range c.NICs {
		if n := c.f.NIC(r); n != nil && n.QoS.Lossless() {
			class = n.QoS.Name
		}
	}
	need, at := LosslessBuffer(c.Path(c.f)), c.Block.At("buffer_bytes")
	has := c.Span.BufferBytes
	switch {
	case class == "" || !c.Long() || has != nil && *has >= need.Value.High:
		return nil
	case has != nil && *has < need.Value.Low:
		return []fabric.Problem{problem(fabric.Error, at, "Buffer too small for a lossless class",
			"%s has buffer_bytes = %s, but its NICs have the lossless class qos.%s, which takes %s: %s = %s. Without them packets are lost although "+
				"the class pauses. Give the switches more buffer, or the NICs a class without pfc.", c.Title, amount(*has, Bytes), class,
			need.Text(), need.Formula, need.Numbers)}
	}
	return []fabric.Problem{problem(fabric.Warning, at, "Lossless class over a wide area",
		"%s has NICs with the lossless class qos.%s, and its round trip takes %s. The switches at its ends must hold what is under way: %s = %s, %s. "+
			"Set buffer_bytes if they do, or give the NICs a class without pfc.", c.Title, class, rtt.In(Seconds), need.Formula, need.Numbers,
		need.Text())}
}

// broken reports a bound that cannot hold.
func (c checker) broken(w *fabric.Workload, b Bound) fabric.Problem {
	return problem(fabric.Error, c.Block.At("workload"), "Bound of the workload cannot hold",
		"%s, of role %q, with workload %s: the %s takes %s, and %s is %s. %s. %s.", c.Title, c.Role, w.Name, b.Of.Name, b.Of.Text(),
		b.Attribute, amount(b.Seconds, Seconds), b.By.Sentence(), strings.ToUpper(b.Cure()[:1])+b.Cure()[1:])
}

// unasked warns about collectives that would cross a long way without a bound that says how long they may take.
func (c checker) unasked(rtt Range) (out []fabric.Problem) {
	const cure = "Every training step would wait for it. If no job is to cross it, give it another role, and render a job for each site with -host. Otherwise "
	switch limit := c.Ping.MaxRTT; {
	case c.Long():
		out = append(out, problem(fabric.Warning, c.Block.Pos, "Collectives over a wide area",
			"%s has role \"training\", and its round trip takes %s. "+cure+"set max_step_seconds in a workload, by which it is judged.", c.Title, rtt.In(Seconds)))
	case limit != nil && *limit > Far:
		out = append(out, problem(fabric.Warning, c.Block.Pos, "Collectives over a wide area",
			"%s has role \"training\" but allows a round trip of %s. "+cure+"correct max_rtt.", c.Title, *limit))
	}
	return out
}

// timeouts reports a retry timeout of NCCL that is over before an answer can come.
func (c checker) timeouts() (out []fabric.Problem) {
	p := c.Path(c.f)
	need, _ := Timeout(p.RTT)
	said := map[fabric.Pos]bool{}
	for _, r := range c.NICs {
		h := c.f.Host(r.Host)
		if h == nil || c.Role != "training" || p.RTT.Low == 0 {
			continue
		}
		n := c.f.NCCLOf(h)
		text := n.Env["NCCL_IB_TIMEOUT"]
		v := env.ParseNumber(text)
		if text == "" || fabric.IsSensitive(text) || !v.Digits || v.Value < 1 || v.Value >= int64(need) {
			continue
		}
		from := c.f.NCCL
		if _, own := h.NCCL.Env["NCCL_IB_TIMEOUT"]; own {
			from = h.NCCL
		}
		if at := from.At("env"); !said[at] {
			said[at] = true
			out = append(out, problem(fabric.Error, at, "Retry timeout shorter than the round trip",
				"NCCL_IB_TIMEOUT = %s is %s (4.096 µs · 2^%s), but an answer over %s%s takes %s: each packet would be sent again before it can be "+
					"acknowledged. Set it to at least %d (%s), or remove it.", text, amount(ackTimeout(int(v.Value)), Seconds), text,
				strings.ToLower(c.Title[:1]), c.Title[1:], p.RTT.In(Seconds), need, amount(ackTimeout(need), Seconds)))
		}
	}
	return out
}
