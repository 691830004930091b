package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/view"
)

func historyCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "history [FABRIC]", Short: "Show what was applied to the hosts, from their own records", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform history my-fabric/\n  fabricform history -host gpu03 my-fabric/",
	}
	a.fleetFlags(c)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		p := s.Plan(ctx)
		if list := applies(s.Fabric.Name, s.Records()); !a.unseen(s, p.Unreachable(), "what was applied is not known") {
			a.out.History(list, amongAnswers(p.Unreachable()))
		}
		return a.exitOfUnreachable(p.Unreachable())
	})
	return c
}

// applies merges the hosts' entries of each plan into one, the oldest first.
func applies(fabric string, records map[string][]resource.Record) []view.Applied {
	byPlan := map[string]*view.Applied{}
	for host, list := range records {
		for _, r := range list {
			if r.Fabric != fabric {
				continue
			}
			for _, e := range r.History {
				if byPlan[e.Plan] == nil {
					byPlan[e.Plan] = &view.Applied{Entry: e}
				}
				a := byPlan[e.Plan]
				a.Hosts = append(a.Hosts, host)
				a.Total += e.Changes
				if e.Failed != "" {
					a.Failed = host + ": " + e.Failed
				}
			}
		}
	}
	out := make([]view.Applied, 0, len(byPlan))
	for _, a := range byPlan {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b view.Applied) int { return a.Time.Compare(b.Time) })
	return out
}
