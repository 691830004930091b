package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/view"
)

func pendingCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "pending [FABRIC]", Short: "List open transactions and the time left on their leases", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform pending my-fabric/\n  fabricform pending -json | jq '.transactions[].host'",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print as JSON")
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		open, reverted, err := s.Pending(ctx)
		if a.asJSON {
			err = errors.Join(err, a.out.PendingJSON(s.Fabric.Name, open, reverted, s.Unreachable()))
		} else {
			a.out.Pending(open, s.Options.Invocation)
			a.out.Fates(reverted)
		}
		if err != nil {
			return err
		}
		if !a.asJSON && !a.unseen(s, s.Unreachable(), "cannot tell whether a transaction is open") && len(open) == 0 {
			a.out.Linef("No open transactions%s.", view.Among(s.Unreachable()))
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}

func unlockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "unlock [FABRIC]", Short: "End transactions whose rollback failed, once the hosts are repaired", Args: cobra.MaximumNArgs(1),
		Long: `unlock ends transactions whose rollback failed. Repair the host first: "fabricform pending" lists what
could not be restored. unlock does not end open transactions: they roll back automatically when their
leases expire.`,
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		ended, err := s.Unlock(ctx)
		for _, t := range ended {
			a.out.Linef("✓ %s: transaction %s ended. It could not restore: %s", t.Host, t.ID, strings.Join(t.Unrestored, "; "))
		}
		if err != nil {
			return err
		}
		if !a.unseen(s, s.Unreachable(), "cannot tell whether a rollback failed") && len(ended) == 0 {
			a.out.Linef("No transaction has a failed rollback%s.", view.Among(s.Unreachable()))
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}
