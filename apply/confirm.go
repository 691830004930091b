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
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// leaveOpen ends an apply that waits for its confirmation. What it enters into the hosts' records
// goes with the rest, should the confirmation not come.
func (r *run) leaveOpen(ctx context.Context, tx *transaction) (Ending, error) {
	declared := *r.s.Fabric
	declared.Outputs = nil // they may be sensitive, and are nothing that hosts have
	w := tokens{ID: NewID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs(), Waits: &awaited{Fabric: &declared, Destroy: r.s.Options.Destroy}}
	until := time.Now().Add(r.o.Lease).Format("15:04:05")
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = Waiting, "until "+until
		}
	}
	if err := r.s.Options.Tokens.save(w); err != nil {
		return r.back(ctx, tx, Failed, err)
	}
	err := r.enrolLate(ctx)
	tx.Close()
	r.open = true
	r.e.Note("The changes are made and wait until %s: `fabricform confirm` keeps them; without it the hosts go back by themselves.", until)
	return Done, err
}

// Confirm ends what an apply with Manual left open on the chosen hosts: it is kept on all of an apply's
// hosts, or reverted on all. f says how the hosts are reached. takeOver is a file of tokens that another
// machine kept; "": those of this one. An interrupt does not part the hosts.
func Confirm(ctx context.Context, f *fabric.Fabric, o SessionOptions, takeOver string, e Events) *Report {
	report := &Report{Command: "confirm", Fabric: f.Name, Build: o.Build, Who: o.User, Started: time.Now()}
	waiting, err := o.Tokens.waiting(takeOver, o.Chosen)
	if err != nil {
		return report.end(Failed, err)
	}
	late, fates, ending := context.WithoutCancel(ctx), map[string]HostOutcome{}, Done
	var whys error
	for _, w := range waiting {
		ended, reverted, err := confirm(late, f, o, w, takeOver != "", e)
		maps.Copy(fates, ended)
		whys = errors.Join(whys, err)
		if reverted {
			ending = Undone
		}
	}
	if whys == nil && len(fates) == 0 {
		return report.end(Failed, o.Tokens.noneWaits())
	}
	report.Outcomes = sorted(fates)
	tellFates(e, report.Outcomes)
	return report.end(max(ending, fatesEnding(fates)), whys)
}

// sorted are the fates in the order of their hosts.
func sorted(fates map[string]HostOutcome) (out []HostOutcome) {
	for _, h := range slices.Sorted(maps.Keys(fates)) {
		out = append(out, fates[h])
	}
	return out
}

// waiting are the applies that wait for a confirmation from here, and wholly on the chosen hosts.
func (k TokenStore) waiting(from string, chosen map[string]bool) ([]tokens, error) {
	all, err := k.all(from)
	if err != nil {
		return nil, err
	}
	if from != "" && all[0].Waits == nil {
		return nil, fmt.Errorf("%s is of an apply that does not wait; `fabricform rollback -takeover %s` ends it", from, from)
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
		return nil, k.noneWaits()
	}
	return all, nil
}

func (k TokenStore) noneWaits() error {
	return fmt.Errorf("no apply of fabric %q waits for a confirmation from this machine", k.Fabric)
}

// confirm ends one apply: it is kept on all of its hosts, or reverted on all. There are no fates where it
// has ended everywhere, and hosts have gone on since.
func confirm(ctx context.Context, f *fabric.Fabric, o SessionOptions, w tokens, takeOver bool, e Events) (fates map[string]HostOutcome, reverted bool, err error) {
	s := resume(ctx, f, o, w)
	defer s.Close()
	told, _ := s.Transactions(ctx) // whoever does not answer is found by the next step
	k, on, replaced := o.Tokens, map[string]calls.TxRef{}, replacedIn(told)
	var gone []string
	for _, host := range slices.Sorted(maps.Keys(w.Hosts)) {
		if ref := w.Hosts[host]; replaced(host, ref) {
			gone = append(gone, host)
		} else {
			on[host] = ref
		}
	}
	if len(gone) > 0 && w.over(endedIn(told)) {
		return nil, false, k.remove(w)
	}
	tx := s.resume(ctx, f.Name, on)
	defer tx.Close()
	if takeOver {
		tx.Moved = k.follow(w, func(err error) { warn(e, err) })
		ended := endedIn(told) // nobody holds those, and they are told of like others that went back
		open := slices.DeleteFunc(tx.Hosts(), func(host string) bool { return ended(host, on[host]) })
		if err := tx.TakeOver(ctx, open, o.User, NewID()); err != nil {
			return nil, false, fmt.Errorf("take the transaction over: %w; hosts that were taken over are held from this machine now: `fabricform confirm` and `fabricform rollback` go on with them, without -takeover", err)
		}
	}
	if len(gone) > 0 {
		err = fmt.Errorf("it has ended on %s, and another transaction came there since", strings.Join(gone, ", "))
	} else {
		err = s.persistAndProve(ctx, tx)
	}
	if err == nil {
		fates, err = tx.Commit(ctx)
	} else { // some cannot be committed any more: then none is
		reverted = true
		fates, _ = tx.Revert(ctx, tx.Hosts(), firstLine(err)) // the fates say it, host by host
	}
	return fates, reverted, errors.Join(err, k.keepRest(w, fates, replaced))
}

// keepRest leaves what a confirmation did not end to the next one: what is lost may still be kept where
// others are, and goes back where others did.
func (k TokenStore) keepRest(w tokens, fates map[string]HostOutcome, replaced func(host string, on calls.TxRef) bool) error {
	maps.DeleteFunc(w.Hosts, func(host string, _ calls.TxRef) bool { return fates[host].Fate == Committed })
	ended := endedBy(fates)
	if w.over(func(host string, on calls.TxRef) bool { return replaced(host, on) || ended(host, on) }) {
		return k.remove(w)
	}
	return k.save(w)
}

// resume opens a session on the hosts of an apply that waits. They are reached as the files say now: an
// address may have moved, and another machine may have another way in.
func resume(ctx context.Context, f *fabric.Fabric, o SessionOptions, w tokens) *Session {
	for _, h := range w.Waits.Fabric.Hosts {
		if now := f.Host(h.Name); now != nil {
			h.Address, h.SSH = now.Address, now.SSH
		}
	}
	o.Chosen, o.Destroy = map[string]bool{}, w.Waits.Destroy
	for host := range w.Hosts {
		o.Chosen[host] = true
	}
	return Open(ctx, w.Waits.Fabric, o)
}

// persistAndProve writes what lasts, and sees as apply does that the hosts are reached and as declared.
func (s *Session) persistAndProve(ctx context.Context, tx *transaction) error {
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
