package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/resource"
)

// leaveOpen ends an apply that waits for its confirmation. What it enters into the hosts' records
// goes with the rest, should the confirmation not come.
func (r *job) leaveOpen(ctx context.Context, tx *apply.Transaction) (int, error) {
	declared := *r.s.fabric
	declared.Outputs = nil // they may be sensitive, and are nothing that hosts have
	w := tokens{ID: newPlanID(), Fabric: r.p.Fabric, Plan: r.id, Hosts: tx.Refs(), Waits: &awaited{Fabric: &declared, Destroy: r.s.destroy}}
	until := time.Now().Add(r.o.lease).Format("15:04:05")
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = apply.Waiting, "until "+until
		}
	}
	if err := r.a.tokensOf(r.s.fabric).save(w); err != nil {
		return r.back(ctx, tx, exitError, err)
	}
	err := r.enrolLate(ctx)
	tx.Close()
	r.open = true
	r.a.report().Note("The changes are made and wait until %s: `fabricform confirm` keeps them; without it the hosts go back by themselves.", until)
	return exitOK, err
}

func confirmCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Keep the changes of an apply that waits for it", Args: cobra.MaximumNArgs(1),
		Long: `confirm ends an "apply -confirm manual" on all of its hosts: the changes stay. It needs the tokens that
apply left on this machine; without it the hosts go back by themselves. Where one host has gone back
already (by a restart, or by rollback -host), is not reached, or is not as that apply made it, all go
back. FABRIC says how the hosts are reached; what they should be is the apply's, of a saved plan and of
-var too. Where several applies wait, each is ended by itself; -host leaves out those that have other
hosts, too. From another machine, copy the file of tokens there and name it with -takeover: who shows
them is the holder from then on.`,
		Example: "  fabricform confirm my-fabric/\n  fabricform confirm -takeover 5f0c3d6a91b27e48.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.load(fabricArg(args))
		if err != nil {
			return err
		}
		waiting, err := a.waiting(f, from)
		if err != nil {
			return err
		}
		// An interrupt must not part the hosts.
		late, fates, code := context.WithoutCancel(cmd.Context()), map[string]apply.HostOutcome{}, exitOK
		var whys error
		for _, w := range waiting {
			ended, reverted, err := a.confirm(late, f, w, from != "")
			maps.Copy(fates, ended)
			whys = errors.Join(whys, err)
			if reverted {
				code = exitRolledBack
			}
		}
		if whys == nil && len(fates) == 0 {
			return noneWaits(f)
		}
		err = a.tellFates(fates, whys)
		if code != exitOK {
			return &exit{code: worse(code, fateCode(fates)), err: err}
		}
		return err
	}
	return c
}

// waiting are the applies that wait for a confirmation from here, and wholly on the chosen hosts.
func (a *app) waiting(f *fabric.Fabric, from string) ([]tokens, error) {
	chosen, err := a.Choose(f)
	if err != nil {
		return nil, err
	}
	all, err := a.tokensOf(f).all(from)
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
		return nil, noneWaits(f)
	}
	return all, nil
}

func noneWaits(f *fabric.Fabric) error {
	return fmt.Errorf("no apply of fabric %q waits for a confirmation from this machine", f.Name)
}

// confirm ends one apply: it is kept on all of its hosts, or reverted on all. There are no fates where it
// has ended everywhere, and hosts have gone on since.
func (a *app) confirm(ctx context.Context, f *fabric.Fabric, w tokens, takeOver bool) (fates map[string]apply.HostOutcome, reverted bool, err error) {
	s, err := a.resume(ctx, f, w)
	if err != nil {
		return nil, false, err
	}
	defer s.fleet.Close()
	told, _ := s.fleet.Transactions(ctx) // whoever does not answer is found by the next step
	k, on, replaced := a.tokensOf(f), map[string]calls.TxRef{}, replacedIn(told)
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
	tx := s.fleet.Resume(ctx, f.Name, on)
	defer tx.Close()
	if takeOver {
		tx.Moved = k.follow(w, a.tell)
		ended := endedIn(told) // nobody holds those, and they are told of like others that went back
		open := slices.DeleteFunc(tx.Hosts(), func(host string) bool { return ended(host, on[host]) })
		if err := tx.TakeOver(ctx, open, operator(), newPlanID()); err != nil {
			return nil, false, fmt.Errorf("take the transaction over: %w; hosts that were taken over are held from this machine now: `fabricform confirm` and `fabricform rollback` go on with them, without -takeover", err)
		}
	}
	if len(gone) > 0 {
		err = fmt.Errorf("it has ended on %s, and another transaction came there since", strings.Join(gone, ", "))
	} else {
		err = s.proven(ctx, tx)
	}
	if err == nil {
		fates, err = tx.Commit(ctx)
	} else { // some cannot be committed any more: then none is
		reverted = true
		fates, _ = tx.Revert(ctx, tx.Hosts(), firstLine(err)) // the fates say it, host by host
	}
	return fates, reverted, errors.Join(err, k.confirmed(w, fates, replaced))
}

// confirmed leaves what a confirmation did not end to the next one: what is lost may still be kept where
// others are, and goes back where others did.
func (k tokenStore) confirmed(w tokens, fates map[string]apply.HostOutcome, replaced func(host string, on calls.TxRef) bool) error {
	maps.DeleteFunc(w.Hosts, func(host string, _ calls.TxRef) bool { return fates[host].Fate == apply.Committed })
	ended := endedBy(fates)
	if w.over(func(host string, on calls.TxRef) bool { return replaced(host, on) || ended(host, on) }) {
		return k.remove(w)
	}
	return k.save(w)
}

// resume opens a session on the hosts of an apply that waits. They are reached as the files say now: an
// address may have moved, and another machine may have another way in.
func (a *app) resume(ctx context.Context, f *fabric.Fabric, w tokens) (*session, error) {
	id, err := buildID()
	if err != nil {
		return nil, err
	}
	for _, h := range w.Waits.Fabric.Hosts {
		if now := f.Host(h.Name); now != nil {
			h.Address, h.SSH = now.Address, now.SSH
		}
	}
	chosen := map[string]bool{}
	for host := range w.Hosts {
		chosen[host] = true
	}
	s, err := a.connectTo(ctx, w.Waits.Fabric, chosen, id)
	if err != nil {
		return nil, err
	}
	s.destroy = w.Waits.Destroy
	return s, nil
}

// proven writes what lasts, and sees as apply does that the hosts are reached and as declared.
func (s *session) proven(ctx context.Context, tx *apply.Transaction) error {
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
	return s.settled(ctx, hosts, resource.StagePersist)
}
