package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/view"
)

func graphCommand(a *app) *cobra.Command {
	var format string
	var actions bool
	c := &cobra.Command{
		Use: "graph [FABRIC]", Short: "Draw the topology, or the order of a plan's actions", Args: cobra.MaximumNArgs(1),
		Long: "Draws hosts, cables and networks from the files alone. " +
			"With -actions, reads the hosts and draws the order in which apply would act.",
		Example: "  fabricform graph -format svg my-fabric/ > fabric.svg\n  fabricform graph -actions -format mermaid my-fabric/",
	}
	a.fleetFlags(c)
	c.Flags().StringVar(&format, "format", "mermaid", "`format`: mermaid, dot or svg")
	c.Flags().BoolVar(&actions, "actions", false, "draw the order of a plan's actions instead of the topology")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := oneOf("-format", format, view.GraphFormats...); err != nil {
			return err
		}
		if !actions {
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			return a.out.Raw([]byte(view.Topology(f).Text(format)))
		}
		return a.readingHosts(func(ctx context.Context, s *apply.Session) error {
			p, err := s.Plan(ctx)
			if err != nil {
				return err
			}
			if err := a.out.Raw([]byte(view.Order(p).Text(format))); err != nil {
				return err
			}
			return a.exitOfUnreachable(p.Unreachable())
		})(cmd, args)
	}
	return c
}
