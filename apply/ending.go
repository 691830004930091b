package apply

import (
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// Ending is how a run ended. A higher one is what its caller has to know first: where several fit,
// the highest is the run's.
type Ending int

// The endings.
const (
	Done Ending = iota
	CheckFailed
	HostsUnreachable // the rest is done
	Failed
	Stale  // a host moved since the plan was made, or the plan was applied already
	Held   // another transaction is open
	Undone // it failed, and every host that it touched was rolled back and checked
	// OutcomeUnknown is where a rollback failed or a host's end is not known: a person is needed.
	OutcomeUnknown
)

// Report is everything about one run.
type Report struct {
	Command  string                     `json:"command"`
	Fabric   string                     `json:"fabric"`
	Source   string                     `json:"source"` // commit and digest of the files
	Build    string                     `json:"build"`
	Who      string                     `json:"who"`
	Started  time.Time                  `json:"started"`
	Ended    time.Time                  `json:"ended"`
	Plan     *planner.Plan              `json:"plan,omitempty"`
	Outcomes []HostOutcome              `json:"outcomes,omitempty"`
	Results  []validators.Result        `json:"results,omitempty"`
	Before   map[string]*facts.Snapshot `json:"before,omitempty"` // facts by host
	After    map[string]*facts.Snapshot `json:"after,omitempty"`

	Ending Ending `json:"-"`
	Err    error  `json:"-"` // why it ended so, where the events have not said it
}

// end completes a report. An error without an ending of its own is a failure.
func (r *Report) end(ending Ending, err error) *Report {
	if err != nil {
		ending = max(ending, Failed)
	}
	r.Ended, r.Ending, r.Err = time.Now(), ending, err
	return r
}

// Events hears of a run while it goes on, and is asked for approval. Progress, Warn and Unreachable
// are called from several goroutines.
type Events interface {
	// Progress is a step that begins.
	Progress(format string, args ...any)
	// Warn is what a person should know, and what keeps nothing from going on.
	Warn(format string, args ...any)
	// Note is a sentence that belongs to the answer.
	Note(format string, args ...any)
	// Drifted is a host that moved since the plan was saved, and is left as it is.
	Drifted(host string, how []string)
	Unreachable(hosts map[string]string)
	Plan(p *planner.Plan, notes []string)
	// Walk is what was done on the hosts, and how they ended. Fates is how they ended since.
	Walk(hosts []HostOutcome)
	Fates(hosts []HostOutcome)
	Results(results []validators.Result)
	// Approve asks whether the plan that was shown last may be carried out; the error says why not.
	Approve(p *planner.Plan) error
}

// warn says what failed and keeps nobody from going on.
func warn(e Events, err error) {
	if err != nil {
		e.Progress("%v", err)
	}
}

// fatesEnding is OutcomeUnknown where a person is needed.
func fatesEnding(fates map[string]HostOutcome) Ending {
	for _, f := range fates {
		if f.Fate == RevertFailed || f.Fate == Lost {
			return OutcomeUnknown
		}
	}
	return Done
}

// PlanEnding is what a plan by itself stands for.
func PlanEnding(p *planner.Plan) Ending {
	switch {
	case len(p.Problems()) > 0:
		return Failed
	case len(p.Unreachable()) > 0:
		return HostsUnreachable
	}
	return Done
}
