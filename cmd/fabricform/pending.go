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
		Use: "pending [FABRIC]", Short: "Show open transactions, and how long they last", Args: cobra.MaximumNArgs(1),
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		all, err := s.Transactions(ctx)
		if err != nil {
			return err
		}
		open := 0
		for _, host := range slices.Sorted(maps.Keys(all)) {
			for _, i := range all[host] {
				if !i.State.Open() {
					continue
				}
				open++
				a.out.Linef("%s  %s", host, apply.Describe(i))
				for _, l := range i.Remain {
					a.out.Linef("    %s", l)
				}
			}
		}
		if open == 0 {
			a.out.Linef("No transaction is open.")
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}

func unlockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "unlock [FABRIC]", Short: "End transactions whose rollback failed, once the hosts are in order", Args: cobra.MaximumNArgs(1),
		Long: `unlock ends transactions that could not go back wholly and wait for a person. Put the host in order
first: what it lacks is listed by "fabricform pending". Open transactions of others are not ended: they
go back by themselves when their lease runs out.`,
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		all, err := s.Transactions(ctx)
		if err != nil {
			return err
		}
		n := 0
		for _, host := range slices.Sorted(maps.Keys(all)) {
			for _, i := range all[host] {
				if i.State != checkpoint.RevertFailed {
					continue
				}
				if err := s.Release(ctx, host, i.ID, operator()); err != nil {
					return fmt.Errorf("host %s: %w", host, err)
				}
				n++
				a.out.Linef("✓ %s: transaction %s is ended. It had left: %s", host, i.ID, strings.Join(i.Remain, "; "))
			}
		}
		if n == 0 {
			a.out.Linef("No transaction waits for a person.")
		}
		return a.exitOfUnreachable(s.Unreachable())
	})
	return c
}
