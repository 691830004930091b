package widearea

import (
	"fmt"
	"math"
	"strings"

	"github.com/fabricform/fabricform/fabric"
)

const (
	sourceKV         = "KV cache: keys and values of each layer, head and token (Shazeer, arXiv:1911.02150; Ainslie et al., arXiv:2305.13245)"
	sourceHandover   = "bytes over rate, and half a round trip for a push or a whole one for a pull"
	sourceCheckpoint = "bytes over rate, and half a round trip, or a whole one until it is confirmed"
	sourceState      = "2 bytes for each parameter of weights alone, 14 with Adam's state (Rajbhandari et al., arXiv:1910.02054)"
	softRate         = "what the processors that run Soft-RoCE send"
	sourceStep       = "from all of the all-reduce hidden behind the step to none of it"
	sourceFirst      = "from the hand-over hidden behind the prefill, layer by layer, to one after the other (Patel et al., arXiv:2311.18677)"
)

// formats are the bytes of a number.
var formats = map[string]float64{"fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1, "fp4": 0.5}

// bytesOf returns the bytes of a number in a format; "" may be any.
func bytesOf(format string, any Range) Range {
	if b, known := formats[format]; known {
		return Exactly(b)
	}
	return any
}

var (
	anyGradient = Range{1, 4}   // fp8 to fp32
	anyCache    = Range{0.5, 4} // fp4 to fp32
	anyState    = Range{2, 14}  // bytes of a checkpoint for each parameter
)

// declared is a number that may be missing.
func declared(v *float64) Range {
	if v == nil {
		return unknown
	}
	return Exactly(*v)
}

func count(n int) Range {
	if n == 0 {
		return atLeast(1)
	}
	return Exactly(float64(n))
}

// KVCache returns the size of the KV cache of a prompt.
func KVCache(w *fabric.Workload) Figure {
	f := Figure{Name: "KV cache", Unit: Bytes, Source: sourceKV, Formula: "2 · layers · kv_heads · head_size · tokens · bytes",
		Limits: "keys and values of full attention; for other models set kv_token_bytes"}
	if w.KVTokenBytes != nil {
		f.Value, f.Formula, f.Source, f.Limits = Exactly(*w.KVTokenBytes).times(count(w.Tokens)), "kv_token_bytes · tokens", "declared", ""
		f.Numbers = fmt.Sprintf("%s · %s", amount(*w.KVTokenBytes, Bytes), count(w.Tokens).In(Count))
		return f
	}
	format := w.KVPrecision
	if format == "" {
		format = w.Precision
	}
	each := bytesOf(format, anyCache)
	f.Value = Exactly(2).times(count(w.Layers)).times(count(w.KVHeads)).times(count(w.HeadSize)).times(count(w.Tokens)).times(each)
	f.Numbers = fmt.Sprintf("2 · %s · %s · %s · %s · %s", count(w.Layers).In(Count), count(w.KVHeads).In(Count), count(w.HeadSize).In(Count),
		count(w.Tokens).In(Count), each.In(Bytes))
	return f
}

// transfer returns the seconds until so many bytes are across.
func transfer(bytes, rate, rtt Range) Range {
	return bytes.over(rate).times(Exactly(8e-9)).plus(Range{rtt.Low / 2, rtt.High})
}

// across is a transfer as a figure.
func across(name, source string, bytes, rate Range, p Path) Figure {
	return Figure{Name: name, Unit: Seconds, Value: transfer(bytes, rate, p.RTT), Formula: "bytes / B + RTT/2 to RTT", Source: source,
		Numbers: fmt.Sprintf("%s / %s + half to all of %s", bytes.In(Bytes), rate.In(Gbps), p.RTT.In(Seconds))}
}

// Checkpoint returns the size of a checkpoint.
func Checkpoint(w *fabric.Workload) Figure {
	f := Figure{Name: "checkpoint", Unit: Bytes, Formula: "checkpoint_bytes", Source: "declared"}
	if w.CheckpointBytes != nil {
		f.Value, f.Numbers = Exactly(*w.CheckpointBytes), amount(*w.CheckpointBytes, Bytes)
		return f
	}
	f.Value, f.Formula, f.Source = declared(w.Parameters).times(anyState), "parameters · 2 to 14 B", sourceState
	f.Numbers = fmt.Sprintf("%s · 2 to 14 B", declared(w.Parameters).In(Count))
	return f
}

// Gradients returns how much a training step reduces.
func Gradients(w *fabric.Workload) Figure {
	each := bytesOf(w.Precision, anyGradient)
	return Figure{Name: "gradients", Unit: Bytes, Value: declared(w.Parameters).times(each), Formula: "parameters · bytes",
		Numbers: fmt.Sprintf("%s · %s", declared(w.Parameters).In(Count), each.In(Bytes)), Source: "data-parallel training: each replica has all gradients",
		Limits: "all ranks of a replica together; other forms of parallelism over the link move other amounts"}
}

// Verdict says whether a bound can hold.
type Verdict string

// The verdicts.
const (
	Holds     Verdict = "holds"     // with all values that the inputs allow
	Undecided Verdict = "undecided" // with some of them
	Broken    Verdict = "broken"    // with none
)

// Bound is a declared bound and what becomes of it.
type Bound struct {
	Attribute string   `json:"attribute"` // of the workload
	Seconds   float64  `json:"seconds"`
	Of        Figure   `json:"of"` // what is bounded, in seconds
	By        Figure   `json:"by"` // the part of it that decides the lower end
	Verdict   Verdict  `json:"verdict"`
	Unknown   []string `json:"unknown,omitempty"`  // what would have to be known: attributes, and what cannot be declared; empty unless Undecided
	Would     []string `json:"would_do,omitempty"` // each of which would hold instead; empty unless Broken
	NoLink    bool     `json:"-"`                  // Broken, and no other link of this distance would hold
}

// Open says what must be known to prove that an undecided bound holds.
func (b Bound) Open() string { return "unknown: " + strings.Join(b.Unknown, ", ") }

// Cure names what would hold instead.
func (b Bound) Cure() string {
	text := "any one of these would hold: " + strings.Join(b.Would, "; ")
	if len(b.Would) == 1 {
		text = "this would hold: " + b.Would[0]
	}
	if b.NoLink {
		text += "; a faster link would not"
	}
	return text
}

// propose adds another link that would hold a broken bound; "": there is none.
func (b *Bound) propose(link string) {
	if b.NoLink = link == ""; !b.NoLink {
		b.Would = append(b.Would, link)
	}
}

// input is something that a figure depends on: an attribute, or what cannot be declared.
type input struct {
	known bool
	name  string
}

// judge compares a figure with a bound. rest is what stays unknown if all inputs are known.
func judge(attribute string, limit float64, of, by Figure, rest string, inputs ...input) *Bound {
	b := &Bound{Attribute: attribute, Seconds: limit, Of: of, By: by, Verdict: Undecided}
	switch {
	case of.Value.Low > limit:
		b.Verdict = Broken
	case of.Value.High <= limit:
		b.Verdict = Holds
	default:
		for _, in := range inputs {
			if !in.known {
				b.Unknown = append(b.Unknown, in.name)
			}
		}
		if len(b.Unknown) == 0 {
			b.Unknown = []string{rest}
		}
	}
	return b
}

// inputs returns what must be known of a path.
func (p Path) inputs() []input {
	return []input{{p.RTT.Bounded(), "rtt"}, {p.Rate.Low > 0, p.RateBy}, {p.Loss == 0, "which packets are lost"}}
}

// Effect is what a path does to the part of a workload that its role names.
type Effect struct {
	Figures []Figure
	Bound   *Bound // nil: the workload declares none for this role
}

// Work returns what a path does to a workload. Links of the role storage carry no part of a workload.
func Work(w *fabric.Workload, role string, p Path, n NCCL) Effect {
	switch role {
	case "training":
		return step(w, p, n)
	case "inference":
		return firstToken(w, p)
	case "checkpoint":
		return checkpoint(w, p)
	}
	return Effect{}
}

// training is an all-reduce for each of some steps.
type training struct {
	w    *fabric.Workload
	p    Path
	n    NCCL
	each float64 // steps for each all-reduce
}

// rate returns what NCCL gets through, and the figures that say so. Of a path with losses only the upper end is known.
func (t training) rate() (Range, []Figure) {
	all := t.n.Communicators.times(t.n.Channels).times(t.n.Pairs)
	channels, pairs := ChannelRate(t.p, t.n), PairRate(t.p, all)
	rate, out := t.p.Rate.least(channels.Value).least(pairs.Value), []Figure{channels, pairs}
	if t.p.Loss > 0 {
		rate, out = atMost(rate.High), append(out, Goodput(t.p, all))
	}
	return rate, out
}

// reduce returns the figures of the all-reduce over a rate, and the seconds that it takes.
func (t training) reduce(rate, rtt Range) ([]Figure, Range) {
	a := AllReduce{Bytes: Gradients(t.w).Value, Ranks: atLeast(float64(t.w.Sites)), Sites: t.w.Sites, Rate: rate, RTT: rtt}
	if t.w.Ranks > 0 {
		a.Ranks = Exactly(float64(t.w.Ranks))
	}
	ring, hier := Ring(a), Hierarchical(a)
	switch t.w.AllReduce {
	case "ring":
		return []Figure{ring}, ring.Value
	case "hierarchical":
		return []Figure{hier}, hier.Value
	}
	return []Figure{ring, hier}, ring.Value.either(hier.Value)
}

// behind returns the seconds of two things together: from the shorter hidden behind the longer to one after the other.
func behind(own, other Range) Range {
	return Range{math.Max(own.Low, other.Low), own.High + other.High}
}

// slower returns the figure that decides the lower end of behind: that of both together, if own does.
func slower(own, other float64, both, of Figure) Figure {
	if own > other {
		return both
	}
	return of
}

// communicators returns how many send over the link at the same time. One ring of all ranks is one, and so is a rank for each site: a
// hierarchical all-reduce has one for each shard, and who did not say how gradients are reduced may have some for each group of model parallelism.
func communicators(w *fabric.Workload) Range {
	if w.AllReduce == "ring" || w.Ranks > 0 && w.Ranks == w.Sites {
		return Exactly(1)
	}
	return atLeast(1)
}

func step(w *fabric.Workload, p Path, n NCCL) Effect {
	n.Communicators = communicators(w)
	t := training{w, p, n, float64(max(w.StepsPerSync, 1))}
	rate, more := t.rate()
	e := Effect{Figures: append([]Figure{Gradients(w)}, more...)}
	reduced, took := t.reduce(rate, p.RTT)
	e.Figures = append(e.Figures, reduced...)
	f := Figure{Name: "training step", Unit: Seconds, Value: behind(declared(w.StepSeconds), took.times(Exactly(1/t.each))), Formula: "max(step, all-reduce) to step + all-reduce", Source: sourceStep,
		Numbers: fmt.Sprintf("step %s, all-reduce %s", declared(w.StepSeconds).In(Seconds), took.In(Seconds))}
	if t.each > 1 {
		f.Formula, f.Numbers = "max(step, all-reduce/steps) to step + all-reduce/steps", f.Numbers+fmt.Sprintf(", every %g steps", t.each)
	}
	e.Figures = append(e.Figures, f)
	if w.MaxStepSeconds == nil {
		return e
	}
	by := reduced[0]
	if last := reduced[len(reduced)-1]; last.Value.Low < by.Value.Low {
		by = last
	}
	own := declared(w.StepSeconds).Low
	e.Bound = judge("max_step_seconds", *w.MaxStepSeconds, f, slower(own, took.Low/t.each, f, by), "how much of the all-reduce hides behind the step", append(p.inputs(),
		input{w.Parameters != nil, "parameters"}, input{w.Precision != "", "precision"}, input{w.StepSeconds != nil, "step_seconds"},
		input{w.AllReduce != "", "all_reduce"}, input{w.Ranks > 0 || w.AllReduce == "hierarchical", "ranks"},
		input{n.Channels.Known(), "how many channels NCCL has (NCCL_MIN_CTAS in nccl.env sets the fewest)"},
		input{p.Soft, "how much the NICs have in flight, which is not published"})...)
	b := e.Bound
	if b.Verdict != Broken {
		return e
	}
	b.Would = []string{"max_step_seconds = " + upwards(f.Value.Low)}
	if b.NoLink = own > b.Seconds; b.NoLink {
		return e
	}
	if k := math.Ceil(took.Low / b.Seconds); b.Seconds > 0 && k < 1e6 {
		b.Would = append(b.Would, fmt.Sprintf("steps_per_sync = %g", k))
	}
	fits := func(rate, rtt float64) bool {
		_, took := t.reduce(Exactly(rate), Exactly(rtt))
		return took.Low/t.each <= b.Seconds
	}
	b.propose(instead(p, rate, fits))
	return e
}

func firstToken(w *fabric.Workload, p Path) Effect {
	kv := KVCache(w)
	hand := across("hand-over of the KV cache", sourceHandover, kv.Value, p.effective(), p)
	own := declared(w.PrefillSeconds)
	f := Figure{Name: "first token", Unit: Seconds, Value: behind(own, hand.Value),
		Formula: "max(prefill, hand-over) to prefill + hand-over", Source: sourceFirst,
		Numbers: fmt.Sprintf("prefill %s, hand-over %s", own.In(Seconds), hand.Text())}
	e := Effect{Figures: []Figure{kv, hand, f}}
	if w.MaxFirstTokenSeconds == nil {
		return e
	}
	each := w.KVTokenBytes != nil
	e.Bound = judge("max_first_token_seconds", *w.MaxFirstTokenSeconds, f, slower(own.Low, hand.Value.Low, f, hand), "how much of the hand-over hides behind the prefill", append(p.inputs(),
		input{each || w.Layers > 0, "layers"}, input{each || w.KVHeads > 0, "kv_heads"}, input{each || w.HeadSize > 0, "head_size"},
		input{w.Tokens > 0, "tokens"}, input{each || w.KVPrecision != "" || w.Precision != "", "kv_precision"},
		input{w.PrefillSeconds != nil, "prefill_seconds"}, input{!p.Soft, softRate})...)
	b := e.Bound
	if b.Verdict != Broken {
		return e
	}
	b.Would = []string{"max_first_token_seconds = " + upwards(f.Value.Low)}
	if b.NoLink = own.Low > b.Seconds; b.NoLink {
		return e
	}
	if left := b.Seconds - p.RTT.Low/2; w.Tokens > 0 && left > 0 {
		if n := math.Floor(float64(w.Tokens) * left / (hand.Value.Low - p.RTT.Low/2)); n >= 1 && n < float64(w.Tokens) {
			b.Would = append(b.Would, fmt.Sprintf("tokens = %.0f", n))
		}
	}
	b.propose(instead(p, p.effective(), within(kv.Value, b.Seconds)))
	return e
}

func checkpoint(w *fabric.Workload, p Path) Effect {
	size := Checkpoint(w)
	f := across("transfer of a checkpoint", sourceCheckpoint, size.Value, p.effective(), p)
	f.Limits = "checkpoints cannot follow each other faster than this"
	e := Effect{Figures: []Figure{size, f}}
	if w.CheckpointInterval == nil {
		return e
	}
	e.Bound = judge("checkpoint_interval", w.CheckpointInterval.Seconds(), f, f, "whether the sender waits until it is confirmed", append(p.inputs(),
		input{w.CheckpointBytes != nil, "checkpoint_bytes"}, input{!p.Soft, softRate})...)
	if b := e.Bound; b.Verdict == Broken {
		b.Would = []string{fmt.Sprintf("checkpoint_interval = \"%ss\"", upwards(f.Value.Low))}
		b.propose(instead(p, p.effective(), within(size.Value, b.Seconds)))
	}
	return e
}

// effective is the rate for work that opens as many queue pairs or connections as it needs: that of the link. Where packets are lost,
// or processors send them, only its upper end is known.
func (p Path) effective() Range {
	if p.Loss > 0 || p.Soft {
		return atMost(p.Rate.High)
	}
	return p.Rate
}

// within returns whether so many bytes are across in time, over a rate and a round trip.
func within(bytes Range, limit float64) func(rate, rtt float64) bool {
	return func(rate, rtt float64) bool { return transfer(bytes, Exactly(rate), Exactly(rtt)).Low <= limit }
}

// instead names the link that would do: a rate, or a shorter way; "" if there is none.
func instead(p Path, has Range, fits func(rate, rtt float64) bool) string {
	const most = 1e9 // Gb/s
	switch {
	case fits(most, p.RTT.Low):
		_, high := border(most, func(v float64) bool { return !fits(v, p.RTT.Low) })
		text := upwards(high) + " Gb/s"
		if in := high * 1e9 / 8 * p.RTT.Low; high <= p.Rate.High && in > 0 {
			return fmt.Sprintf("%s, which the link has if %s are in flight", text, amount(in, Bytes))
		}
		return "a link of " + text
	case has.High > 0 && !math.IsInf(has.High, 1) && fits(has.High, 0):
		if low, _ := border(p.RTT.Low, func(v float64) bool { return fits(has.High, v) }); low > 0 {
			return fmt.Sprintf("a round trip of %s, which is %s km of fibre", amount(low, Seconds), digits(low/2/fabric.FibreDelay))
		}
	}
	return ""
}

// border returns the two values, close to each other, between which below changes from true to false. It is true of low unless low is 0.
func border(most float64, below func(float64) bool) (low, high float64) {
	const precision, closest = 1e-4, 1e-9
	for high = most; high-low > precision*high && high > closest; {
		if mid := (low + high) / 2; below(mid) {
			low = mid
		} else {
			high = mid
		}
	}
	return low, high
}

// upwards writes a number with three digits, never less than it is.
func upwards(v float64) string {
	step := math.Pow(10, math.Floor(math.Log10(v))-2)
	return digits(math.Ceil(v/step-1e-9) * step)
}
