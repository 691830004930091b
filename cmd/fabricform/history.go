package main

import (
	"context"
	"maps"
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
	c.RunE = a.readingHosts(func(ctx context.Context, s *apply.Session) error {
		p := s.Plan(ctx)
		if err := apply.Interrupted(ctx); err != nil {
			return err
		}
		if list := applies(s.Fabric.Name, s.Records()); !a.unseen(s, p.Unreachable(), "what was applied is not known") {
			a.out.History(list, amongAnswers(p.Unreachable()))
		}
		return a.exitOfUnreachable(p.Unreachable())
	})
	return c
}

// applies merges the hosts' entries of each run into one, the oldest first. A plan may be applied again after a rollback: then
// the first entries of the hosts belong together, and the second ones.
func applies(fabric string, records map[string][]resource.Record) []view.Applied {
	type run struct {
		plan, command string
		time          int // counts the runs of the command with the plan
	}
	byRun := map[run]*view.Applied{}
	for _, host := range slices.Sorted(maps.Keys(records)) {
		for _, r := range records[host] {
			if r.Fabric != fabric {
				continue
			}
			times := map[run]int{}
			for _, e := range r.History {
				key := run{plan: e.Plan, command: e.Command}
				times[key]++
				key.time = times[key]
				if byRun[key] == nil {
					byRun[key] = &view.Applied{Entry: e}
				}
				a := byRun[key]
				a.Hosts = append(a.Hosts, host)
				a.Total += e.Changes
				if e.Failed != "" {
					a.Failed = host + ": " + e.Failed
				}
				if len(e.Kept)+len(e.Overwritten) > 0 {
					a.Others = append(a.Others, view.Others{Host: host, Kept: e.Kept, Overwritten: e.Overwritten})
				}
			}
		}
	}
	out := make([]view.Applied, 0, len(byRun))
	for _, a := range byRun {
		out = append(out, *a)
	}
	slices.SortFunc(out, func(a, b view.Applied) int { return a.Time.Compare(b.Time) })
	return out
}
