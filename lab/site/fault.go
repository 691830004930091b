package site

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Fault is a fault of a cable. A cable has at most one fault; the zero Fault means none.
type Fault struct {
	Cut  bool
	Swap string  // the cable whose far end is exchanged with that of this cable
	Gbps float64 // limits the bandwidth

	Distance // what it adds to the cable's own

	Remark bool // gives each IP packet the DSCP below
	DSCP   int  // 0 to 63

	NoVLAN int // drops frames that have the tag of this VLAN; 0: none

	Pause    bool // sends PFC frames, which ask the NICs at both ends not to send the priority below
	Priority int  // 0 to 7
}

// Distance is what a packet meets in each direction of a long cable.
type Distance struct {
	Delay  time.Duration `json:"delay_ns,omitempty"`
	Jitter time.Duration `json:"jitter_ns,omitempty"`    // how much longer or shorter single packets take; they stay in order
	Loss   float64       `json:"loss_percent,omitempty"` // lost packets in percent
}

func (d Distance) String() string {
	var out []string
	if d.Delay > 0 {
		out = append(out, "delay "+d.Delay.String())
	}
	if d.Jitter > 0 {
		out = append(out, "jitter "+d.Jitter.String())
	}
	if d.Loss > 0 {
		out = append(out, fmt.Sprintf("loss %g %%", d.Loss))
	}
	return strings.Join(out, ", ")
}

// FaultWords are how a fault begins; after "=" follows a value.
var FaultWords = []string{"cut", "swap=", "limit=", "delay=", "jitter=", "loss=", "remark=", "no-vlan=", "pause=", "none"}

// None reports whether the cable has no fault.
func (f Fault) None() bool { return f == Fault{} }

// ParseFault parses a fault: cut, swap=LINK2, limit=RATE, delay=TIME, jitter=TIME, loss=PERCENT, remark=DSCP, no-vlan=ID, pause=PRIORITY or
// none. Those of a distance can be joined: delay=50ms,loss=1%.
func ParseFault(s string) (f Fault, err error) {
	if parts := strings.Split(s, ","); len(parts) > 1 {
		for _, part := range parts {
			one, err := ParseFault(part)
			if err != nil {
				return Fault{}, err
			}
			if one != (Fault{Distance: one.Distance}) || one.None() {
				return Fault{}, fmt.Errorf("%q: only delay, jitter and loss can be joined", s)
			}
			f.Delay, f.Jitter, f.Loss = max(f.Delay, one.Delay), max(f.Jitter, one.Jitter), max(f.Loss, one.Loss)
		}
		return f, nil
	}
	kind, value, _ := strings.Cut(s, "=")
	switch {
	case s == "none":
		return Fault{}, nil
	case s == "cut":
		return Fault{Cut: true}, nil
	case kind == "swap" && value != "":
		return Fault{Swap: value}, nil
	case kind == "limit":
		gbps, err := parseRate(value)
		return Fault{Gbps: gbps}, err
	case kind == "delay", kind == "jitter":
		d, err := time.ParseDuration(value)
		switch {
		case err != nil || d <= 0 || d > time.Minute:
			return Fault{}, fmt.Errorf("time %q: write a time such as 20ms", value)
		case kind == "jitter":
			return Fault{Distance: Distance{Jitter: d}}, nil
		}
		return Fault{Distance: Distance{Delay: d}}, nil
	case kind == "loss":
		p, err := strconv.ParseFloat(strings.TrimSuffix(value, "%"), 64)
		if err != nil || !(p > 0 && p <= 100) {
			return Fault{}, fmt.Errorf("percentage %q: write a percentage such as 1 or 0.1%%", value)
		}
		return Fault{Distance: Distance{Loss: p}}, nil
	case kind == "remark":
		n, err := parseNumber(0, 63, value, "DSCP")
		return Fault{Remark: err == nil, DSCP: n}, err
	case kind == "no-vlan":
		n, err := parseNumber(1, 4094, value, "VLAN")
		return Fault{NoVLAN: n}, err
	case kind == "pause":
		n, err := parseNumber(0, 7, value, "priority")
		return Fault{Pause: err == nil, Priority: n}, err
	}
	return Fault{}, fmt.Errorf("unknown fault %q: use cut, swap=LINK2, limit=RATE, delay=TIME, jitter=TIME, loss=PERCENT, remark=DSCP, no-vlan=ID, pause=PRIORITY or none", s)
}

func parseNumber(lowest, highest int, s, what string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < lowest || n > highest {
		return 0, fmt.Errorf("%s %q: write a number from %d to %d", what, s, lowest, highest)
	}
	return n, nil
}

// parseRate parses rates as in tc(8): 100mbit, 2.5gbit.
func parseRate(s string) (gbps float64, err error) {
	for suffix, scale := range map[string]float64{"gbit": 1, "mbit": 1e-3, "kbit": 1e-6} {
		if digits, ok := strings.CutSuffix(s, suffix); ok {
			v, err := strconv.ParseFloat(digits, 64)
			if err == nil && v > 0 && v*scale <= 100 {
				return v * scale, nil
			}
		}
	}
	return 0, fmt.Errorf("rate %q: write a rate such as 100mbit or 2.5gbit", s)
}

// Find finds a cable by name.
func Find[C interface{ CableName() string }](cables []C, name string) (int, error) {
	names := make([]string, 0, len(cables))
	for i, c := range cables {
		if c.CableName() == name {
			return i, nil
		}
		names = append(names, c.CableName())
	}
	if len(names) == 0 {
		return 0, errors.New("the lab has no links")
	}
	return 0, fmt.Errorf("the lab has no link %q; its links are %s", name, strings.Join(names, ", "))
}
