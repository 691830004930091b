// Package health compares a host with what was applied last on it, on the host itself and without a network, and tells Slurm the verdict.
// What is not certain is no verdict: a damaged file, a host that cannot be read, or a resource that this build does not understand.
package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// State is whether a host is as it was applied.
type State string

// The states of a host. Unknown is no verdict: nothing may be drained or resumed because of it.
const (
	Healthy   State = "healthy"
	Unhealthy State = "unhealthy"
	Unknown   State = "unknown"
)

// Verdict is the result of a check.
type Verdict struct {
	State State `json:"state"`
	// Problems are the differences, a line each; of an unknown state, the reason.
	Problems []string `json:"problems,omitempty"`
	// Notes are what was not compared.
	Notes []string `json:"notes,omitempty"`
	// Compared is how many resources were compared.
	Compared int `json:"compared"`
	// Counters are those of the cabled ports, such as "eth1 carrier_down_count". They count from the start of the driver on.
	Counters map[string]uint64 `json:"counters,omitempty"`
	Time     time.Time         `json:"time"`
}

// Check returns an error if no check could give this verdict.
func (v *Verdict) Check() error {
	switch {
	case v.State != Healthy && v.State != Unhealthy && v.State != Unknown:
		return fmt.Errorf("impossible state %.40q", v.State)
	case v.State != Healthy && len(v.Problems) == 0:
		return errors.New("a verdict without a reason")
	case v.State == Healthy && (len(v.Problems) > 0 || v.Compared == 0):
		return errors.New("a verdict that contradicts itself")
	}
	return nil
}

// unknown is the verdict of a host that could not be compared.
func unknown(err error) Verdict { return Verdict{State: Unknown, Problems: []string{err.Error()}} }

// Risen lists the counters that have risen since an earlier verdict, a line each, sorted.
func (v *Verdict) Risen(since *Verdict) (out []string) {
	if since == nil {
		return nil
	}
	for name, now := range v.Counters {
		if before, known := since.Counters[name]; known && now > before {
			out = append(out, fmt.Sprintf("%s has risen by %d to %d since %s", name, now-before, now, since.Time.Format(time.RFC3339)))
		}
	}
	slices.Sort(out)
	return out
}

// reasonPrefix begins the reasons of this package's drains, and its reports: it resumes no node with another reason, and replaces no other
// comment. transport/slurm reads the reports.
const reasonPrefix = "fabricform: health: "

// maxReason bounds a reason for Slurm, in bytes.
const maxReason = 200

// reason returns why the node is drained, in characters that Slurm's tools print in one line and give no meaning.
func (v *Verdict) reason() string { return plain(reasonPrefix + strings.Join(v.Problems, "; ")) }

// report returns the verdict and its time, as a node's comment.
func (v *Verdict) report() string {
	text := "as it was applied"
	if v.State != Healthy {
		text = strings.Join(v.Problems, "; ")
	}
	return plain(reasonPrefix + v.Time.UTC().Format(time.RFC3339) + " " + text)
}

// sameReport reports whether two reports have the same verdict, whatever their times.
func sameReport(a, b string) bool {
	_, a, _ = strings.Cut(strings.TrimPrefix(a, reasonPrefix), " ")
	_, b, _ = strings.Cut(strings.TrimPrefix(b, reasonPrefix), " ")
	return a == b
}

func plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("\"'`\\|$%=", r) {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxReason {
		text = text[:maxReason-3] + "..."
	}
	return text
}
