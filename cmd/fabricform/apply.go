package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/planner"
)

// applyOptions are the flags of apply and destroy.
type applyOptions struct {
	apply.Options
	approve                        bool
	allow                          allowances
	report, onFailedCheck, confirm string
	patience                       time.Duration // how long hosts wait for a manual confirmation
}

// The values of -confirm and of -on-failed-check.
const (
	confirmAuto   = "auto"
	confirmManual = "manual"
	keepCheck     = "keep"
	rollbackCheck = "rollback"
)

var (
	failureModes = []apply.OnFailure{apply.RollbackAll, apply.RollbackHost, apply.Stop}
	checkModes   = []string{keepCheck, rollbackCheck}
	confirmModes = []string{confirmAuto, confirmManual}
)

func (o *applyOptions) flags(c *cobra.Command) {
	o.onFailedCheck, o.confirm = keepCheck, confirmAuto
	c.Flags().BoolVar(&o.approve, "auto-approve", false, "apply without asking")
	o.allow.flag(c)
	c.Flags().StringVar(&o.report, "report", "",
		"write a report of the plan, the changes and all measurements to `file`: Markdown if it ends in .md, otherwise JSON")
	c.Flags().StringVar((*string)(&o.OnFailure), "on-failure", string(apply.RollbackAll),
		"when a host fails: "+string(apply.RollbackAll)+", "+string(apply.RollbackHost)+
			" (only that host; the others continue, so a link between them is changed at one end only), or "+string(apply.Stop)+
			" (keep what was done)")
	c.Flags().DurationVar(&o.Lease, "lease", checkpoint.DefaultLease,
		"`time` after which a host that lost contact with this program reverts automatically")
}

// check refuses unknown flag values and times out of range, and completes the options.
func (o *applyOptions) check() error {
	for _, err := range []error{
		o.allow.check(),
		oneOf("-on-failure", o.OnFailure, failureModes...),
		oneOf("-on-failed-check", o.onFailedCheck, checkModes...),
		oneOf("-confirm", o.confirm, confirmModes...),
		canReport(o.report),
	} {
		if err != nil {
			return err
		}
	}
	if o.Lease < 5*time.Second || o.Lease > 24*time.Hour || o.patience < 0 || o.patience > 24*time.Hour {
		return errors.New("-lease and -confirm-timeout must be from 5s to 24h")
	}
	o.Allowed, o.CheckRollback, o.Manual = o.allow.worst(), o.onFailedCheck == rollbackCheck, o.confirm == confirmManual
	if o.Manual {
		o.Lease = o.patience
	}
	return nil
}

func applyCommand(a *app) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use: "apply [FABRIC or PLANFILE]", Short: "Make the planned changes, then verify the fabric", Args: cobra.MaximumNArgs(1),
		Long: `apply makes the hosts match the files, then verifies the fabric with live checks. Given a plan that
"plan -out" saved, it makes exactly the changes of that plan: a host that changed since then is skipped
(exit 5). A plan can be applied only once.

All hosts commit, or all roll back. Each host stores its previous state and runs its own timer: if this
program, its machine or the network between them fails, the host reverts automatically (-lease). Before the
hosts commit, each must accept a new connection, match the files, and still have every carrier and
ping that it had before. The path of your own connection is changed only with -allow=management: apply
adds the new path, proves it with a new connection, then removes the old one.

Driver stacks (ofed blocks) are installed first, in a transaction of their own: packages stay installed
if the rest is rolled back. Driver reloads and reboots need -allow. They affect one end of a link at
a time.`,
		Example: "  fabricform apply\n" +
			"  fabricform apply -auto-approve -lab examples/roce-pair.hcl\n" +
			"  fabricform apply -report done.md tonight.plan\n" +
			"  fabricform apply -allow=reboot my-fabric/\n" +
			"  fabricform apply -allow=management move-mgmt.hcl",
	}
	a.fleetFlags(c)
	a.jsonFlag(c, linesOfJSON)
	o.flags(c)
	c.Flags().BoolVar(&o.Unverified, "no-verify", false, "skip the live checks afterwards")
	c.Flags().StringVar(&o.onFailedCheck, "on-failed-check",
		keepCheck, "when a live check fails: "+keepCheck+" the changes, or "+rollbackCheck)
	c.Flags().StringVar(&o.confirm, "confirm",
		confirmAuto, confirmAuto+", or "+confirmManual+": hosts revert automatically unless you run fabricform confirm in time")
	c.Flags().DurationVar(&o.patience, "confirm-timeout",
		10*time.Minute, "with -confirm manual, `time` after which unconfirmed hosts revert")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		report, err := a.apply(cmd.Context(), fabricArg(args), o)
		if err != nil {
			return err
		}
		return a.finish(report, o.report)
	}
	return c
}

// apply opens the session of a fabric or of a saved plan, and runs it.
func (a *app) apply(ctx context.Context, path string, o applyOptions) (*apply.Report, error) {
	saved, err := a.readSaved(path)
	if err != nil {
		return nil, err
	}
	a.changing = true
	var s *apply.Session
	if saved == nil {
		if s, err = a.open(ctx, path, o.allow...); err != nil {
			return nil, err
		}
	} else {
		again := saved.Fabric.HasSensitive() && !saved.Destroy
		if err := errors.Join(a.noChoice(path, again), saved.CheckTarget(labName(a.lab, saved.Fabric))); err != nil {
			return nil, err
		}
		if again {
			if err := a.fillSecrets(saved, path); err != nil {
				return nil, err
			}
		}
		so, err := a.session(saved.Fabric, saved.Plan.Invocation)
		if err != nil {
			return nil, err
		}
		so.HalfLinks = o.allow.has(allowHalfLinks)
		if s, err = apply.OpenSaved(ctx, saved, so); err != nil {
			return nil, err
		}
	}
	defer s.Close()
	return apply.Run(ctx, s, o.Options, a.events(o.approve)), nil
}

// fillSecrets reads the sensitive values of a saved plan.
func (a *app) fillSecrets(saved *planner.Saved, path string) error {
	files, diags, err := config.FillSecrets(saved.Fabric, saved.Plan.Invocation, path, a.sources())
	if perr := a.err.Diagnostics(files, diags); perr != nil {
		return perr
	}
	return err
}

// noChoice refuses flags that select hosts or values: a saved plan holds both, except for sensitive values.
func (a *app) noChoice(path string, sensitive bool) error {
	if len(a.Hosts)+len(a.Exclude) > 0 || len(a.inputs) > 0 && !sensitive {
		return fmt.Errorf("%s is a saved plan: its hosts and its values are fixed, so -host, -exclude, "+
			"-var and -var-file cannot be used with it. Set them when you run fabricform plan -out", path)
	}
	return nil
}
