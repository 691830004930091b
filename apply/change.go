package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// change makes the plan's changes in a transaction on every host that they affect. All these hosts
// commit, or all roll back.
func (r *run) change(ctx context.Context) (Ending, error) {
	if r.p.Changes() == 0 && !r.p.Forgets() {
		return Done, withInterrupt(ctx, r.enrol(ctx))
	}
	baseline := r.baseline(ctx)
	r.e.Progress("opening a transaction on %s", countHosts(countActing(r.p)))
	tx, err := r.s.begin(ctx, r.p, txOptions{Fabric: r.p.Fabric, Plan: r.id, User: r.s.Options.User, Client: NewID(),
		Lease: r.o.Lease, Secrets: r.s.Fabric.Secrets, Applied: r.applied})
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
	defer r.saveTokens(tx)()
	// Before the first change: what a change disturbs and the helper restores is then known to have been there.
	adopts := r.adopts()
	adopting := slices.DeleteFunc(tx.Hosts(), func(host string) bool { return adopts[host].Adopt == nil })
	if err := r.s.Enrol(ctx, r.p, adopting, adopts); err != nil {
		return r.revert(ctx, tx, Failed, err)
	}
	r.report.Outcomes = tx.Walk(ctx, r.p, r.o.OnFailure == RollbackHost, func(act planner.Action) { r.e.Progress("%s", act.Resource.Addr) })
	ending, why := r.failures(ctx)
	switch {
	case why != nil && r.o.OnFailure == Stop && ctx.Err() == nil:
		return r.commit(ctx, tx, ending, errors.Join(why, errors.New(
			"apply stopped: the changes marked ✓ above were made and kept, the others were not made. Plan again to see what remains")))
	case why != nil && r.o.OnFailure == RollbackHost && ctx.Err() == nil:
		ending, why = r.revertFailed(ctx, tx, ending, why)
		if err := r.gate(ctx, tx, baseline); err != nil {
			return r.revert(ctx, tx, ending, errors.Join(why, err))
		}
		others, err := r.commit(ctx, tx, Done, nil)
		return max(ending, others), errors.Join(why, err, r.partedError())
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
	if why == nil && r.o.Manual && !r.keying {
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
	return withInterrupt(ctx, errors.Join(tx.Reach(ctx), r.s.converge(ctx, r.expectedHosts(), resource.StagePersist)))
}

// revert rolls all hosts back.
func (r *run) revert(ctx context.Context, tx *coordinator, ending Ending, why error) (Ending, error) {
	fates, _ := tx.Revert(context.WithoutCancel(ctx), tx.Hosts(), firstLine(why)) // the fates have each host's error
	tx.Close()
	r.recordFates(fates)
	text := cmp.Or(r.wave, "apply") + " failed, and every host that it changed was rolled back"
	if fatesEnding(fates) == OutcomeUnknown {
		text = cmp.Or(r.wave, "apply") + " failed, and not every host could be rolled back: see the lines above, and run " +
			r.s.Options.Invocation.Hint("pending")
	}
	return max(ending, RolledBack, fatesEnding(fates)),
		errors.Join(revertedBefore(fates, firstLine(why)), why, errors.New(text), r.enrolLate(ctx))
}

// revertFailed rolls the failed hosts back, and takes them out of the transaction.
func (r *run) revertFailed(ctx context.Context, tx *coordinator, ending Ending, why error) (Ending, error) {
	for _, h := range r.report.Outcomes {
		if h.Err() != nil {
			r.failed = append(r.failed, h.Host)
		}
	}
	gone, _ := tx.Revert(context.WithoutCancel(ctx), r.failed, firstLine(why)) // the fates have each host's error
	tx.Leave(r.failed)
	r.recordFates(gone)
	return max(ending, RolledBack, fatesEnding(gone)), errors.Join(revertedBefore(gone, firstLine(why)), why)
}

// partedError names the links and networks that RollbackHost has changed at some ends only.
func (r *run) partedError() error {
	var changed []string
	for _, h := range r.report.Outcomes {
		if (h.Fate == Committed || h.Fate == Waiting) && len(h.Outcomes) > 0 {
			changed = append(changed, h.Host)
		}
	}
	joints := r.between(r.failed, changed)
	if len(joints) == 0 {
		return nil
	}
	return fmt.Errorf("because of -on-failure %s, %s may be changed at one end only, and not work: rolled back on %s, changed on %s",
		RollbackHost, planner.Names(joints), planner.Names(r.failed), planner.Names(changed))
}

// recordFates adds the fates to the report.
func (r *run) recordFates(fates map[string]HostOutcome) {
	for i := range r.report.Outcomes {
		h := &r.report.Outcomes[i]
		if f, ok := fates[h.Host]; ok {
			f.Outcomes = h.Outcomes
			*h = f
		} else if h.Fate == "" && len(h.Outcomes) == 0 {
			h.Fate = Untouched
		}
	}
}
