package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
)

func pendingCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "pending [FABRIC]", Short: "List open transactions and the time left on their leases", Args: cobra.MaximumNArgs(1),
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		all, err := s.Transactions(ctx) // of the hosts that answer; the error names the others
		if err := apply.Interrupted(ctx); err != nil {
			return err
		}
		open := 0
		for _, host := range slices.Sorted(maps.Keys(all)) {
			for _, i := range all[host] {
				if !i.State.Open() {
					continue
				}
				open++
				a.out.Linef("%s  %s", host, apply.Describe(i, s.Options.Invocation))
				for _, l := range i.Remain {
					a.out.Linef("    %s", l)
				}
			}
		}
		a.out.Fates(apply.FoundOthers(all))
		if err != nil {
			return err
		}
		if !a.unseen(s, s.Unreachable(), "whether a transaction is open is not known") && open == 0 {
			a.out.Linef("No open transactions%s.", amongAnswers(s.Unreachable()))
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}

func unlockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "unlock [FABRIC]", Short: "End transactions whose rollback failed, after you have repaired the hosts", Args: cobra.MaximumNArgs(1),
		Long: `unlock ends transactions whose rollback failed. Repair the host first: "fabricform pending" lists what
could not be restored. unlock does not end open transactions: they roll back automatically when their
leases expire.`,
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		all, err := s.Transactions(ctx) // of the hosts that answer; the error names the others
		if err := apply.Interrupted(ctx); err != nil {
			return err
		}
		n := 0
		for _, host := range slices.Sorted(maps.Keys(all)) {
			for _, i := range all[host] {
				if i.State != checkpoint.RevertFailed {
					continue
				}
				// Without cancel: an interrupt would leave unsaid whether the host ended its transaction.
				if err := s.Release(context.WithoutCancel(ctx), host, i.ID, operator()); err != nil {
					return fmt.Errorf("host %s: %w", host, err)
				}
				n++
				a.out.Linef("✓ %s: transaction %s ended. It could not restore: %s", host, i.ID, strings.Join(i.Remain, "; "))
			}
		}
		if err != nil {
			return err
		}
		if !a.unseen(s, s.Unreachable(), "whether a rollback failed is not known") && n == 0 {
			a.out.Linef("No transaction has a failed rollback%s.", amongAnswers(s.Unreachable()))
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}

// amongAnswers limits a sentence about all hosts to those that were asked.
func amongAnswers(unreachable map[string]string) string {
	if len(unreachable) == 0 {
		return ""
	}
	return " on the hosts that answered"
}
