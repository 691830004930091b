package main

import (
	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func destroyCommand(a *app) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use: "destroy [FABRIC]", Short: "Give back everything that the fabric made on its hosts", Args: cobra.MaximumNArgs(1),
		Long: `Takes away what fabricform made for this fabric and restores the values from before its first
change, as each host's own record says. What somebody else changed since stays as it is.
With -host it does so on some hosts only; a name may be one that the files no longer have.`,
		Example: "  fabricform destroy my-fabric/\n  fabricform destroy -host gpu03 my-fabric/",
	}
	a.fleetFlags(c)
	a.jsonFlag(c)
	o.flags(c)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		s, err := a.openToDestroy(cmd.Context(), fabricArg(args), o.allow.management())
		if err != nil {
			return err
		}
		defer s.Close()
		return a.finish(apply.Destroy(cmd.Context(), s, o.run(), a.events(o.approve)), o.report)
	}
	return c
}
