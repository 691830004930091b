package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// leaveOpen ends an apply whose transaction stays open until it is confirmed. If it is not confirmed,
// what leaveOpen writes into the hosts' records reverts with the rest.
func (r *run) leaveOpen(ctx context.Context, tx *coordinator) (Ending, error) {
	declared := *r.s.Fabric
	declared.Outputs = nil // outputs may be sensitive, and hosts do not have them
	w := tokens{ID: NewID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs(),
		Waits: &pendingApply{Fabric: &declared, Destroy: r.s.Options.Destroy, LeftOut: r.s.latest.leftOut}}
	until := time.Now().Add(r.o.Lease).Format("15:04:05")
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = Waiting, "until "+until
		}
	}
	if err := r.s.Options.Tokens.save(w); err != nil {
		return r.revert(ctx, tx, Failed, err)
	}
	for _, h := range r.report.Outcomes {
		if h.Fate == Waiting {
			r.s.leases.end(HostOutcome{Host: h.Host, Fate: h.Fate, Why: h.Why})
		}
	}
	err := r.enrolLate(ctx)
	tx.Close()
	r.open = true
	r.e.Note("The changes are made, but pending until %s. To keep them, run %s; otherwise the hosts revert automatically.",
		until, r.s.Options.Invocation.Hint("confirm"))
	return Done, err
}

// Confirm ends the pending applies (Options.Manual) on the chosen hosts: each is committed on all of its
// hosts, or reverted on all. f says how to reach the hosts. takeOver is a token file from another machine;
// "" uses this machine's tokens. An interrupt does not stop Confirm between two hosts.
func Confirm(ctx context.Context, f *fabric.Fabric, o SessionOptions, takeOver string, e Events) *Report {
	report := &Report{Command: "confirm", Fabric: f.Name, Build: o.Build, Who: o.User, Started: time.Now()}
	pending, err := o.Tokens.pending(takeOver, o.Chosen, o.Invocation)
	if err != nil {
		return report.end(Failed, err)
	}
	late, fates, ending := context.WithoutCancel(ctx), map[string]HostOutcome{}, Done
	var whys error
	for _, w := range pending {
		ended, reverted, err := confirm(late, f, o, w, takeOver != "", e)
		maps.Copy(fates, ended)
		whys = errors.Join(whys, err)
		if reverted {
			ending = RolledBack
		}
	}
	if whys == nil && len(fates) == 0 {
		return report.end(Failed, o.Tokens.nonePendingError())
	}
	report.Outcomes = sorted(fates)
	reportFates(e, report.Outcomes)
	return report.end(max(ending, fatesEnding(fates)), whys)
}

// sorted returns the fates in the order of their hosts.
func sorted(fates map[string]HostOutcome) (out []HostOutcome) {
	for _, h := range slices.Sorted(maps.Keys(fates)) {
		out = append(out, fates[h])
	}
	return out
}

// pending returns the pending applies that this machine can confirm and whose hosts are all chosen.
func (k TokenStore) pending(from string, chosen map[string]bool, by fabric.Invocation) ([]tokens, error) {
	all, err := k.all(from)
	if err != nil {
		return nil, err
	}
	if from != "" && all[0].Waits == nil {
		return nil, fmt.Errorf("%s belongs to an apply that is not pending. To roll it back, run %s",
			from, by.Hint("rollback", "-takeover", from))
	}
	all = slices.DeleteFunc(all, func(w tokens) bool {
		for host := range w.Hosts {
			if chosen != nil && !chosen[host] {
				return true
			}
		}
		return w.Waits == nil
	})
	if len(all) == 0 {
		return nil, k.nonePendingError()
	}
	return all, nil
}

func (k TokenStore) nonePendingError() error {
	return fmt.Errorf("this machine has no pending apply of fabric %q to confirm", k.Fabric)
}

// confirm ends one pending apply: it is committed on all of its hosts, or reverted on all. fates is empty if
// the apply has already ended on all hosts, and newer transactions have started there.
func confirm(ctx context.Context, f *fabric.Fabric, o SessionOptions, w tokens, takeOver bool,
	e Events) (fates map[string]HostOutcome, reverted bool, err error) {
	if !w.Waits.Destroy {
		if err := w.Waits.Fabric.FillSecrets(f.Secrets); err != nil {
			return nil, false, fmt.Errorf("%w: confirm with the values that were applied, from -var, files or the environment", err)
		}
	}
	s := resume(ctx, f, o, w)
	defer s.Close()
	reported, _ := s.Transactions(ctx) // the next step finds hosts that do not answer
	k, on, replaced := o.Tokens, map[string]calls.TxRef{}, replacedIn(reported)
	var gone []string
	for _, host := range slices.Sorted(maps.Keys(w.Hosts)) {
		if ref := w.Hosts[host]; replaced(host, ref) {
			gone = append(gone, host)
		} else {
			on[host] = ref
		}
	}
	if len(gone) > 0 && w.endedOnAll(endedIn(reported)) {
		return nil, false, k.remove(w)
	}
	if fates := revertedIn(reported, on); len(fates) == len(w.Hosts) {
		return fates, true, errors.Join(errors.New("too late to confirm: the hosts have already rolled back automatically"), k.remove(w))
	}
	tx := s.resume(ctx, f.Name, on)
	defer tx.Close()
	if takeOver {
		tx.Moved = k.follow(w, func(err error) { warn(e, err) })
		ended := endedIn(reported) // only open transactions can be taken over
		open := slices.DeleteFunc(tx.Hosts(), func(host string) bool { return ended(host, on[host]) })
		if err := tx.TakeOver(ctx, open, o.User, NewID()); err != nil {
			return nil, false, fmt.Errorf("take the transaction over: %w. "+
				"This machine now holds the tokens of the hosts that were taken over: continue with %s or %s, without -takeover",
				err, o.Invocation.Hint("confirm"), o.Invocation.Hint("rollback"))
		}
	}
	if len(gone) > 0 {
		err = fmt.Errorf("it has already ended on %s, and a newer transaction has started there", strings.Join(gone, ", "))
	} else {
		err = s.persistAndProve(ctx, tx)
	}
	if err == nil {
		fates, err = tx.Commit(ctx)
	} else { // one host cannot commit, so none does
		reverted = true
		fates, _ = tx.Revert(ctx, tx.Hosts(), firstLine(err)) // the fates say it, host by host
	}
	return fates, reverted, errors.Join(err, k.saveRest(w, fates, replaced))
}

// revertedIn returns the fates of the hosts that report that the transaction has reverted.
func revertedIn(reported map[string][]calls.TxInfo, on map[string]calls.TxRef) map[string]HostOutcome {
	fates := map[string]HostOutcome{}
	for host, ref := range on {
		for _, i := range reported[host] {
			if i.ID == ref.ID && i.State == checkpoint.Reverted {
				fates[host] = outcomeOf(host, i)
			}
		}
	}
	return fates
}

// saveRest saves the tokens of hosts whose transaction has not ended, for the next confirm: a lost host can
// still commit if the others committed, and reverts if they reverted.
func (k TokenStore) saveRest(w tokens, fates map[string]HostOutcome, replaced func(host string, on calls.TxRef) bool) error {
	maps.DeleteFunc(w.Hosts, func(host string, _ calls.TxRef) bool { return fates[host].Fate == Committed })
	ended := endedBy(fates)
	if w.endedOnAll(func(host string, on calls.TxRef) bool { return replaced(host, on) || ended(host, on) }) {
		return k.remove(w)
	}
	return k.save(w)
}

// resume opens a session on the hosts of a pending apply. It connects to them as the files say now: an
// address may have changed, and another machine may use another SSH configuration.
func resume(ctx context.Context, f *fabric.Fabric, o SessionOptions, w tokens) *Session {
	for _, h := range w.Waits.Fabric.Hosts {
		if now := f.Host(h.Name); now != nil {
			h.Address, h.SSH, h.Slurm = now.Address, now.SSH, now.Slurm
		}
	}
	o.Chosen, o.Destroy = map[string]bool{}, w.Waits.Destroy
	for host := range w.Hosts {
		o.Chosen[host] = true
	}
	s := Open(ctx, w.Waits.Fabric, o)
	s.latest.leftOut = w.Waits.LeftOut
	return s
}

// persistAndProve writes the persistent configuration and checks, as apply does, that the hosts are
// reachable and as declared.
func (s *Session) persistAndProve(ctx context.Context, tx *coordinator) error {
	if err := tx.Persist(ctx, nil); err != nil {
		return err
	}
	if err := tx.Reach(ctx); err != nil {
		return err
	}
	hosts := map[string]bool{}
	for _, h := range tx.Hosts() {
		hosts[h] = true
	}
	return s.converge(ctx, hosts, resource.StagePersist)
}
