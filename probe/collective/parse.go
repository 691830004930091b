package collective

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
)

// Software is a host's software and GPUs for running ranks.
type Software struct {
	Python  string `json:"python"`
	Torch   string `json:"torch"`
	NCCL    string `json:"nccl"` // the NCCL that torch uses
	HasNCCL bool   `json:"has_nccl"`
	GPUs    int    `json:"gpus"` // that CUDA can use
}

// Values compares the result of one operation with the expected values.
type Values struct {
	Op    string `json:"op"`             // all_reduce, broadcast, send_recv
	Root  *int   `json:"root,omitempty"` // of a broadcast
	Count int    `json:"count"`
	Wrong int    `json:"wrong"`
	At    int    `json:"at"` // index of the first wrong value
	Got   int64  `json:"got"`
	Want  int64  `json:"want"`
}

// Sweep is the measurement of one size, with the time of the slowest rank.
type Sweep struct {
	Op         string  `json:"op"`
	Bytes      int64   `json:"bytes"`
	Iterations int     `json:"iterations"`
	Seconds    float64 `json:"seconds"` // of all iterations
}

// Failure is the stage at which a rank failed, and the error of its library.
type Failure struct {
	Stage string `json:"stage"` // begin, import, meet, connect, values, sweep, end
	Kind  string `json:"kind"`  // class of Python's exception
	Text  string `json:"text"`
}

// RankOutput is the output of one rank.
type RankOutput struct {
	Look      *Software
	Connected bool
	Values    []Values
	Sweep     []Sweep
	Beyond    *Sweep // the first size that was left out, with the estimated seconds of one pass
	Failure   *Failure
	Done      bool
	Strange   int // lines that Script did not print
}

// maxEvents limits what is kept of a rank.
const maxEvents = 1000

// Parse parses the output of Script. It accepts any bytes: it counts lines that Script did not print, and
// ignores their content.
func Parse(out []byte) RankOutput {
	var r RankOutput
	for line := range bytes.Lines(out) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if len(r.Values)+len(r.Sweep) >= maxEvents || r.parse(line) != nil {
			r.Strange++
		}
	}
	return r
}

// errStrange is the error of a line that Script does not print.
var errStrange = errors.New("not of the script")

// parse parses one line.
func (r *RankOutput) parse(line []byte) error {
	var kind struct {
		Event string `json:"event"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return err
	}
	switch kind.Event {
	case "look":
		var l Software
		if err := json.Unmarshal(line, &l); err != nil || l.GPUs < 0 || l.GPUs > maxWorld {
			return errStrange
		}
		l.Python, l.Torch, l.NCCL = clean(l.Python, 40), clean(l.Torch, 40), clean(l.NCCL, 40)
		r.Look = &l
	case "connected":
		r.Connected = true
	case "values":
		var v Values
		if err := json.Unmarshal(line, &v); err != nil || v.Count < 1 || v.Wrong < 0 || v.Wrong > v.Count {
			return errStrange
		}
		v.Op = clean(v.Op, 40)
		r.Values = append(r.Values, v)
	case "sweep", "stopped":
		var s Sweep
		if err := json.Unmarshal(line, &s); err != nil || s.Bytes < 1 || !(s.Seconds > 0) || math.IsInf(s.Seconds, 0) ||
			s.Iterations < 1 && kind.Event == "sweep" {
			return errStrange
		}
		s.Op = clean(s.Op, 40)
		if kind.Event == "stopped" {
			r.Beyond = &s
		} else {
			r.Sweep = append(r.Sweep, s)
		}
	case "failed":
		var f Failure
		if err := json.Unmarshal(line, &f); err != nil {
			return err
		}
		r.Failure = &Failure{Stage: clean(f.Stage, 40), Kind: clean(f.Kind, 80), Text: clean(f.Text, 600)}
	case "done":
		r.Done = true
	default:
		return errStrange
	}
	return nil
}

// clean makes a text from a host safe for a report: one line, without control characters.
func clean(s string, most int) string {
	s = strings.Map(func(c rune) rune {
		if c == '\n' || c == '\t' {
			return ' '
		}
		if c < ' ' || c >= 0x7f && c < 0xa0 {
			return -1
		}
		return c
	}, strings.ToValidUTF8(s, "�"))
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
