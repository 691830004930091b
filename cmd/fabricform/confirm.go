package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/resource"
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
	var o apply.RollbackOptions
	var approve bool
	var allow allowances
	c := &cobra.Command{
		Use: "rollback [FABRIC]", Short: "Roll back open transactions, or the last apply", Args: cobra.MaximumNArgs(1),
		Long: `rollback reverts open transactions of the fabric at once, as their hosts do when the leases expire.

If none is open, it rolls back the newest apply or destroy that was not rolled back, on the hosts of that
transaction alone. It shows what will change, and asks. If one of these hosts is unreachable, or changes
before you approve, nothing is rolled back (exit 4 or 5): a link has two ends. Another rollback takes the
transaction before: each host keeps the backups of its last five transactions.

What others changed since the apply is listed and stays; -allow=foreign rolls it back too.

An open transaction can be rolled back on the machine where apply runs, even if that apply has died. On
another machine, copy its token file there and name it with -takeover, or wait until the lease
expires: the hosts then revert automatically.

If a host reverts to another address, rollback reconnects to it there, and the last line shows the
address.`,
		Example: "  fabricform rollback my-fabric/\n" +
			"  fabricform rollback -auto-approve -allow=foreign my-fabric/\n" +
			"  fabricform rollback -takeover 5f0c3d6a91b27e48.running.json my-fabric/",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, linesOfJSON)
	takeOverFlag(c, &o.TakeOver)
	c.Flags().BoolVar(&approve, "auto-approve", false, "roll back without asking")
	c.Flags().StringSliceVar((*[]string)(&allow), "allow",
		nil, "allow what is refused by default: "+allowForeign+" (roll back what others changed since the apply), "+
			allowHalfLinks+
			" (roll back the hosts that can be rolled back, although others of the transaction are unreachable or change meanwhile), "+
			allowRootLogin+" (restore logins of root between hosts)")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := allow.among(rollbackAllowances...); err != nil {
			return err
		}
		o.Permitted = allow
		// a rollback only restores, and shows how that disturbs traffic
		o.Foreign, o.HalfLinks, o.Allowed = allow.has(allowForeign), allow.has(allowHalfLinks), resource.Reboot
		return a.onHosts(func(ctx context.Context, s *apply.Session) error {
			return a.finish(apply.Rollback(ctx, s, o, a.events(approve)), "")
		})(cmd, args)
	}
	return c
}

func takeOverFlag(c *cobra.Command, from *string) {
	c.Flags().StringVar(from, "takeover", "", "use the tokens in this `file`; "+
		"apply stored it in the fabric's directory in fabricform/transactions under $XDG_STATE_HOME (~/.local/state) on the machine "+
		"where it ran (for a lab, in lab/NAME there)")
}
