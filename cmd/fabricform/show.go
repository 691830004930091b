package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func showCommand(a *app) *cobra.Command {
	var markdown bool
	c := &cobra.Command{
		Use: "show [FABRIC or PLANFILE]", Short: "Show facts of the hosts and what fabricform owns, or a saved plan",
		Args: cobra.MaximumNArgs(1),
		Long: `show FABRIC reads the hosts and prints their NICs, addresses, RDMA devices, GIDs and GPUs with their
distances, and what fabricform owns there. show PLANFILE prints a plan that "plan -out" saved, without
reaching any host: what "apply PLANFILE" would change if the hosts have not changed since.`,
		Example: "  fabricform show my-fabric/\n  fabricform show -host gpu03 -json my-fabric/\n  fabricform show tonight.plan",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, "print the facts as JSON, one object per host; for a saved plan, lines of JSON as plan does")
	c.Flags().BoolVar(&markdown, "markdown", false, "print a saved plan as Markdown for a pull request")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	facts := a.readingHosts(func(ctx context.Context, s *apply.Session) error {
		p, err := s.Plan(ctx)
		if err != nil {
			return err
		}
		for _, shown := range s.HostFacts() {
			if !a.asJSON {
				a.out.Show(shown)
				continue
			}
			if err := a.out.ShowJSON(shown); err != nil {
				return err
			}
		}
		if !a.asJSON {
			a.unseen(s, p.Unreachable(), "cannot show what the hosts have")
		}
		return a.exitOfUnreachable(p.Unreachable())
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		path := fabricArg(args)
		saved, err := a.readSaved(path)
		if err != nil {
			return err
		}
		if saved != nil {
			if err := a.noChoice(path, false); err != nil {
				return err
			}
			return a.printPlan(saved.Plan, saved.Notes(), markdown)
		}
		if markdown {
			return errors.New("-markdown prints a saved plan: name its file")
		}
		return facts(cmd, args)
	}
	return c
}
