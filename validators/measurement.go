package validators

// Measurement is one value and its threshold.
type Measurement struct {
	Name         Metric     `json:"name"`
	Value        float64    `json:"value"`
	Unit         Unit       `json:"unit,omitempty"`   // empty: a number of things
	OutOf        float64    `json:"out_of,omitempty"` // of a number of things: of how many
	Of           string     `json:"of,omitempty"`     // the port, link or package that has the value, where a result has several
	MessageBytes int64      `json:"message_bytes,omitempty"`
	Spread       *Spread    `json:"spread,omitempty"` // in the unit of the value
	Threshold    *Threshold `json:"threshold,omitempty"`
}

// Metric names what a value measures. Each check defines its metrics in its file.
type Metric string

// Unit is the unit of a value.
type Unit string

// The units.
const (
	Gbps    Unit = "Gb/s" // 10^9 bits a second
	GBps    Unit = "GB/s" // 10^9 bytes a second
	Bytes   Unit = "B"
	Micros  Unit = "µs"
	Seconds Unit = "s"
	Percent Unit = "%"
)

// Spread is the distribution of the single measurements behind a value; 0 means unknown, or equal to the
// value.
type Spread struct {
	Min     float64 `json:"min,omitempty"`
	Average float64 `json:"average,omitempty"`
	Max     float64 `json:"max,omitempty"`
	StdDev  float64 `json:"std_dev,omitempty"`
	P99     float64 `json:"p99,omitempty"`
	P999    float64 `json:"p99_9,omitempty"`
}

// Threshold is the limit for a value, in its unit, and its origin.
type Threshold struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
	Exactly *float64 `json:"exactly,omitempty"`
	// NotJudged is why the value has no limit.
	NotJudged NotJudged `json:"not_judged,omitempty"`
	// Ceiling is the capacity of the links. If Fraction is not 0, the limit is that fraction of it.
	Ceiling  float64 `json:"ceiling,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`
	// A lab's links are limited to LabGbps, and thresholds are scaled by LabGbps / DeclaredGbps.
	LabGbps      float64 `json:"lab_gbps,omitempty"`
	DeclaredGbps float64 `json:"declared_gbps,omitempty"` // 0 if no speed is declared
}

// NotJudged is why a value is only reported.
type NotJudged string

// The reasons.
const (
	NothingDeclared   NotJudged = "nothing_declared" // neither a speed nor a threshold
	NoLatencyDeclared NotJudged = "no_max_latency"   // latencies have no threshold of their own
	NoBusbwDeclared   NotJudged = "no_min_busbw"     // NCCL uses sockets, for which there is no threshold of its own
	VirtualMachines   NotJudged = "virtual_machines" // a lab's, which share one machine
	SharedLabLinks    NotJudged = "lab_links_are_shared"
)

func atLeast(v float64) *Threshold { return &Threshold{AtLeast: &v} }
func atMost(v float64) *Threshold  { return &Threshold{AtMost: &v} }
func exactly(v float64) *Threshold { return &Threshold{Exactly: &v} }

func notJudged(why NotJudged) *Threshold { return &Threshold{NotJudged: why} }

// judgedBy returns the result as it is, or as skipped if nothing is declared by which its rate could be judged.
func (r Result) judgedBy(rate Measurement) Result {
	if rate.Threshold != nil && rate.Threshold.NotJudged == NothingDeclared {
		return r.skips(NotDeclared, "speed_gbps is not declared")
	}
	return r
}

// met reports whether a value meets the threshold.
func (t *Threshold) met(v float64) bool {
	return t == nil || (t.AtLeast == nil || v >= *t.AtLeast) && (t.AtMost == nil || v <= *t.AtMost) && (t.Exactly == nil || v == *t.Exactly)
}

// Met reports whether the value meets its threshold.
func (m Measurement) Met() bool { return m.Threshold.met(m.Value) }
