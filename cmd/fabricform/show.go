package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/view"
)

func showCommand(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "show [FABRIC]", Short: "Show the hosts' NICs, addresses, RDMA devices, GIDs, GPUs with their distances, and what fabricform owns", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform show my-fabric/\n  fabricform show -host gpu03 -json my-fabric/",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print the facts as JSON, one object per host")
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		p := s.Plan(ctx)
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
		return a.exitOfUnreachable(p.Unreachable())
	})
	return c
}
