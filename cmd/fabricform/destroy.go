package main

import (
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func destroyCommand(a *app) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use: "destroy [FABRIC]", Short: "Undo what the fabric changed, and restore the original values", Args: cobra.MaximumNArgs(1),
		Long: `destroy removes what fabricform made for this fabric and restores the values from before its first
change, from each host's own record. It keeps values that someone else has changed since.
With -host, it does so only on those hosts; -host also accepts the name of a host that was removed
from the files.`,
		Example: "  fabricform destroy my-fabric/\n  fabricform destroy -host gpu03 my-fabric/",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, linesOfJSON)
	o.flags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		a.changing = true
		s, err := a.openToDestroy(cmd.Context(), fabricArg(args), o.allow...)
		if err != nil {
			return err
		}
		defer s.Close()
		return a.finish(apply.Destroy(cmd.Context(), s, o.Options, a.events(o.approve)), o.report)
	}
	return c
}
