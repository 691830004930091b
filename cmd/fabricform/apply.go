package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
)

// applyOptions are the flags of apply and destroy.
type applyOptions struct {
	approve, noVerify                 bool
	allow                             allowances
	report                            string
	onFailure, onFailedCheck, confirm string
	lease                             time.Duration // that hosts wait for a client that fell silent
	patience                          time.Duration // that they wait for a confirmation by hand
}

// Ways to confirm, and what a failed check leads to.
const (
	confirmAuto   = "auto"
	confirmManual = "manual"
	keepCheck     = "keep"
	rollbackCheck = "rollback"
)

func (o *applyOptions) flags(c *cobra.Command) {
	c.Flags().BoolVar(&o.approve, "auto-approve", false, "do not ask")
	o.allow.flag(c)
	c.Flags().StringVar(&o.report, "report", "", "write all that was found, done and measured to `file`: .md as Markdown, else JSON")
	c.Flags().StringVar(&o.onFailure, "on-failure", string(apply.RollbackAll), "when a host fails: "+string(apply.RollbackAll)+", "+string(apply.RollbackHost)+" (the others go on), or "+string(apply.Stop)+" (what was done stays)")
	c.Flags().DurationVar(&o.lease, "lease", checkpoint.DefaultLease, "`time` after which a host that does not hear of this program any more goes back by itself")
}

// check refuses words that the flags do not know.
func (o *applyOptions) check() error {
	if err := o.allow.check(); err != nil {
		return err
	}
	for _, f := range []struct {
		flag, value string
		known       []string
	}{
		{"-on-failure", o.onFailure, []string{string(apply.RollbackAll), string(apply.RollbackHost), string(apply.Stop)}},
		{"-on-failed-check", o.onFailedCheck, []string{"", keepCheck, rollbackCheck}},
		{"-confirm", o.confirm, []string{"", confirmAuto, confirmManual}},
	} {
		if !slices.Contains(f.known, f.value) {
			return fmt.Errorf("%s %s: there are %s", f.flag, f.value, strings.TrimPrefix(strings.Join(f.known, ", "), ", "))
		}
	}
	if o.lease < 5*time.Second || o.lease > 24*time.Hour || o.patience < 0 || o.patience > 24*time.Hour {
		return errors.New("-lease and -confirm-timeout: from 5s to 24h")
	}
	if o.confirm == confirmManual {
		o.lease = o.patience
	}
	return nil
}

func applyCommand(a *app) *cobra.Command {
	var o applyOptions
	c := &cobra.Command{
		Use: "apply [FABRIC or PLANFILE]", Short: "Make the planned difference, then prove the fabric", Args: cobra.MaximumNArgs(1),
		Long: `Makes the difference between the files and the hosts, and proves the fabric with live checks. Of a
plan that "plan -out" saved it makes exactly that difference: a host that moved since is left as it is
(exit 5), and a plan is applied once.

All hosts commit, or all go back. Each host keeps what it was, and a timer that it does not share with
this program: if this program, its machine or the network to it is gone, the host goes back by itself
(-lease). Before anything is final every host must be reached by a new connection, be as declared, and
have lost no carrier and no ping that it had. What carries your own connection is changed with
-allow=management only: new first, then a new connection through it, then old is removed.

Driver stacks (ofed blocks) come before that, in a transaction of their own: packages stay where the
rest goes back. What reloads a driver or restarts a host wants -allow, and goes one end of a link at a
time.`,
		Example: "  fabricform apply\n  fabricform apply -auto-approve -lab examples/roce-pair.hcl\n  fabricform apply -report done.md tonight.plan\n  fabricform apply -allow=reboot my-fabric/\n  fabricform apply -allow=management move-mgmt.hcl",
	}
	a.fleetFlags(c)
	a.jsonFlag(c)
	o.flags(c)
	c.Flags().BoolVar(&o.noVerify, "no-verify", false, "leave out the live checks afterwards")
	c.Flags().StringVar(&o.onFailedCheck, "on-failed-check", keepCheck, "when a live check fails: "+keepCheck+" the fabric as declared, or "+rollbackCheck)
	c.Flags().StringVar(&o.confirm, "confirm", confirmAuto, confirmAuto+", or "+confirmManual+": hosts go back by themselves unless fabricform confirm comes in time")
	c.Flags().DurationVar(&o.patience, "confirm-timeout", 10*time.Minute, "with -confirm manual: `time` to confirm in")
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

// apply opens the session of a fabric, or of a saved plan, and runs.
func (a *app) apply(ctx context.Context, path string, o applyOptions) (*apply.Report, error) {
	build, err := buildID()
	if err != nil {
		return nil, err
	}
	saved, err := readSaved(path, build)
	if err != nil {
		return nil, err
	}
	var s *apply.Session
	if saved == nil {
		if s, err = a.open(ctx, path); err != nil {
			return nil, err
		}
		s.Options.Management = o.allow.management()
	} else {
		so, err := a.session(saved.Fabric, saved.Source)
		if err != nil {
			return nil, err
		}
		so.Chosen, so.Destroy, so.Management = saved.Chosen, saved.Destroy, saved.Management
		s = apply.Open(ctx, saved.Fabric, so)
	}
	defer s.Close()
	run := o.run()
	run.Saved = saved
	return apply.Run(ctx, s, run, a.events(o.approve)), nil
}

// run is what the flags say to the engine.
func (o *applyOptions) run() apply.Options {
	return apply.Options{Allowed: o.allow.worst(), OnFailure: apply.OnFailure(o.onFailure), Manual: o.confirm == confirmManual, Lease: o.lease,
		Unverified: o.noVerify, CheckRollback: o.onFailedCheck == rollbackCheck}
}
