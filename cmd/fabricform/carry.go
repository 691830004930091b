package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/view"
)

// job is one apply or destroy, from the plan to the proof.
type job struct {
	a      *app
	s      *session
	o      applyOptions
	p      *planner.Plan
	id     string
	report view.Report
	open   bool                // the transaction waits for a person's confirmation
	saved  bool                // the plan is a saved one
	stacks []apply.HostOutcome // of the stack stage
}

// begin opens the session and makes the plan, or takes a saved one and leaves out the hosts that
// moved since.
func (a *app) begin(ctx context.Context, command, path string, o applyOptions) (*job, error) {
	r := &job{a: a, o: o, id: newPlanID()}
	build, err := buildID()
	if err != nil {
		return nil, err
	}
	saved, err := readSaved(path, build)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		if r.s, err = a.openFor(ctx, path, command == "destroy"); err != nil {
			return nil, err
		}
		r.s.management = o.allow.management()
		if err = r.settle(ctx); err == nil {
			r.p = r.s.propose(ctx)
		}
	} else if r.s, err = a.connectTo(ctx, saved.Fabric, saved.Chosen, build); err == nil {
		r.s.source, r.s.destroy, r.s.management, r.id = saved.Source, saved.Destroy, saved.Management, saved.ID
		if err = r.settle(ctx); err == nil {
			r.p = r.s.propose(ctx)
		}
	}
	if err != nil {
		if r.s != nil {
			r.s.fleet.Close()
		}
		return nil, err
	}
	r.report = view.Report{Format: view.EventFormat, Command: command, Fabric: r.p.Fabric, Source: r.s.source, Build: build, Who: operator(),
		Started: time.Now(), Plan: r.p, Before: maps.Clone(r.s.facts)}
	if saved == nil {
		return r, nil
	}
	r.saved = true
	if err := r.bind(saved); err != nil {
		r.s.fleet.Close()
		return nil, err
	}
	return r, nil
}

// settle has hosts end first what a reset cut short: else the plan would be of a state between two.
func (r *job) settle(ctx context.Context) error {
	ended, err := r.s.fleet.Settle(ctx)
	for _, host := range slices.Sorted(maps.Keys(ended)) {
		r.a.err.Linef("host %s was reset in the middle of a transaction of fabric %q; it is %s now.", host, ended[host].Fabric, ended[host].State)
	}
	return err
}

// bind keeps of the live plan what equals the saved one. Hosts that moved are named and left out.
func (r *job) bind(saved *planner.Saved) error {
	for host, records := range r.s.records {
		for _, rec := range records {
			if e, done := rec.Applied(saved.ID); done && rec.Fabric == saved.Plan.Fabric {
				return &exit{code: exitStale, err: fmt.Errorf("this plan was applied at %s by %s (host %s keeps it in its history); plan again", e.Time.Format(time.RFC3339), e.Who, host)}
			}
		}
	}
	moved := planner.Moved(saved.Plan, r.p)
	for _, host := range slices.Sorted(maps.Keys(moved)) {
		r.a.err.Errorf("host %s moved since the plan was saved, and is left as it is:\n    %s", host, strings.Join(moved[host], "\n    "))
	}
	if len(moved) == 0 {
		return nil
	}
	for i := range r.p.Hosts {
		if moved[r.p.Hosts[i].Name] != nil {
			r.p.Hosts[i].Actions, r.p.Hosts[i].Problems = nil, nil
		}
	}
	r.report.Exit = exitStale
	return nil
}

// apply carries the plan out and proves the fabric; the answer is the exit code.
func (r *job) apply(ctx context.Context) (int, error) {
	p, report := r.p, r.a.report()
	report.Plan(p, p.Notes())
	code := worse(r.report.Exit, planCode(p, false))
	if len(p.Problems()) > 0 {
		return code, nil
	}
	if err := r.o.allow.disruptive(p); err != nil {
		return exitError, err
	}
	if p.Changes() > 0 {
		if err := confirmed(r.o.approve); err != nil {
			return exitError, err
		}
	}
	if stacked, err := r.stack(ctx); stacked != exitOK || err != nil {
		report.Walk(r.stacks)
		return worse(code, stacked), err
	}
	r.report.Outcomes = nil
	changed, err := r.change(ctx)
	err = r.ofTheRest(err)
	committed := r.committed() // of the network alone: a driver stack is not undone
	r.report.Outcomes = r.withStacks(r.report.Outcomes)
	report.Walk(r.report.Outcomes)
	r.moved()
	if code = worse(code, changed); err != nil || changed != exitOK || r.open {
		return code, err
	}
	if code == exitStale && p.Changes() == 0 {
		return code, nil
	}
	if r.o.noVerify {
		report.Note("Live checks left out, as -no-verify asks: nothing was proven.")
		return code, nil
	}
	proof, results := r.a.prove(ctx, r.s, nil)
	r.report.Results = results
	proof, err = r.acceptance(ctx, proof, committed)
	return worse(code, proof), err
}

// enrol keeps the roster on hosts whose record has another one, and the history where something was
// changed.
func (r *job) enrol(ctx context.Context) error {
	hosts, entries := slices.Clone(r.p.Enrol), map[string]resource.Entry{}
	for _, h := range r.report.Outcomes {
		e := resource.Entry{Time: time.Now().UTC(), Command: r.report.Command, Who: r.report.Who, Plan: r.id, Source: r.s.source, Build: r.s.build}
		for _, o := range h.Outcomes {
			// What waits for a confirmation is entered now: without one, the entry goes back with the rest.
			if o.Done || h.Fate == apply.Waiting && o.Action.Stage == resource.StagePersist {
				e.Changes += len(o.Action.Changes) + len(o.Also)
			}
		}
		if len(h.Outcomes) == 0 || h.Fate == "" || h.Fate == apply.Untouched {
			continue // nothing was done there
		}
		if err := h.Err(); err != nil {
			e.Failed = err.Error()
		}
		if h.Fate != apply.Committed && h.Fate != apply.Waiting && h.Fate != apply.Unfinished {
			e.Changes, e.Failed = 0, "went back: "+h.Why
		}
		entries[h.Host] = e
		if !slices.Contains(hosts, h.Host) {
			hosts = append(hosts, h.Host)
		}
	}
	return r.s.fleet.Enrol(ctx, r.p.Fabric, r.p.Roster, hosts, entries)
}

// end writes the report and answers the command's exit.
func (r *job) end(code int, err error) error {
	r.report.Ended, r.report.Exit, r.report.After = time.Now(), code, r.s.facts
	if r.o.report != "" {
		text, werr := r.report.Bytes(r.o.report)
		if werr == nil {
			werr = file.Output(r.o.report, text, 0o600)
		}
		if werr != nil {
			err = errors.Join(err, fmt.Errorf("write report: %w", werr))
		}
	}
	if err == nil {
		return told(code)
	}
	var known *exit
	if errors.As(err, &known) {
		return err
	}
	return &exit{code: worse(code, exitError), err: err}
}
