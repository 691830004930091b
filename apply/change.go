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

// change makes the plan's changes under a transaction on every host that they touch: all of them
// commit, or go back.
func (r *run) change(ctx context.Context) (Ending, error) {
	if r.p.Changes() == 0 {
		return Done, r.enrol(ctx)
	}
	baseline := r.baseline(ctx)
	r.e.Progress("opening a transaction on %d hosts", acting(r.p))
	tx, err := r.s.begin(ctx, r.p, txOptions{Fabric: r.p.Fabric, Plan: r.id, User: r.s.Options.User, Client: r.id, Lease: r.o.Lease})
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
		return r.commit(ctx, tx, ending, errors.Join(why, errors.New("apply stopped: what is marked ✓ above was done and stays, the rest was not; plan again to see what is left")))
	case why != nil && r.o.OnFailure == RollbackHost && ctx.Err() == nil:
		return r.withoutFailed(ctx, tx, ending, why, baseline)
	case why != nil:
		return r.back(ctx, tx, ending, why)
	}
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.back(ctx, tx, Failed, err)
	}
	return r.commit(ctx, tx, Done, nil)
}

func acting(p *planner.Plan) (n int) {
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 {
			n++
		}
	}
	return n
}

// commit makes the changes final, and enters them into the hosts' histories.
func (r *run) commit(ctx context.Context, tx *transaction, ending Ending, why error) (Ending, error) {
	if why != nil { // stopped half-way: what was done is kept as it is
		if err := tx.Prepare(ctx); err != nil {
			return r.back(ctx, tx, ending, errors.Join(why, err))
		}
	}
	if why == nil && r.o.Manual {
		return r.leaveOpen(ctx, tx)
	}
	if err := r.persist(ctx, tx, why); err != nil {
		return r.back(ctx, tx, ending, errors.Join(why, err))
	}
	// An interrupt between two hosts' commits would part them.
	fates, err := tx.Commit(context.WithoutCancel(ctx))
	r.enter(fates)
	return max(ending, fatesEnding(fates)), errors.Join(why, err, r.enrolLate(ctx))
}

// persist writes what lasts over a reboot, and sees that hosts are still reached and as declared: a
// network manager that takes over a NIC could undo what was proven.
func (r *run) persist(ctx context.Context, tx *transaction, why error) error {
	lasting := r.p.Has(resource.StagePersist)
	if lasting {
		r.e.Progress("%s", "writing what lasts over a reboot")
	}
	err := tx.Persist(context.WithoutCancel(ctx), r.report.Outcomes)
	switch {
	case err != nil || !lasting || why != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted")
	}
	return errors.Join(tx.Reach(ctx), r.s.converge(ctx, acted(r.p), resource.StagePersist))
}

// back takes all hosts to what they were.
func (r *run) back(ctx context.Context, tx *transaction, ending Ending, why error) (Ending, error) {
	fates, _ := tx.Revert(context.WithoutCancel(ctx), tx.Hosts(), firstLine(why)) // the fates say it, host by host
	tx.Close()
	r.enter(fates)
	text := "apply failed, and every host that it touched is as it was before"
	if fatesEnding(fates) == OutcomeUnknown {
		text = "apply failed, and not every host is as it was before: see the lines above, and `fabricform pending`"
	}
	return max(ending, Undone, fatesEnding(fates)), errors.Join(why, errors.New(text), r.enrolLate(ctx))
}

// withoutFailed takes the failed hosts back, and goes on with the others.
func (r *run) withoutFailed(ctx context.Context, tx *transaction, ending Ending, why error, baseline []validators.Result) (Ending, error) {
	var failed []string
	for _, h := range r.report.Outcomes {
		if h.Err() != nil {
			failed = append(failed, h.Host)
		}
	}
	gone, _ := tx.Revert(context.WithoutCancel(ctx), failed, firstLine(why)) // the fates say it, host by host
	tx.Leave(failed)
	r.enter(gone)
	ending = max(ending, Undone, fatesEnding(gone))
	rest := *r.p
	rest.Hosts = slices.DeleteFunc(slices.Clone(r.p.Hosts), func(h planner.HostPlan) bool { return slices.Contains(failed, h.Name) })
	whole := r.p
	r.p = &rest // what is to be as declared now, at the gate and once it is kept
	defer func() { r.p = whole }()
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.back(ctx, tx, ending, errors.Join(why, err))
	}
	others, err := r.commit(ctx, tx, Done, nil)
	return max(ending, others), errors.Join(why, err)
}

// enter keeps in the report how each host ended.
func (r *run) enter(fates map[string]HostOutcome) {
	for i := range r.report.Outcomes {
		h := &r.report.Outcomes[i]
		if f, ok := fates[h.Host]; ok {
			h.Fate, h.Why, h.Left, h.Via = f.Fate, f.Why, f.Left, f.Via
		} else if h.Fate == "" && len(h.Outcomes) == 0 {
			h.Fate = Untouched
		}
	}
}
