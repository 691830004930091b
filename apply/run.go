package apply

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// OnFailure is what to do when an apply fails on a host.
type OnFailure string

// The ways to go on.
const (
	RollbackAll  OnFailure = "rollback-all"
	RollbackHost OnFailure = "rollback-host" // the others go on
	Stop         OnFailure = "stop"          // what was done stays
)

// Options say what a run may do, and what it does where something fails.
type Options struct {
	// Allowed is the worst disruption that nobody has to be asked for again.
	Allowed   resource.Disruption
	OnFailure OnFailure
	// Manual leaves the transaction open for Confirm; it goes back by itself when the lease has run out.
	Manual bool
	Lease  time.Duration // that hosts wait for a client that fell silent
	// Unverified leaves out the live checks afterwards.
	Unverified bool
	// CheckRollback goes back where a live check fails.
	CheckRollback bool
	Saved         *planner.Saved // the plan to carry out; nil: one that is made now
}

// run is one apply or destroy, from the plan to the proof.
type run struct {
	s      *Session
	o      Options
	e      Events
	p      *planner.Plan
	id     string
	report *Report
	open   bool          // the transaction waits for a person's confirmation
	stacks []HostOutcome // of the stack stage
}

// NewID names a plan or a run.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// Run makes the planned difference, and proves the fabric. The report's Plan is nil where it did not
// come to one.
func Run(ctx context.Context, s *Session, o Options, e Events) *Report {
	r := newRun("apply", s, o, e)
	ending, err := r.prepare(ctx)
	if err == nil {
		ending, err = r.apply(ctx, ending)
	}
	return r.finish(ending, err)
}

// Destroy gives back what the fabric made on the session's hosts, which was opened to do so.
func Destroy(ctx context.Context, s *Session, o Options, e Events) *Report {
	r := newRun("destroy", s, o, e)
	ending, err := r.prepare(ctx)
	if err == nil {
		ending, err = r.destroy(ctx, ending)
	}
	return r.finish(ending, err)
}

func newRun(command string, s *Session, o Options, e Events) *run {
	r := &run{s: s, o: o, e: e, id: NewID(), report: s.newReport(command)}
	if o.Saved != nil {
		r.id = o.Saved.ID
	}
	return r
}

func (s *Session) newReport(command string) *Report {
	return &Report{Command: command, Fabric: s.Fabric.Name, Source: s.Options.Source, Build: s.Options.Build, Who: s.Options.User, Started: time.Now()}
}

func (r *run) finish(ending Ending, err error) *Report {
	r.report.After = r.s.Facts()
	return r.report.end(ending, err)
}

// prepare makes the plan. Hosts end first what a reset cut short: else the plan would be of a state
// between two. Of a saved plan, hosts that moved since are left out.
func (r *run) prepare(ctx context.Context) (Ending, error) {
	ended, err := r.s.Settle(ctx)
	for _, host := range slices.Sorted(maps.Keys(ended)) {
		r.e.Warn("host %s was reset in the middle of a transaction of fabric %q; it is %s now.", host, ended[host].Fabric, ended[host].State)
	}
	if err != nil {
		return Failed, err
	}
	r.p = r.s.Propose(ctx)
	ending := Done
	if r.o.Saved != nil {
		if ending, err = r.bind(r.o.Saved); err != nil {
			return ending, err
		}
	}
	r.report.Plan, r.report.Before = r.p, r.s.Facts()
	return ending, nil
}

// bind keeps of the live plan what equals the saved one. Hosts that moved are named and left out.
func (r *run) bind(saved *planner.Saved) (Ending, error) {
	for host, records := range r.s.Records() {
		for _, rec := range records {
			if e, done := rec.Applied(saved.ID); done && rec.Fabric == saved.Plan.Fabric {
				return Stale, fmt.Errorf("this plan was applied at %s by %s (host %s keeps it in its history); plan again", e.Time.Format(time.RFC3339), e.Who, host)
			}
		}
	}
	moved := planner.Moved(saved.Plan, r.p)
	for _, host := range slices.Sorted(maps.Keys(moved)) {
		r.e.Drifted(host, moved[host])
	}
	if len(moved) == 0 {
		return Done, nil
	}
	for i := range r.p.Hosts {
		if moved[r.p.Hosts[i].Name] != nil {
			r.p.Hosts[i].Actions, r.p.Hosts[i].Problems = nil, nil
		}
	}
	return Stale, nil
}

// apply carries the plan out and proves the fabric.
func (r *run) apply(ctx context.Context, ending Ending) (Ending, error) {
	p := r.p
	r.e.Plan(p, p.Notes())
	ending = max(ending, PlanEnding(p))
	if len(p.Problems()) > 0 {
		return ending, nil
	}
	if err := r.approve(p); err != nil {
		return Failed, err
	}
	if stacked, err := r.installStacks(ctx); stacked != Done || err != nil {
		r.e.Walk(r.stacks)
		return max(ending, stacked), err
	}
	r.report.Outcomes = nil
	changed, err := r.change(ctx)
	err = r.ofTheRest(err)
	committed := r.committed() // of the network alone: a driver stack is not undone
	r.report.Outcomes = r.withStacks(r.report.Outcomes)
	r.e.Walk(r.report.Outcomes)
	r.noteMoved()
	if ending = max(ending, changed); err != nil || changed != Done || r.open {
		return ending, err
	}
	if ending == Stale && p.Changes() == 0 {
		return ending, nil
	}
	if r.o.Unverified {
		r.e.Note("Live checks left out, as -no-verify asks: nothing was proven.")
		return ending, nil
	}
	proof, results := r.s.prove(ctx, VerifyOptions{}, nil, r.e)
	r.report.Results = results
	proof, err = r.acceptance(ctx, proof, committed)
	return max(ending, proof), err
}

// approve says why the plan is not carried out.
func (r *run) approve(p *planner.Plan) error {
	if err := disruptive(p, r.o.Allowed); err != nil || p.Changes() == 0 {
		return err
	}
	return r.e.Approve(p)
}

// disruptive says which hosts a plan disrupts more than is allowed; nil: none.
func disruptive(p *planner.Plan, allowed resource.Disruption) error {
	hosts := map[resource.Disruption][]string{}
	for _, h := range p.Hosts {
		if worst := h.Worst(); worst > allowed {
			hosts[worst] = append(hosts[worst], h.Name)
		}
	}
	if len(hosts) == 0 {
		return nil
	}
	var said []string
	worst := slices.SortedFunc(maps.Keys(hosts), func(a, b resource.Disruption) int { return cmp.Compare(b, a) })
	for _, d := range worst {
		said = append(said, fmt.Sprintf("a %s of %s", d, planner.Names(hosts[d])))
	}
	return fmt.Errorf("nothing was changed: the plan has %s; run with -allow=%s to let it", strings.Join(said, " and "), strings.ReplaceAll(worst[0].String(), " ", "-"))
}

// reachedAt tells where a host is reached from now on.
const reachedAt = "Host %s is reached at %s from now on: write that as its address"

// noteMoved tells where hosts are reached from now on.
func (r *run) noteMoved() {
	for _, o := range r.report.Outcomes {
		for _, h := range r.p.Hosts {
			if to := h.MovesTo(); h.Name == o.Host && to.IsValid() && (o.Fate == Committed || o.Fate == Waiting) {
				r.e.Note(reachedAt+", and enter it into known_hosts beside %s.", h.Name, to, h.Management.Server)
			}
		}
	}
}

// tellFates says how hosts ended, and where they are reached that went back from where they had moved to.
func tellFates(e Events, fates []HostOutcome) {
	e.Fates(fates)
	for _, h := range fates {
		if h.Via != "" {
			e.Note(reachedAt+".", h.Host, h.Via)
		}
	}
}

// enrol keeps the roster on hosts whose record has another one, and the history where something was
// changed.
func (r *run) enrol(ctx context.Context) error {
	hosts, entries := slices.Clone(r.p.Enrol), map[string]resource.Entry{}
	for _, h := range r.report.Outcomes {
		e := r.s.entry(r.report.Command, r.id)
		for _, o := range h.Outcomes {
			// What waits for a confirmation is entered now: without one, the entry goes back with the rest.
			if o.Done || h.Fate == Waiting && o.Action.Stage == resource.StagePersist {
				e.Changes += len(o.Action.Changes) + len(o.Also)
			}
		}
		if len(h.Outcomes) == 0 || h.Fate == "" || h.Fate == Untouched {
			continue // nothing was done there
		}
		if err := h.Err(); err != nil {
			e.Failed = err.Error()
		}
		if h.Fate != Committed && h.Fate != Waiting && h.Fate != Unfinished {
			e.Changes, e.Failed = 0, "went back: "+h.Why
		}
		entries[h.Host] = e
		if !slices.Contains(hosts, h.Host) {
			hosts = append(hosts, h.Host)
		}
	}
	return r.s.Enrol(ctx, r.p.Fabric, r.p.Roster, hosts, entries)
}

// entry is a line of a host's history.
func (s *Session) entry(command, plan string) resource.Entry {
	return resource.Entry{Time: time.Now().UTC(), Command: command, Who: s.Options.User, Plan: plan, Source: s.Options.Source, Build: s.Options.Build}
}

// enrolLate writes the histories even of an interrupted apply.
func (r *run) enrolLate(ctx context.Context) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return r.enrol(late)
}

// acceptance is the outcome of the checks after a commit; where it is asked for, a failed one takes
// the hosts back to the kept snapshot.
func (r *run) acceptance(ctx context.Context, ending Ending, committed []string) (Ending, error) {
	if ending != CheckFailed || !r.o.CheckRollback || len(committed) == 0 {
		return ending, nil
	}
	fates, err := r.s.undoLast(context.WithoutCancel(ctx), r.p.Fabric, r.id, committed, "a check failed", nil)
	r.enter(fates)
	tellFates(r.e, r.report.Outcomes)
	return max(ending, fatesEnding(fates)), err
}

// committed are the hosts whose transaction was.
func (r *run) committed() (hosts []string) {
	for _, h := range r.report.Outcomes {
		if h.Fate == Committed {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// failures is what kept the walk from its end.
func (r *run) failures(ctx context.Context) (ending Ending, why error) {
	for _, h := range r.report.Outcomes {
		if err := h.Err(); err != nil {
			kind := Failed
			switch {
			case isStale(err):
				kind = Stale
			case isHeld(err):
				kind = Held
			}
			ending, why = max(ending, kind), errors.Join(why, fmt.Errorf("host %s: %w", h.Host, err))
		}
	}
	if ctx.Err() != nil {
		return max(ending, Failed), errors.Join(errors.New("interrupted"), why)
	}
	return ending, why
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
