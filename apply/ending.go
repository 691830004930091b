package apply

import (
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// Ending is the result of a run. If several apply, the run has the highest.
type Ending int

// The endings.
const (
	Done             Ending = iota
	HostsUnreachable        // the other hosts succeeded
	CheckFailed             // or nothing could be verified
	Failed
	Stale      // a host changed since the plan was made, or the plan was applied already
	Held       // another transaction is open
	RolledBack // the run failed; the hosts that failed (RollbackHost), or all that it changed, were rolled back and checked
	// OutcomeUnknown means that a rollback failed, or that the state of a host is unknown: an operator
	// must intervene.
	OutcomeUnknown
)

// Report is the full account of one run.
type Report struct {
	Command  string        `json:"command"`
	Fabric   string        `json:"fabric"`
	Source   string        `json:"source"` // commit and digest of the files
	Build    string        `json:"build"`
	Who      string        `json:"who"`
	Started  time.Time     `json:"started"`
	Ended    time.Time     `json:"ended"`
	Plan     *planner.Plan `json:"plan,omitempty"`
	Outcomes []HostOutcome `json:"outcomes,omitempty"`
	// Adopted is how many values the record of each host adopted.
	Adopted map[string]int             `json:"adopted,omitempty"`
	Results []validators.Result        `json:"results,omitempty"`
	Before  map[string]*facts.Snapshot `json:"before,omitempty"` // facts by host
	After   map[string]*facts.Snapshot `json:"after,omitempty"`

	Ending Ending `json:"-"`
	Err    error  `json:"-"` // why the run failed, unless the events have reported it
}

// end completes a report. An error makes the ending Failed at least.
func (r *Report) end(ending Ending, err error) *Report {
	if err != nil {
		ending = max(ending, Failed)
	}
	r.Ended, r.Ending, r.Err = time.Now(), ending, err
	return r
}

// Events receives what happens during a run and approves its plan. Progress, Warn and Unreachable are
// called from several goroutines.
type Events interface {
	// Progress reports the start of a step.
	Progress(format string, args ...any)
	// Warn reports a problem that does not stop the run.
	Warn(format string, args ...any)
	// Note adds a sentence to the results.
	Note(format string, args ...any)
	Unreachable(hosts map[string]string)
	Plan(p *planner.Plan, notes []string)
	// Walk reports the outcome of each action and the fate of each host. Fates reports fates that changed
	// later.
	Walk(hosts []HostOutcome)
	Fates(hosts []HostOutcome)
	// Results reports the results of live checks. part: only some hosts or links were chosen.
	Results(results []validators.Result, part bool)
	// Approve asks whether the plan that was shown last may be applied. The error says why not. It calls asking before it waits for an answer.
	Approve(p *planner.Plan, asking func()) error
}

// warn reports an error that does not stop the run, unless an interrupt caused it.
func warn(e Events, err error) {
	if err = withoutInterrupts(err); err != nil {
		e.Warn("warning: %v", err)
	}
}

// fatesEnding returns OutcomeUnknown if an operator must intervene on any host, otherwise Done.
func fatesEnding(fates map[string]HostOutcome) Ending {
	for _, f := range fates {
		if f.Fate == RevertFailed || f.Fate == Lost {
			return OutcomeUnknown
		}
	}
	return Done
}

// PlanEnding returns the ending of a run that only plans.
func PlanEnding(p *planner.Plan) Ending {
	switch {
	case len(p.Stale()) > 0:
		return Stale
	case len(p.Problems()) > 0:
		return Failed
	case len(p.Unreachable()) > 0:
		return HostsUnreachable
	}
	return Done
}
