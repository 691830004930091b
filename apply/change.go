package apply

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// change makes the plan's changes in a transaction on every host that they affect. All these hosts
// commit, or all roll back.
func (r *run) change(ctx context.Context) (Ending, error) {
	if r.p.Changes() == 0 && !r.p.Forgets() {
		return Done, withInterrupt(ctx, r.enrol(ctx))
	}
	baseline := r.baseline(ctx)
	r.e.Progress("opening a transaction on %s", countHosts(countActing(r.p)))
	tx, err := r.s.begin(ctx, r.p, txOptions{Fabric: r.p.Fabric, Plan: r.id, User: r.s.Options.User, Client: NewID(), Lease: r.o.Lease, Secrets: r.s.Fabric.Secrets})
	var held *heldError
	if errors.As(err, &held) {
		return Held, fmt.Errorf("nothing was changed: %w", err)
	}
	if isHeld(err) {
		return Held, err
	}
	if err != nil {
		return Failed, err
	}
	defer tx.Close()
	defer r.keepTokens(tx)()
	r.report.Outcomes = tx.Walk(ctx, r.p, r.o.OnFailure == RollbackHost, func(act planner.Action) { r.e.Progress("%s", act.Resource.Addr) })
	ending, why := r.failures(ctx)
	switch {
	case why != nil && r.o.OnFailure == Stop && ctx.Err() == nil:
		return r.commit(ctx, tx, ending, errors.Join(why, errors.New("apply stopped: the changes marked ✓ above were made and kept, the others were not made. Plan again to see what remains")))
	case why != nil && r.o.OnFailure == RollbackHost && ctx.Err() == nil:
		return r.revertFailed(ctx, tx, ending, why, baseline)
	case why != nil:
		return r.revert(ctx, tx, ending, why)
	}
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.revert(ctx, tx, Failed, err)
	}
	return r.commit(ctx, tx, Done, nil)
}

func countHosts(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

// countActing returns the number of hosts that a plan changes.
func countActing(p *planner.Plan) (n int) {
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 {
			n++
		}
	}
	return n
}

// commit makes the changes final, and records them in the hosts' histories.
func (r *run) commit(ctx context.Context, tx *coordinator, ending Ending, why error) (Ending, error) {
	if why != nil { // the walk stopped half-way; keep what was done
		if err := tx.Prepare(ctx); err != nil {
			return r.revert(ctx, tx, ending, errors.Join(why, err))
		}
	}
	if why == nil && r.o.Manual {
		return r.leaveOpen(ctx, tx)
	}
	if err := r.persist(ctx, tx, why); err != nil {
		return r.revert(ctx, tx, ending, errors.Join(why, err))
	}
	// Without cancel: an interrupt would leave some hosts committed and others not.
	fates, err := tx.Commit(context.WithoutCancel(ctx))
	r.recordFates(fates)
	return max(ending, fatesEnding(fates)), errors.Join(why, err, r.enrolCommitted(ctx))
}

// persist writes the persistent configuration, then checks again that the hosts are reachable and as
// declared: a network manager that takes over a NIC could undo the changes.
func (r *run) persist(ctx context.Context, tx *coordinator, why error) error {
	lasting := r.p.Has(resource.StagePersist)
	if lasting {
		r.e.Progress("%s", "writing the persistent configuration")
	}
	err := tx.Persist(context.WithoutCancel(ctx), r.report.Outcomes)
	switch {
	case err != nil || !lasting || why != nil:
		return err
	case ctx.Err() != nil:
		return errInterrupted
	}
	return withInterrupt(ctx, errors.Join(tx.Reach(ctx), r.s.converge(ctx, plannedHosts(r.p), resource.StagePersist)))
}

// revert rolls all hosts back.
func (r *run) revert(ctx context.Context, tx *coordinator, ending Ending, why error) (Ending, error) {
	fates, _ := tx.Revert(context.WithoutCancel(ctx), tx.Hosts(), firstLine(why)) // the fates have each host's error
	tx.Close()
	r.recordFates(fates)
	text := "apply failed, and every host that it changed was rolled back"
	if fatesEnding(fates) == OutcomeUnknown {
		text = "apply failed, and not every host could be rolled back: see the lines above, and run " + r.s.Options.Invocation.Hint("pending")
	}
	return max(ending, Undone, fatesEnding(fates)), errors.Join(why, errors.New(text), r.enrolLate(ctx))
}

// revertFailed rolls the failed hosts back, and continues with the others.
func (r *run) revertFailed(ctx context.Context, tx *coordinator, ending Ending, why error, baseline []validators.Result) (Ending, error) {
	var failed []string
	for _, h := range r.report.Outcomes {
		if h.Err() != nil {
			failed = append(failed, h.Host)
		}
	}
	gone, _ := tx.Revert(context.WithoutCancel(ctx), failed, firstLine(why)) // the fates have each host's error
	tx.Leave(failed)
	r.recordFates(gone)
	ending = max(ending, Undone, fatesEnding(gone))
	rest := *r.p
	rest.Hosts = slices.DeleteFunc(slices.Clone(r.p.Hosts), func(h planner.HostPlan) bool { return slices.Contains(failed, h.Name) })
	whole := r.p
	r.p = &rest // the gate and the commit must not expect the failed hosts to be as declared
	defer func() { r.p = whole }()
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.revert(ctx, tx, ending, errors.Join(why, err))
	}
	others, err := r.commit(ctx, tx, Done, nil)
	return max(ending, others), errors.Join(why, err)
}

// recordFates adds the fates to the report.
func (r *run) recordFates(fates map[string]HostOutcome) {
	for i := range r.report.Outcomes {
		h := &r.report.Outcomes[i]
		if f, ok := fates[h.Host]; ok {
			h.Fate, h.Why, h.Left, h.Via = f.Fate, f.Why, f.Left, f.Via
		} else if h.Fate == "" && len(h.Outcomes) == 0 {
			h.Fate = Untouched
		}
	}
}
