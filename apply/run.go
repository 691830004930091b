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

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// OnFailure says what to do when an apply fails on a host.
type OnFailure string

// The values of OnFailure.
const (
	RollbackAll  OnFailure = "rollback-all"
	RollbackHost OnFailure = "rollback-host" // the other hosts continue
	Stop         OnFailure = "stop"          // keep what was done
)

// Options say what a run may do, and what it does on a failure.
type Options struct {
	// Allowed is the worst disruption that the operator has allowed.
	Allowed   resource.Disruption
	OnFailure OnFailure
	// Manual leaves the transaction open for Confirm. Without it, the hosts revert when the lease expires.
	Manual bool
	Lease  time.Duration // how long hosts wait for a client that stopped responding
	// Unverified skips the live checks afterwards.
	Unverified bool
	// CheckRollback rolls back if a live check fails.
	CheckRollback bool
}

// run is one apply or destroy, from the plan to the live checks.
type run struct {
	s      *Session
	o      Options
	e      Events
	p      *planner.Plan
	id     string
	report *Report
	failed []string      // hosts that were rolled back alone (RollbackHost); the others go on without them
	open   bool          // the transaction is pending, until the operator confirms it
	stacks []HostOutcome // of the stack stage
	keys   []HostOutcome // of the stage of keys
	done   []string      // what the early stages did, such as "keys are made"
	keying bool          // this is the stage of keys
	wave   string        // of hosts that were drained, for messages; "" without one
	// pending are hosts that a later wave changes: what is between them and others is half changed until then.
	pending map[string]bool
	// away are hosts that jobs took while the plan was read, and that were to be changed.
	away map[string]bool
}

// NewID returns a random name for a plan or a run.
func NewID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	return hex.EncodeToString(b[:])
}

// Run makes the planned changes, and verifies the fabric. The report's Plan is nil if the run failed
// before it had one.
func Run(ctx context.Context, s *Session, o Options, e Events) *Report {
	r := newRun("apply", s, o, e)
	ending, err := r.prepare(ctx)
	if err == nil {
		ending, err = r.apply(ctx, ending)
	}
	return r.finish(ending, err)
}

// Destroy undoes what the fabric made on the session's hosts. The session must have been opened with
// SessionOptions.Destroy.
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
	if s.saved != nil {
		r.id = s.saved.ID
	}
	return r
}

func (s *Session) newReport(command string) *Report {
	return &Report{Command: command, Fabric: s.Fabric.Name, Source: s.Options.Source, Build: s.Options.Build,
		Who: s.Options.User, Started: time.Now()}
}

func (r *run) finish(ending Ending, err error) *Report {
	r.report.After = r.s.Facts()
	return r.report.end(r.without(ending), err)
}

// without returns an ending that says that hosts were left out, if some were.
func (r *run) without(ending Ending) Ending {
	if len(r.away) > 0 {
		return max(ending, HostsUnreachable)
	}
	return ending
}

// prepare makes the plan. Hosts first finish transactions that a reset interrupted: otherwise the plan
// would start from a half-changed state. With a saved plan, it skips hosts that have changed since.
func (r *run) prepare(ctx context.Context) (Ending, error) {
	ended, err := r.s.FinishInterrupted(ctx, !r.s.Options.Destroy)
	for _, host := range slices.Sorted(maps.Keys(ended)) {
		r.e.Warn("host %s: %s.", host, describeEnd(ended[host]))
	}
	if err = cmp.Or(Interrupted(ctx), err); err != nil {
		return Failed, err
	}
	var inputs []planner.HostInput
	r.p, inputs = r.s.propose(ctx)
	if err := Interrupted(ctx); err != nil {
		return Failed, err
	}
	warn(r.e, r.s.recordParted(ctx, r.p))
	if r.s.saved != nil {
		if err := r.bind(r.s.saved, inputs); err != nil {
			return Stale, err
		}
	}
	r.report.Plan, r.report.Before = r.p, r.s.Facts()
	return Done, nil
}

// bind compares the hosts with the saved plan. Hosts that have changed are skipped, with their links.
func (r *run) bind(saved *planner.Saved, inputs []planner.HostInput) error {
	for host, records := range r.s.Records() {
		for _, rec := range records {
			if e, done := rec.Applied(saved.ID); done && rec.Fabric == saved.Plan.Fabric {
				return fmt.Errorf("this plan was already applied at %s by %s (in the history of host %s): plan again",
					e.Time.Format(time.RFC3339), e.Who, host)
			}
		}
	}
	r.skip(planner.Moved(saved.Plan, r.s.plan(inputs, saved.Plan.LeftOut)), inputs)
	return nil
}

// skip makes the plan without the hosts that have changed since it was saved. moved lists the changes of each host.
func (r *run) skip(moved map[string][]string, inputs []planner.HostInput) {
	if len(moved) == 0 {
		return
	}
	r.p = r.s.planWithout(inputs, moved)
	for i := range r.p.Hosts {
		if h := &r.p.Hosts[i]; moved[h.Name] != nil && h.Unreachable == "" {
			h.Actions, h.Problems, h.Notes, h.Unchanged, h.Adopts, h.Stale = nil, nil, nil, 0, nil, moved[h.Name]
		}
	}
	r.p.Enrol = slices.DeleteFunc(r.p.Enrol, func(host string) bool { return moved[host] != nil })
}

// apply makes the plan's changes and verifies the fabric.
func (r *run) apply(ctx context.Context, ending Ending) (Ending, error) {
	p := r.p
	r.e.Plan(p, p.Notes())
	ending = max(ending, PlanEnding(p))
	if len(p.Problems()) > 0 {
		return ending, nil
	}
	if p.Changes() == 0 {
		r.notePending()
	}
	if err := r.approve(p); err != nil {
		return Failed, err
	}
	if stacked, err := r.installStacks(ctx); stacked != Done || err != nil {
		r.e.Walk(r.stacks)
		return max(ending, stacked), err
	}
	if keyed, err := r.makeKeys(ctx); keyed != Done || err != nil {
		r.report.Outcomes = after(r.stacks, r.keys)
		r.e.Walk(r.report.Outcomes)
		return max(ending, keyed), err
	}
	r.report.Outcomes = nil
	var checks VerifyOptions
	if r.s.Options.Scheduler != nil {
		checks.Only = []validators.Check{validators.CheckLink, validators.CheckPing}
	}
	var results []validators.Result
	inWaves := false
	changed, err := r.changeInWaves(ctx, parts{
		change: func(ctx context.Context, _ func(string) bool) (Ending, error) { return r.change(ctx) },
		check: func(ctx context.Context, of func(string) bool) {
			inWaves = true
			if where := r.finished(of); !r.o.Unverified && slices.ContainsFunc(r.s.Fabric.Paths(), where) {
				results = append(results, r.s.measure(ctx, checks, where, r.e)...)
			}
		},
	})
	err = r.ofTheRest(err)
	committed := r.committed() // without driver stacks, which are not rolled back
	r.report.Outcomes = after(r.stacks, after(r.keys, r.report.Outcomes))
	r.e.Walk(r.report.Outcomes)
	r.noteMoved()
	r.noteAdopted()
	if ending = max(ending, changed); err != nil || changed != Done || r.open {
		return ending, err
	}
	if ending == Stale && p.Changes() == 0 {
		return ending, nil
	}
	if r.o.Unverified {
		r.e.Note("Live checks skipped (-no-verify): nothing was verified.")
		return ending, nil
	}
	if r.s.Options.Scheduler != nil {
		r.e.Note("Jobs may run on these hosts, so that only carrier and pings are checked now: %s measures the rest, on hosts without jobs.",
			r.s.Options.Invocation.Hint("verify"))
	}
	unreachable := r.s.Unreachable()
	if !inWaves {
		results = r.s.measure(ctx, checks, nil, r.e)
	}
	proof, results := r.s.conclude(ctx, checks, results, unreachable, r.e)
	if ctx.Err() != nil {
		text := "interrupted; the fabric was not verified"
		if len(committed) > 0 {
			text = "interrupted; the changes are committed, but not verified"
		}
		return max(ending, proof), fmt.Errorf("%s: run %s", text, r.s.Options.Invocation.Hint("verify"))
	}
	r.report.Results = results
	undone, err := r.undoUnproven(ctx, committed)
	return max(ending, proof, undone), err
}

// notePending reports open transactions on hosts that need no change: what they made may still be reverted.
func (r *run) notePending() {
	by := r.s.Options.Invocation
	for _, t := range transactionsThat(r.s.transactions(), func(i calls.TxInfo) bool { return i.State.Open() }) {
		r.e.Note("! host %s: %s. To keep the changes of an apply that waits for its confirmation, run %s",
			t.Host, Describe(t.TxInfo, by), by.Hint("confirm"))
	}
}

// approve asks for approval of the plan. The error says why it must not be applied.
func (r *run) approve(p *planner.Plan) error {
	if err := disruptive(p, r.o.Allowed); err != nil {
		return err
	}
	if p.Changes() == 0 && p.RollsBack == "" && (!p.Destroy || !p.Forgets()) {
		return nil
	}
	return r.e.Approve(p, r.s.giveBack)
}

// disruptive returns an error that names the hosts which a plan disrupts more than is allowed.
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
	var disruptions []string
	worst := slices.SortedFunc(maps.Keys(hosts), func(a, b resource.Disruption) int { return cmp.Compare(b, a) })
	for _, d := range worst {
		disruptions = append(disruptions, fmt.Sprintf("%s of %s", d, planner.Names(hosts[d])))
	}
	return fmt.Errorf("nothing was changed: the plan needs a %s. To allow this, run with -allow=%s",
		strings.Join(disruptions, " and a "), strings.ReplaceAll(worst[0].String(), " ", "-"))
}

// reachedAt says at which address a host is now reachable.
const reachedAt = "Host %s is now reachable at %s: set this as its address in the files"

// noteMoved reports the new addresses of hosts whose management address has changed.
func (r *run) noteMoved() {
	for _, o := range r.report.Outcomes {
		for _, h := range r.p.Hosts {
			if to := h.MovesTo(); h.Name == o.Host && to.IsValid() && (o.Fate == Committed || o.Fate == Waiting) {
				r.e.Note(reachedAt+", and add it to known_hosts next to %s.", h.Name, to, h.Management.Server)
			}
		}
	}
}

// reportFates reports how the hosts' transactions ended, and the address of each host that reverted to
// another address.
func reportFates(e Events, fates []HostOutcome) {
	e.Fates(fates)
	for _, h := range fates {
		if h.Via != "" {
			e.Note(reachedAt+".", h.Host, h.Via)
		}
	}
}

// enrol writes the roster to hosts whose record has another one, and the history to hosts that were
// changed.
func (r *run) enrol(ctx context.Context) error {
	hosts, more := slices.Clone(r.p.Enrol), r.adopts()
	for _, h := range r.report.Outcomes {
		e := r.s.entry(r.report.Command, r.id)
		for _, o := range h.Outcomes {
			// A pending change is entered now. If it is not confirmed, the host enters its revert.
			if o.Done || h.Fate == Waiting && o.Action.Stage == resource.StagePersist {
				e.Changes += len(o.Action.Changes) + len(o.Also)
			}
		}
		if len(h.Outcomes) == 0 || h.Fate != Committed && h.Fate != Waiting && h.Fate != Unfinished {
			continue // nothing was changed there, or the host itself entered how it reverted
		}
		if err := h.Err(); err != nil {
			e.Failed = err.Error()
		}
		m := more[h.Host]
		if r.report.Adopted[h.Host] == 0 {
			e.Adopted = len(m.Adopt)
		}
		m.Entry = &e
		more[h.Host] = m
		if !slices.Contains(hosts, h.Host) {
			hosts = append(hosts, h.Host)
		}
	}
	for _, h := range r.p.Hosts {
		if r.acts(h.Name) || len(h.Problems) > 0 || h.Unreachable != "" || len(h.Stale) > 0 {
			continue // the transaction stores it, or the host is not as declared
		}
		if a := r.applied(h.Name); a != nil && !r.s.keeps(h.Name, a) {
			e := more[h.Name]
			e.Applied = a
			more[h.Name] = e
			if !slices.Contains(hosts, h.Name) {
				hosts = append(hosts, h.Name)
			}
		}
	}
	resting := r.s.resting() // a later part enrols them, or the next apply
	hosts = slices.DeleteFunc(hosts, func(host string) bool { return resting[host] != nil })
	for _, host := range hosts {
		if m := more[host]; m.Adopt != nil && m.Entry == nil {
			e := r.s.entry(r.report.Command, r.id)
			e.Adopted, m.Entry = len(m.Adopt), &e
			more[host] = m
		}
	}
	if err := r.s.Enrol(ctx, r.p, hosts, more); err != nil {
		return err
	}
	for _, host := range hosts {
		if n := len(more[host].Adopt); n > 0 {
			if r.report.Adopted == nil {
				r.report.Adopted = map[string]int{}
			}
			r.report.Adopted[host] = n
		}
	}
	return nil
}

// noteAdopted says how many values the hosts' records have adopted.
func (r *run) noteAdopted() {
	hosts := map[int][]string{}
	for host, n := range r.report.Adopted {
		hosts[n] = append(hosts[n], host)
	}
	for _, n := range slices.Sorted(maps.Keys(hosts)) {
		values := "1 value"
		if n > 1 {
			values = fmt.Sprintf("%d values", n)
		}
		if len(hosts[n]) > 1 {
			values += " each"
		}
		r.e.Note("✓ %s: %s adopted, as before the first apply", planner.Names(hosts[n]), values)
	}
}

// adopts returns the values that the hosts' records adopt, by host; none if a host has reverted, because the apply has then failed.
func (r *run) adopts() map[string]Enrolment {
	out := map[string]Enrolment{}
	for _, h := range r.report.Outcomes {
		if !slices.Contains([]Fate{"", Untouched, Committed, Waiting}, h.Fate) {
			return out
		}
	}
	for _, h := range r.p.Hosts {
		values := map[resource.Atom]string{}
		for _, a := range h.Adopts {
			maps.Copy(values, a.Values)
		}
		if len(values) > 0 {
			out[h.Name] = Enrolment{Adopt: values}
		}
	}
	return out
}

// acts reports whether the whole plan changes the host, now or in a later part of this run.
func (r *run) acts(host string) bool {
	return slices.ContainsFunc([]*planner.Plan{r.p, r.report.Plan}, func(p *planner.Plan) bool {
		return p != nil && slices.ContainsFunc(p.Hosts, func(h planner.HostPlan) bool { return h.Name == host && len(h.Actions) > 0 })
	})
}

// applied returns what the host is after this run; nil if the host keeps what it has, because keys alone are made.
func (r *run) applied(host string) *resource.Applied {
	if r.keying {
		return nil
	}
	return r.s.applied(host)
}

// entry returns a new entry for a host's history.
func (s *Session) entry(command, plan string) resource.HistoryEntry {
	return resource.HistoryEntry{Time: time.Now().UTC(), Command: command, Who: s.Options.User, Plan: plan,
		Source: s.Options.Source, Build: s.Options.Build}
}

// enrolLate writes the histories, even if the apply was interrupted.
func (r *run) enrolLate(ctx context.Context) error { return r.enrol(context.WithoutCancel(ctx)) }

// enrolCommitted writes the histories after the commit.
func (r *run) enrolCommitted(ctx context.Context) error {
	if err := r.enrolLate(ctx); err != nil {
		return fmt.Errorf("the committed changes stand, but not every host has recorded them: %w. Run %s again, "+
			"which completes the roster; a missing line of the history stays missing", err, r.s.Options.Invocation.Hint(r.report.Command))
	}
	return nil
}

// undoUnproven rolls the committed hosts back if a check failed after the commit and the options ask for it. Hosts that
// the apply did not change may be unreachable.
func (r *run) undoUnproven(ctx context.Context, committed []string) (Ending, error) {
	if !failedAny(r.report.Results) || len(committed) == 0 {
		return Done, nil
	}
	if !r.o.CheckRollback {
		by := r.s.Options.Invocation
		r.e.Note("! A check failed, and the changes stay. %s measures again, %s undoes this apply.", by.Hint("verify"), by.Hint("rollback"))
		return Done, nil
	}
	fates, err := r.s.undoPlan(context.WithoutCancel(ctx), r.p.Fabric, r.id, r.s.Options.User, committed, "a check failed")
	r.recordFates(fates)
	reportFates(r.e, r.report.Outcomes)
	return fatesEnding(fates), err
}

// committed returns the hosts whose transaction was committed.
func (r *run) committed() (hosts []string) {
	for _, h := range r.report.Outcomes {
		if h.Fate == Committed {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// failures joins the errors of all hosts, and returns the ending that they cause.
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
		return max(ending, Failed), errors.Join(errInterrupted, why)
	}
	return ending, why
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
