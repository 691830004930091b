package validators

// Measurement is one value, with what it is held against.
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

// Metric is what a value measures. Each check names its own, in its file.
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

// Spread is how the single measurements behind a value lie; 0: not known, or the value itself.
type Spread struct {
	Min     float64 `json:"min,omitempty"`
	Average float64 `json:"average,omitempty"`
	Max     float64 `json:"max,omitempty"`
	StdDev  float64 `json:"std_dev,omitempty"`
	P99     float64 `json:"p99,omitempty"`
	P999    float64 `json:"p99_9,omitempty"`
}

// Threshold is what a value must meet, in its unit, and where that comes from.
type Threshold struct {
	AtLeast *float64 `json:"at_least,omitempty"`
	AtMost  *float64 `json:"at_most,omitempty"`
	Exactly *float64 `json:"exactly,omitempty"`
	// NotJudged is why nothing is asked of the value.
	NotJudged NotJudged `json:"not_judged,omitempty"`
	// Ceiling is what the links can carry; Fraction of it is asked where it is not 0.
	Ceiling  float64 `json:"ceiling,omitempty"`
	Fraction float64 `json:"fraction,omitempty"`
	// A lab's links are shaped to LabGbps, and thresholds shrink by LabGbps / DeclaredGbps.
	LabGbps      float64 `json:"lab_gbps,omitempty"`
	DeclaredGbps float64 `json:"declared_gbps,omitempty"` // 0: no speed is declared
}

// NotJudged is why a value is reported and not judged.
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

// met says whether a value meets the threshold.
func (t *Threshold) met(v float64) bool {
	return t == nil || (t.AtLeast == nil || v >= *t.AtLeast) && (t.AtMost == nil || v <= *t.AtMost) && (t.Exactly == nil || v == *t.Exactly)
}

// Met says whether the value meets its threshold.
func (m Measurement) Met() bool { return m.Threshold.met(m.Value) }
