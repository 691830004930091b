package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/resource"
)

func rollbackCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "rollback [FABRIC]", Short: "Go back: from an open transaction, or from the last apply", Args: cobra.MaximumNArgs(1),
		Long: `rollback takes every host of the fabric back to what it was before its last transaction, from the
snapshot that the host keeps: of an open one, or of the last that was committed. An open one belongs to
who opened it: rollback ends it where apply ran on this machine, also where its program has died. From
another machine, copy the file of its tokens there and name it with -takeover; or wait for the lease
to run out, and the hosts go back by themselves. A host that goes back to another address is followed
there, and the last line names it.`,
		Example: "  fabricform rollback my-fabric/\n  fabricform rollback -takeover 5f0c3d6a91b27e48.running.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = a.onHosts(func(ctx context.Context, s *session) error {
		k := a.tokensOf(s.fabric)
		mine, err := k.all("") // before the hosts are asked: of what opens meanwhile they do not tell
		if err != nil {
			return err
		}
		shown := mine
		if from != "" {
			if shown, err = k.all(from); err != nil {
				return err
			}
		}
		told, err := s.fleet.Transactions(ctx)
		if err != nil {
			return err
		}
		before := endedIn(told) // hosts that went back by themselves have no fate below
		fates, err := s.fleet.UndoLast(ctx, s.fabric.Name, "", s.fleet.Hosts(), "rollback by "+operator(), held(shown, before))
		now := endedBy(fates)
		forgotten := k.forget(mine, func(host string, on calls.TxRef) bool { return before(host, on) || now(host, on) })
		var others *apply.HeldError
		if errors.As(err, &others) {
			return &exit{code: exitHeld, err: errors.Join(err, forgotten, a.tellFates(fates, nil))}
		}
		if err == nil && len(fates) == 0 {
			return errors.New("there is nothing to go back from: no host keeps a transaction of this fabric that is not back already")
		}
		err = errors.Join(err, forgotten, s.enterRollback(ctx, fates))
		return errors.Join(a.tellFates(fates, err), a.reached(s.unreachable()))
	})
	return c
}

// enterRollback keeps in the hosts' histories that they went back; their records are those from
// before the transaction. A host without anything of ours has none.
func (s *session) enterRollback(ctx context.Context, fates map[string]apply.HostOutcome) error {
	p, entries := s.plan(ctx), map[string]resource.Entry{}
	for host, f := range fates {
		if f.Fate == apply.Reverted {
			entries[host] = resource.Entry{Time: time.Now().UTC(), Command: "rollback", Who: operator(), Plan: newPlanID(), Source: s.source, Build: s.build}
		}
	}
	return s.fleet.Enrol(ctx, s.fabric.Name, p.Roster, slices.Sorted(maps.Keys(entries)), entries)
}

// tellFates prints how hosts ended, and answers the exit.
func (a *app) tellFates(fates map[string]apply.HostOutcome, err error) error {
	var list []apply.HostOutcome
	for _, h := range slices.Sorted(maps.Keys(fates)) {
		list = append(list, fates[h])
	}
	a.out.Fates(list)
	noteReturned(a.out, list)
	code := fateCode(fates)
	if err != nil {
		return &exit{code: worse(code, exitError), err: err}
	}
	return told(code)
}
