package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/validators"
)

// What to do when the apply fails on a host.
const (
	rollbackAll  = "rollback-all"
	rollbackHost = "rollback-host"
	stopThere    = "stop"
)

// change makes the plan's changes under a transaction on every host that they touch: all of them
// commit, or go back.
func (r *job) change(ctx context.Context) (int, error) {
	if r.p.Changes() == 0 {
		return exitOK, r.enrol(ctx)
	}
	baseline := r.baseline(ctx)
	r.a.err.Progressf("opening a transaction on %d hosts", acting(r.p))
	tx, err := r.s.fleet.Begin(ctx, r.p, apply.TxOptions{Fabric: r.p.Fabric, Plan: r.id, User: operator(), Client: r.id, Lease: r.o.lease})
	var held *apply.HeldError
	if errors.As(err, &held) {
		return exitHeld, fmt.Errorf("nothing was changed: %w", err)
	}
	if apply.IsHeld(err) {
		return exitHeld, err
	}
	if err != nil {
		return exitError, err
	}
	defer tx.Close()
	defer r.keepTokens(tx)()
	r.report.Outcomes = tx.Walk(ctx, r.p, r.o.onFailure == rollbackHost, func(act planner.Action) { r.a.err.Progressf("%s", act.Resource.Addr) })
	code, why := r.failures(ctx)
	switch {
	case why != nil && r.o.onFailure == stopThere && ctx.Err() == nil:
		return r.commit(ctx, tx, code, errors.Join(why, errors.New("apply stopped: what is marked ✓ above was done and stays, the rest was not; plan again to see what is left")))
	case why != nil && r.o.onFailure == rollbackHost && ctx.Err() == nil:
		return r.withoutFailed(ctx, tx, code, why, baseline)
	case why != nil:
		return r.back(ctx, tx, code, why)
	}
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.back(ctx, tx, exitError, err)
	}
	return r.commit(ctx, tx, exitOK, nil)
}

func acting(p *planner.Plan) (n int) {
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 {
			n++
		}
	}
	return n
}

// failures is what kept the walk from its end.
func (r *job) failures(ctx context.Context) (code int, why error) {
	for _, h := range r.report.Outcomes {
		if err := h.Err(); err != nil {
			kind := exitError
			switch {
			case apply.IsStale(err):
				kind = exitStale
			case apply.IsHeld(err):
				kind = exitHeld
			}
			code, why = worse(code, kind), errors.Join(why, fmt.Errorf("host %s: %w", h.Host, err))
		}
	}
	if ctx.Err() != nil {
		return worse(code, exitError), errors.Join(errors.New("interrupted"), why)
	}
	return code, why
}

// gate is what must hold before anything is final: new connections get in, the hosts read as
// declared, and no carrier or ping that was there before is gone.
func (r *job) gate(ctx context.Context, tx *apply.Transaction, baseline []validators.Result) error {
	r.a.err.Progressf("%s", "checking that every host is still reached by a new connection, and as declared")
	if err := tx.Reach(ctx); err != nil {
		return err
	}
	if err := r.s.settled(ctx, acted(r.p), resource.StageRuntime); err != nil {
		return err
	}
	if err := r.regressed(ctx, baseline); err != nil {
		return err
	}
	return tx.Prepare(ctx)
}

// commit makes the changes final, and enters them into the hosts' histories.
func (r *job) commit(ctx context.Context, tx *apply.Transaction, code int, why error) (int, error) {
	if why != nil { // stopped half-way: what was done is kept as it is
		if err := tx.Prepare(ctx); err != nil {
			return r.back(ctx, tx, code, errors.Join(why, err))
		}
	}
	if why == nil && r.o.confirm == confirmManual {
		return r.leaveOpen(ctx, tx)
	}
	if err := r.persist(ctx, tx, why); err != nil {
		return r.back(ctx, tx, code, errors.Join(why, err))
	}
	// An interrupt between two hosts' commits would part them.
	fates, err := tx.Commit(context.WithoutCancel(ctx))
	r.fates(fates)
	return worse(code, fateCode(fates)), errors.Join(why, err, r.enrolLate(ctx))
}

// persist writes what lasts over a reboot, and sees that hosts are still reached and as declared: a
// network manager that takes over a NIC could undo what was proven.
func (r *job) persist(ctx context.Context, tx *apply.Transaction, why error) error {
	lasting := r.p.Has(resource.StagePersist)
	if lasting {
		r.a.err.Progressf("%s", "writing what lasts over a reboot")
	}
	err := tx.Persist(context.WithoutCancel(ctx), r.report.Outcomes)
	switch {
	case err != nil || !lasting || why != nil:
		return err
	case ctx.Err() != nil:
		return errors.New("interrupted")
	}
	return errors.Join(tx.Reach(ctx), r.s.settled(ctx, acted(r.p), resource.StagePersist))
}

// back takes all hosts to what they were.
func (r *job) back(ctx context.Context, tx *apply.Transaction, code int, why error) (int, error) {
	fates, _ := tx.Revert(context.WithoutCancel(ctx), tx.Hosts(), firstLine(why)) // the fates say it, host by host
	tx.Close()
	r.fates(fates)
	text := "apply failed, and every host that it touched is as it was before"
	if fateCode(fates) == exitUnknown {
		text = "apply failed, and not every host is as it was before: see the lines above, and `fabricform pending`"
	}
	return worse(worse(code, exitRolledBack), fateCode(fates)), errors.Join(why, errors.New(text), r.enrolLate(ctx))
}

// withoutFailed takes the failed hosts back, and goes on with the others.
func (r *job) withoutFailed(ctx context.Context, tx *apply.Transaction, code int, why error, baseline []validators.Result) (int, error) {
	var failed []string
	for _, h := range r.report.Outcomes {
		if h.Err() != nil {
			failed = append(failed, h.Host)
		}
	}
	gone, _ := tx.Revert(ctx, failed, firstLine(why)) // the fates say it, host by host
	tx.Leave(failed)
	r.fates(gone)
	code = worse(worse(code, exitRolledBack), fateCode(gone))
	rest := *r.p
	rest.Hosts = slices.DeleteFunc(slices.Clone(r.p.Hosts), func(h planner.HostPlan) bool { return slices.Contains(failed, h.Name) })
	whole := r.p
	r.p = &rest // what is to be as declared now, at the gate and once it is kept
	defer func() { r.p = whole }()
	if err := r.gate(ctx, tx, baseline); err != nil {
		return r.back(ctx, tx, code, errors.Join(why, err))
	}
	others, err := r.commit(ctx, tx, exitOK, nil)
	return worse(code, others), errors.Join(why, err)
}

// fates enters how each host ended, and tells it.
func (r *job) fates(fates map[string]apply.HostOutcome) {
	for i := range r.report.Outcomes {
		h := &r.report.Outcomes[i]
		if f, ok := fates[h.Host]; ok {
			h.Fate, h.Why, h.Left, h.Via = f.Fate, f.Why, f.Left, f.Via
		} else if h.Fate == "" && len(h.Outcomes) == 0 {
			h.Fate = apply.Untouched
		}
	}
}

// fateCode is 7 where a person is needed.
func fateCode(fates map[string]apply.HostOutcome) int {
	for _, f := range fates {
		if f.Fate == apply.RevertFailed || f.Fate == apply.Lost {
			return exitUnknown
		}
	}
	return exitOK
}

func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// enrolLate writes the histories even of an interrupted apply.
func (r *job) enrolLate(ctx context.Context) error {
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return r.enrol(late)
}

// baseline measures what already works on the paths that the plan touches, so that the gate can tell
// what the changes broke from what never worked: that is left to the checks afterwards.
func (r *job) baseline(ctx context.Context) []validators.Result {
	touched := map[fabric.NICRef]bool{}
	for _, h := range r.p.Hosts {
		for _, a := range h.Actions {
			if a.Resource.Addr.Kind == "nic" {
				touched[fabric.NICRef{Host: h.Name, NIC: a.Resource.Addr.Name}] = true
			}
		}
	}
	where := func(p fabric.Path) bool {
		return (touched[p.Endpoints[0]] || touched[p.Endpoints[1]]) && r.lit(p.Endpoints[0]) && r.lit(p.Endpoints[1])
	}
	if r.s.destroy || !slices.ContainsFunc(r.s.fabric.Paths(), where) {
		return nil
	}
	return r.works(ctx, where)
}

// lit says whether a NIC has a carrier now. Where one end has none, nothing works that could break.
func (r *job) lit(ref fabric.NICRef) bool {
	h, snap := r.s.fabric.Host(ref.Host), r.s.facts[ref.Host]
	if h == nil || snap == nil || h.NIC(ref.NIC) == nil {
		return false
	}
	l := nccl.Netdev(snap, h.NIC(ref.NIC))
	return l != nil && l.Carrier
}

// works are the carriers and pings that pass.
func (r *job) works(ctx context.Context, where func(fabric.Path) bool) []validators.Result {
	all := validators.Run(ctx, r.s.fabric, r.s.fleet, validators.Options{Only: []validators.Check{validators.CheckLink, validators.CheckPing}, Where: where, Lab: r.s.lab != nil,
		Unreachable: r.s.unreachable(), LeftOut: r.s.leftOut})
	return slices.DeleteFunc(all, func(v validators.Result) bool {
		return v.Verdict != validators.Pass || v.Item != validators.Carrier && v.Item != validators.SmallPing
	})
}

// regressed says what passed before the changes and does not any more, with patience for links that
// come up again.
func (r *job) regressed(ctx context.Context, before []validators.Result) error {
	if len(before) == 0 {
		return nil
	}
	paths := map[validators.Subject]bool{}
	for _, v := range before {
		paths[v.Subject] = true
	}
	var lost []string
	for range 4 {
		now := map[validators.Key]bool{}
		for _, v := range r.works(ctx, func(p fabric.Path) bool { return paths[validators.OnPath(p)] }) {
			now[v.Key()] = true
		}
		lost = nil
		for _, v := range before {
			if !now[v.Key()] {
				lost = append(lost, v.Key().String())
			}
		}
		if len(lost) == 0 {
			return nil
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
	return fmt.Errorf("the changes broke what worked before: %s", strings.Join(lost, "; "))
}

// acceptance is the outcome of the checks after a commit; where it is asked for, a failed one takes
// the hosts back to the kept snapshot.
func (r *job) acceptance(ctx context.Context, code int, committed []string) (int, error) {
	if code != exitCheckFailed || r.o.onFailedCheck != rollbackCheck || len(committed) == 0 {
		return code, nil
	}
	fates, err := r.s.fleet.UndoLast(context.WithoutCancel(ctx), r.p.Fabric, r.id, committed, "a check failed", nil)
	r.fates(fates)
	r.a.report().Fates(r.report.Outcomes)
	noteReturned(r.a.report(), r.report.Outcomes)
	return worse(code, fateCode(fates)), err
}

// committed are the hosts whose transaction was.
func (r *job) committed() (hosts []string) {
	for _, h := range r.report.Outcomes {
		if h.Fate == apply.Committed {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}
