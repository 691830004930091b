package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/resource"
)

// leaveOpen ends an apply that waits for its confirmation. What it enters into the hosts' records
// goes with the rest, should the confirmation not come.
func (r *job) leaveOpen(ctx context.Context, tx *apply.Transaction) (int, error) {
	w := tokens{Fabric: r.p.Fabric, Plan: r.id, Until: time.Now().Add(r.o.lease), Hosts: tx.Refs()}
	for i := range r.report.Outcomes {
		if _, open := w.Hosts[r.report.Outcomes[i].Host]; open {
			r.report.Outcomes[i].Fate, r.report.Outcomes[i].Why = apply.Waiting, "until "+w.Until.Format("15:04:05")
		}
	}
	if err := w.save(tokensWaiting); err != nil {
		return r.back(ctx, tx, exitError, err)
	}
	err := r.enrolLate(ctx)
	tx.Close()
	r.open = true
	r.a.report().Note("The changes are made and wait until %s: `fabricform confirm` keeps them; without it the hosts go back by themselves.", w.Until.Format("15:04:05"))
	return exitOK, err
}

func confirmCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Keep the changes of an apply that waits for it", Args: cobra.MaximumNArgs(1),
		Long: `confirm ends an "apply -confirm manual" on all of its hosts: the changes stay. It needs the tokens that
apply left on this machine; without it the hosts go back by themselves. Where one host has gone back
already, is not reached, or is not as FABRIC declares, all go back. From another machine, copy the file
of tokens there and name it with -takeover: who shows them is the holder from then on.`,
		Example: "  fabricform confirm my-fabric/\n  fabricform confirm -takeover roce-pair.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = a.onHosts(func(ctx context.Context, s *session) error {
		w, err := readTokens(s.fabric.Name, tokensWaiting, from)
		if err != nil {
			return err
		}
		if w == nil || w.Until.IsZero() {
			return fmt.Errorf("no apply of fabric %q waits for a confirmation from this machine", s.fabric.Name)
		}
		tx := s.fleet.Resume(s.fabric.Name, w.Hosts)
		defer tx.Close()
		// An interrupt must not part the hosts.
		late := context.WithoutCancel(ctx)
		if from != "" {
			tx.Moved = w.follow(tokensWaiting, a.tell)
			if err := tx.TakeOver(late, operator(), newPlanID()); err != nil {
				return fmt.Errorf("take the transaction over: %w; hosts that were taken over are held from this machine now: `fabricform confirm` and `fabricform rollback` go on with them, without -takeover", err)
			}
		}
		if err = s.proven(late, tx); err == nil {
			fates, err := tx.Commit(late)
			return a.tellFates(fates, errors.Join(err, dropTokens(s.fabric.Name, fates, tokensWaiting)))
		}
		// Some cannot be committed any more: then none is.
		fates, _ := tx.Revert(late, tx.Hosts(), firstLine(err)) // the fates say it, host by host
		told := a.tellFates(fates, errors.Join(err, dropTokens(s.fabric.Name, fates, tokensWaiting)))
		return &exit{code: worse(exitRolledBack, fateCode(fates)), err: told}
	})
	return c
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
