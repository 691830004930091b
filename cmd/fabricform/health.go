package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

// healthProgram is the internal program of a check.
const healthProgram = "health-check"

// healthOptions are the flags of `fabricform health`.
type healthOptions struct {
	slurm      bool
	node       string
	maxDrained int
}

func healthCommand(a *app) *cobra.Command {
	var o healthOptions
	c := &cobra.Command{
		Use: "health", Short: "On a host: compare it with what was applied last, without a network", Args: cobra.NoArgs,
		Long: `health runs on a host. It compares the host with what apply made of it last, which the host keeps, and looks for cables
without a carrier. It reads the kernel and local files, takes milliseconds, and changes nothing. A host that differs is exit code 3,
so a job scheduler can run it before and after jobs (Slurm's Prolog and Epilog).

With -slurm, it is a HealthCheckProgram: the exit code is 0, and if the verdict has changed since the last check, it drains this node
with scontrol, or resumes the node if it had drained it.

A check that fails, or takes longer than 5 seconds, gives no verdict: health prints the cause, exits with 0, and drains no node.
See docs/slurm.md.`,
		Example: "  fabricform health\n  fabricform health -slurm -max-drained 4",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.maxDrained < 0 {
				return fmt.Errorf("-max-drained is %d: it must not be negative", o.maxDrained)
			}
			return a.health(cmd.Context(), o)
		},
	}
	a.jsonFlag(c, "print the verdict as one JSON object")
	c.Flags().BoolVar(&o.slurm, "slurm", false, "drain and resume this node of Slurm when the verdict changes")
	c.Flags().StringVar(&o.node, "node", "", "`name` of this node in Slurm (default: SLURMD_NODENAME, or the short hostname)")
	c.Flags().IntVar(&o.maxDrained, "max-drained", 4, "drain no node while this `number` of nodes of its partition are drained")
	return c
}
