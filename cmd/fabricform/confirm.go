package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
)

func confirmCommand(a *app) *cobra.Command {
	var from string
	c := &cobra.Command{
		Use: "confirm [FABRIC]", Short: "Confirm a pending apply", Args: cobra.MaximumNArgs(1),
		Long: `confirm keeps the changes of "apply -confirm manual" on all of its hosts. Without confirm, the hosts
revert when their leases expire. confirm needs the tokens that apply stored on this machine.

All hosts of the apply are rolled back if one of them has reverted already (after a reboot, or by
rollback -host), is unreachable, or no longer matches what the apply made.

FABRIC says how to reach the hosts. The applied state itself, including that of a saved plan and of
-var, was stored by apply. If several applies are pending, each is confirmed separately; -host
leaves out every apply that also has other hosts.

On another machine, copy the token file there and name it with -takeover. The tokens on the first
machine then become invalid.`,
		Example: "  fabricform confirm my-fabric/\n  fabricform confirm -takeover 5f0c3d6a91b27e48.json my-fabric/",
	}
	a.fleetFlags(c)
	takeOverFlag(c, &from)
	c.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := a.load(fabricArg(args))
		if err != nil {
			return err
		}
		o, err := a.session(f, a.invocation(f, fabricArg(args)))
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
		Use: "rollback [FABRIC]", Short: "Roll back an open transaction, or the last apply", Args: cobra.MaximumNArgs(1),
		Long: `rollback restores every host of the fabric to its state before the last transaction, open or
committed, from the backup that the host keeps.

An open transaction can be rolled back on the machine where apply runs, even if that apply has died. On
another machine, copy its token file there and name it with -takeover, or wait until the lease
expires: the hosts then revert automatically.

If a host reverts to another address, rollback reconnects to it there, and the last line shows the
address.`,
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
	c.Flags().StringVar(from, "takeover", "", "use the tokens in this `file`; apply stored it in the fabric's directory in fabricform/transactions under $XDG_STATE_HOME (~/.local/state) on the machine where it ran (for a lab, in lab/NAME there)")
}
