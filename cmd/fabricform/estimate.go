package main

import (
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/widearea"
)

func estimateCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use: "estimate [FABRIC]", Short: "Say what long links do to workloads, without reaching any host", Args: cobra.MaximumNArgs(1),
		Long: `For each link and network with a declared distance or a workload, estimate prints what the distance does to the work: seconds
added to a training step, the time to hand over a KV cache or a checkpoint, what must be in flight, and what a lost packet costs.
Each figure has its formula, the numbers in it, its source and its limits. What the files do not say is a range. A bound that
cannot hold is an error of the files, as in validate.`,
		Example: "  fabricform estimate examples/wide-area.hcl\n  fabricform estimate -json examples/wide-area.hcl | jq '.[].bound'",
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := a.load(fabricArg(args))
			if err != nil {
				return err
			}
			all := widearea.Estimates(f)
			if a.asJSON {
				return a.out.EstimatesJSON(all)
			}
			a.out.Estimates(all)
			return nil
		},
	}
	a.fabricFlags(c)
	a.jsonFlag(c, "print the figures as JSON")
	return c
}
