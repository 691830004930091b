// Package widearea says what a long link does to a workload: what an all-reduce over it adds to a training step, how long a KV cache
// or a checkpoint takes, how much must be in flight to fill it, and what a lost packet costs. It is pure: numbers in, numbers out.
//
// Each result is a Figure: a range, with its formula, the numbers in it, and where the formula comes from. What nobody declared or
// measured is a range, too, and the range of a result is never narrower than its inputs make it. docs/wide-area.md derives the
// formulas; the tests hold them against a simulator that sends chunks over hops. Nothing is fitted to measurements.
package widearea

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// Range is a value that is known to lie between two others. Values are never negative. A High of +Inf means that no upper
// end is known, a Low of 0 that no lower end is known.
type Range struct{ Low, High float64 }

// unknown is a value of which nothing is known.
var unknown = Range{0, math.Inf(1)}

// Exactly is a known value.
func Exactly(v float64) Range { return Range{v, v} }

// atLeast is a value of which only the lower end is known.
func atLeast(v float64) Range { return Range{v, math.Inf(1)} }

// atMost is a value of which only the upper end is known.
func atMost(v float64) Range { return Range{0, v} }

// Known reports whether the range is one value.
func (r Range) Known() bool { return r.Low == r.High }

// Bounded reports whether an upper end is known.
func (r Range) Bounded() bool { return !math.IsInf(r.High, 1) }

// Largest returns the upper end, or the lower one if no other is known.
func (r Range) Largest() float64 {
	if r.Bounded() {
		return r.High
	}
	return r.Low
}

func (r Range) plus(o Range) Range { return Range{r.Low + o.Low, r.High + o.High} }

func (r Range) times(o Range) Range { return Range{product(r.Low, o.Low), product(r.High, o.High)} }

// product is that of two ends, where nothing of something unbounded is nothing.
func product(a, b float64) float64 {
	if a == 0 || b == 0 {
		return 0
	}
	return a * b
}

func (r Range) over(o Range) Range { return Range{quotient(r.Low, o.High), quotient(r.High, o.Low)} }

func quotient(a, b float64) float64 {
	switch {
	case a == 0:
		return 0
	case b == 0:
		return math.Inf(1)
	}
	return a / b
}

// least is the smaller of two values.
func (r Range) least(o Range) Range { return Range{min(r.Low, o.Low), min(r.High, o.High)} }

// either spans both: it is not known which of the two holds.
func (r Range) either(o Range) Range { return Range{min(r.Low, o.Low), max(r.High, o.High)} }

// Unit is the unit of a figure, which decides how it is written.
type Unit string

// The units.
const (
	Seconds Unit = "s"
	Gbps    Unit = "Gb/s" // 10^9 bits a second
	Bytes   Unit = "B"
	Share   Unit = "%"
	Count   Unit = "" // a number of things
)

// Figure is one result.
type Figure struct {
	Name    string `json:"name"` // what it is, such as "all-reduce, ring"
	Value   Range  `json:"value"`
	Unit    Unit   `json:"unit,omitempty"`
	Formula string `json:"formula"`          // in symbols
	Numbers string `json:"numbers"`          // the same, with the numbers
	Source  string `json:"source"`           // where the formula and its constants come from
	Limits  string `json:"limits,omitempty"` // where the figure stops holding; "": nowhere else
	// Mean says that the value is what many losses come to on average: it bounds nothing, and no verdict rests on it.
	Mean bool `json:"mean,omitempty"`
}

// Text is the value with its unit: a number, a range, or the end that is known.
func (f Figure) Text() string {
	switch {
	case f.Mean && f.Value != unknown && !f.Value.Bounded():
		return "about " + amount(f.Value.Low, f.Unit) + " or more"
	case f.Mean:
		return "about " + strings.TrimPrefix(f.Value.In(f.Unit), "at most ")
	}
	return f.Value.In(f.Unit)
}

// Sentence writes the figure with its formula and numbers, beginning with a capital letter and without a full stop.
func (f Figure) Sentence() string {
	return strings.ToUpper(f.Name[:1]) + f.Name[1:] + ": " + f.Formula + ", with " + f.Numbers + ", is " + f.Text()
}

// MarshalJSON writes the ends that are known.
func (r Range) MarshalJSON() ([]byte, error) {
	var out struct {
		Low  float64  `json:"low"`
		High *float64 `json:"high,omitempty"`
	}
	if out.Low = r.Low; r.Bounded() {
		out.High = &r.High
	}
	return json.Marshal(out)
}

// In writes a range in a unit.
func (r Range) In(u Unit) string {
	switch {
	case r == unknown:
		return "unknown"
	case !r.Bounded():
		return "at least " + amount(r.Low, u)
	case r.Known() || amount(r.Low, u) == amount(r.High, u):
		return amount(r.High, u)
	case r.Low == 0:
		return "at most " + amount(r.High, u)
	}
	low, high := amount(r.Low, u), amount(r.High, u)
	if a, unit, _ := strings.Cut(low, " "); strings.HasSuffix(high, " "+unit) {
		low = a
	}
	return low + " to " + high
}

// amount writes one value with three digits, in a multiple of its unit that people say.
func amount(v float64, u Unit) string {
	scaled := func(units []string, step float64, from float64) string {
		i := 0
		for v /= from; v >= step*0.9995 && i < len(units)-1; i++ {
			v /= step
		}
		return strings.TrimSpace(digits(v) + " " + units[i])
	}
	switch u {
	case Seconds:
		if v >= 0.9995 || v == 0 {
			return digits(v) + " s"
		}
		return scaled([]string{"µs", "ms", "s"}, 1000, 1e-6)
	case Gbps:
		if v > 0 && v < 1 {
			return digits(v*1000) + " Mb/s"
		}
		return digits(v) + " Gb/s"
	case Bytes:
		return scaled([]string{"B", "kB", "MB", "GB", "TB", "PB"}, 1000, 1)
	case Share:
		return digits(v*100) + " %"
	}
	return digits(v)
}

// digits writes a number with three digits, or all digits of a larger whole part.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v >= 100:
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	text := strconv.FormatFloat(v, 'g', 3, 64)
	if strings.Contains(text, "e") {
		return text
	}
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}
