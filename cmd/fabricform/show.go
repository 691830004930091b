package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/view"
)

func showCommand(a *app) *cobra.Command {
	var asJSON, markdown bool
	c := &cobra.Command{
		Use: "show [FABRIC or PLANFILE]", Short: "Show the hosts' facts and what fabricform owns there, or a saved plan", Args: cobra.MaximumNArgs(1),
		Long: `show FABRIC reads the hosts and prints their NICs, addresses, RDMA devices, GIDs and GPUs with their
distances, and what fabricform owns there. show PLANFILE prints a plan that "plan -out" saved, without
reaching any host: what "apply PLANFILE" would change if the hosts have not changed since.`,
		Example: "  fabricform show my-fabric/\n  fabricform show -host gpu03 -json my-fabric/\n  fabricform show tonight.plan",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the facts as JSON, one object per host; for a saved plan, lines of JSON as plan does")
	c.Flags().BoolVar(&markdown, "markdown", false, "print a saved plan as Markdown for a pull request")
	c.MarkFlagsMutuallyExclusive("json", "markdown")
	facts := a.readingHosts(func(ctx context.Context, s *apply.Session) error {
		p := s.Plan(ctx)
		if err := apply.Interrupted(ctx); err != nil {
			return err
		}
		seen, records := s.Facts(), s.Records()
		for _, h := range s.Fabric.Hosts {
			if seen[h.Name] == nil {
				continue
			}
			shown := view.Shown{Name: h.Name, NICs: map[string]string{}, Facts: seen[h.Name], Records: records[h.Name], Findings: nccl.Findings(s.Fabric, h, seen[h.Name])}
			for _, n := range h.NICs {
				if l := nccl.Netdev(shown.Facts, n); l != nil {
					shown.NICs[l.Name] = n.Name
				}
			}
			if !asJSON {
				a.out.Show(shown)
				continue
			}
			if err := a.out.ShowJSON(shown); err != nil {
				return err
			}
		}
		if !asJSON {
			a.unseen(s, p.Unreachable(), "what the hosts have is not known")
		}
		return a.exitOfUnreachable(p.Unreachable())
	})
	c.RunE = func(cmd *cobra.Command, args []string) error {
		path := fabricArg(args)
		build, err := buildID()
		if err != nil {
			return err
		}
		saved, err := readSaved(path, build)
		if err != nil {
			return err
		}
		if saved != nil {
			a.asJSON = asJSON
			return a.showSaved(saved, path, markdown)
		}
		if markdown {
			return errors.New("-markdown prints a saved plan: name its file")
		}
		return facts(cmd, args)
	}
	return c
}

// showSaved prints a saved plan, with when and for which hosts it was made.
func (a *app) showSaved(saved *planner.Saved, path string, markdown bool) error {
	if err := a.noChoice(path, false); err != nil {
		return err
	}
	notes := []string{fmt.Sprintf("Saved by %s at %s, for %s, from %s.", saved.User, saved.Created.Local().Format(time.DateTime), saved.Target(), saved.Source)}
	if saved.Destroy {
		notes = append(notes, "It restores everything that the fabric changed.")
	}
	if out := saved.LeftOut(); len(out) > 0 {
		notes = append(notes, "Not chosen, so not changed: "+planner.Names(out)+".")
	}
	return a.printPlan(saved.Plan, append(notes, saved.Plan.Notes()...), markdown)
}
