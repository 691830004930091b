package view

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/validators"
)

// Reporter prints what a command found and did, from the same values: as text for people, or as lines of
// JSON for programs.
type Reporter interface {
	Plan(p *planner.Plan, notes []string)
	Walk(hosts []apply.HostOutcome)
	Fates(hosts []apply.HostOutcome)
	// Results reports the results of live checks. part: only some hosts or links were chosen.
	Results(results []validators.Result, part bool)
	Note(format string, args ...any)
}

// Note prints a line for people.
func (p *Printer) Note(format string, args ...any) { p.Linef(format, args...) }

// EventFormat is the version of the JSON lines and reports. Within one version, fields and types may be
// added, but not changed or removed; docs/json.md lists them.
const EventFormat = 2

// Events is a Reporter that writes one JSON object per line.
type Events struct{ p *Printer }

// JSON returns a reporter that writes lines of JSON to the printer's stream.
func (p *Printer) JSON() *Events { return &Events{p} }

type event struct {
	Format  int                `json:"format"`
	Type    string             `json:"type"`
	Fabric  string             `json:"fabric,omitempty"`
	Host    *planner.HostPlan  `json:"host,omitempty"`
	Outcome *apply.HostOutcome `json:"outcome,omitempty"`
	Result  *validators.Result `json:"result,omitempty"`
	Summary any                `json:"summary,omitempty"`
	Note    string             `json:"note,omitempty"`
}

func (e *Events) emit(v event) {
	v.Format = EventFormat
	raw, err := json.Marshal(v)
	if err != nil {
		e.p.Errorf("write JSON: %s", err)
		return
	}
	// The reader may close the pipe early, as `head` does.
	_ = e.p.Raw(append(neutralJSON(fabric.Mask(raw)), '\n'))
}

// PlanSummary is the last line of a plan.
type PlanSummary struct {
	Changes     int               `json:"changes"`
	Hosts       int               `json:"hosts"` // that need changes
	Problems    int               `json:"problems"`
	Unreachable map[string]string `json:"unreachable,omitempty"`
	Stale       []string          `json:"stale,omitempty"` // hosts that changed since the plan was saved
	LeftOut     []planner.LeftOut `json:"left_out,omitempty"`
	Vanished    []string          `json:"vanished,omitempty"`
	NotChosen   []string          `json:"not_chosen,omitempty"`
	Worst       string            `json:"worst_disruption,omitempty"`
}

// summarise counts a plan.
func summarise(p *planner.Plan) PlanSummary {
	s := PlanSummary{Changes: p.Changes(), Problems: len(p.Problems()), Unreachable: p.Unreachable(), Stale: p.Stale(),
		LeftOut: p.LeftOut, NotChosen: p.NotChosen}
	for _, m := range p.Vanished {
		s.Vanished = append(s.Vanished, m.Name)
	}
	worst := -1
	for _, h := range p.Hosts {
		if slices.ContainsFunc(h.Actions, func(a planner.Action) bool { return len(a.Changes) > 0 }) {
			s.Hosts++
		}
		for _, a := range h.Shown() {
			if d := a.Disruption(); int(d) > worst {
				worst, s.Worst = int(d), d.String()
			}
		}
	}
	return s
}

// Plan writes a line for each host, and the summary.
func (e *Events) Plan(p *planner.Plan, notes []string) {
	for i := range p.Hosts {
		h := p.Hosts[i].Unsalted()
		e.emit(event{Type: "host_plan", Fabric: p.Fabric, Host: &h})
	}
	for _, n := range notes {
		e.emit(event{Type: "note", Note: n})
	}
	e.emit(event{Type: "plan", Fabric: p.Fabric, Summary: summarise(p)})
}

// Walk writes a line for each host.
func (e *Events) Walk(hosts []apply.HostOutcome) {
	for i := range hosts {
		e.emit(event{Type: "host_outcome", Outcome: &hosts[i]})
	}
}

// Fates writes new lines for hosts whose fate has changed.
func (e *Events) Fates(hosts []apply.HostOutcome) { e.Walk(hosts) }

// Results writes a line for each check, and the counts.
func (e *Events) Results(results []validators.Result, _ bool) {
	for i := range results {
		e.emit(event{Type: "result", Result: &results[i]})
	}
	e.emit(event{Type: "verify", Summary: tally(results)})
}

// Note writes a note as a line of JSON.
func (e *Events) Note(format string, args ...any) {
	e.emit(event{Type: "note", Note: fmt.Sprintf(format, args...)})
}
