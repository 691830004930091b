package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func confirmCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Keep the changes of an apply that waits for it", Args: cobra.MaximumNArgs(1),
		Long: `confirm ends an "apply -confirm manual" on all of its hosts: the changes stay. It needs the tokens that
apply left on this machine; without it the hosts go back by themselves. Where one host has gone back
already (by a restart, or by rollback -host), is not reached, or is not as that apply made it, all go
back. FABRIC says how the hosts are reached; what they should be is the apply's, of a saved plan and of
-var too. Where several applies wait, each is ended by itself; -host leaves out those that have other
hosts, too. From another machine, copy the file of tokens there and name it with -takeover: who shows
them is the holder from then on.`,
		Example: "  fabricform confirm my-fabric/\n  fabricform confirm -takeover 5f0c3d6a91b27e48.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.load(fabricArg(args))
		if err != nil {
			return err
		}
		o, err := a.session(f, "")
		if err == nil {
			o.Chosen, err = a.Choose(f)
		}
		if err != nil {
			return err
		}
		return a.finish(apply.Confirm(cmd.Context(), f, o, from, a.events(false)), "")
	}
	return c
}

func rollbackCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "rollback [FABRIC]", Short: "Go back: from an open transaction, or from the last apply", Args: cobra.MaximumNArgs(1),
		Long: `rollback takes every host of the fabric back to what it was before its last transaction, from the
snapshot that the host keeps: of an open one, or of the last that was committed. An open one belongs to
who opened it: rollback ends it where apply ran on this machine, also where its program has died. From
another machine, copy the file of its tokens there and name it with -takeover; or wait for the lease
to run out, and the hosts go back by themselves. A host that goes back to another address is followed
there, and the last line names it.`,
		Example: "  fabricform rollback my-fabric/\n  fabricform rollback -takeover 5f0c3d6a91b27e48.running.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = a.onHosts(func(ctx context.Context, s *apply.Session) error {
		return a.finish(apply.Rollback(ctx, s, from, a.events(false)), "")
	})
	return c
}

func takeOverFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "takeover", "", "show the tokens in this `file`, which apply left in the fabric's folder in fabricform/transactions below $XDG_STATE_HOME (~/.local/state) of the machine where it ran (in lab/NAME there for a lab)")
}
