package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func historyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "history [FABRIC]", Short: "Show what was applied to the hosts, from their own records", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform history my-fabric/\n  fabricform history -host gpu03 my-fabric/\n  fabricform history -json | jq '.runs[-1].failed'",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print as JSON")
	c.RunE = a.readingHosts(func(ctx context.Context, s *apply.Session) error {
		p, err := s.Plan(ctx)
		if err != nil {
			return err
		}
		if a.asJSON {
			err = a.out.HistoryJSON(s.Fabric.Name, s.History(), p.Unreachable())
		} else if !a.unseen(s, p.Unreachable(), "cannot show what was applied") {
			a.out.History(s.History(), p.Unreachable())
		}
		if err != nil {
			return err
		}
		return a.exitOfUnreachable(p.Unreachable())
	})
	return c
}
