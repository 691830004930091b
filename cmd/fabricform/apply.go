package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
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
	c.Flags().StringVar(&o.onFailure, "on-failure", rollbackAll, "when a host fails: "+rollbackAll+", "+rollbackHost+" (the others go on), or "+stopThere+" (what was done stays)")
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
		{"-on-failure", o.onFailure, []string{rollbackAll, rollbackHost, stopThere}},
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
		r, err := a.begin(cmd.Context(), "apply", fabricArg(args), o)
		if err != nil {
			return err
		}
		defer r.s.fleet.Close()
		return r.end(r.apply(cmd.Context()))
	}
	return c
}

// confirmed asks the person at the terminal; without one it refuses, it never assumes yes.
func confirmed(approve bool) error {
	if approve {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return errors.New("nothing was changed: there is no terminal to ask on; run with -auto-approve to apply without asking")
	}
	fmt.Fprint(os.Stderr, "\nApply these changes? Only \"yes\" will do: ")
	answer, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil || strings.TrimSpace(answer) != "yes" {
		return errors.New("nothing was changed: the answer was not \"yes\"")
	}
	return nil
}

// settled re-reads hosts until all are read in full and those that acted have nothing left of the stage
// and those before it, with patience for links that come up: a change that another program undoes is
// not a success. The stack stage is left out: what a package manager changes meanwhile does not undo
// the network's changes, and would not be undone with them.
func (s *session) settled(ctx context.Context, acted map[string]bool, stage string) error {
	due := func(a planner.Action) bool {
		return a.Stage != resource.StageStack && resource.Rank(a.Stage) <= resource.Rank(stage)
	}
	var hosts []planner.HostPlan
	for try := 0; try < 6; try++ {
		hosts = slices.DeleteFunc(s.plan(ctx).Hosts, func(h planner.HostPlan) bool { _, looked := acted[h.Name]; return !looked })
		if !slices.ContainsFunc(hosts, func(h planner.HostPlan) bool {
			return h.Unreachable != "" || len(h.Problems) > 0 || acted[h.Name] && slices.ContainsFunc(h.Actions, due)
		}) {
			return nil
		}
		if err := retry.Pause(ctx, 500*time.Millisecond); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		for _, act := range h.Actions {
			if acted[h.Name] && due(act) && len(act.Changes) > 0 {
				return fmt.Errorf("the changes were made, but did not stay: %s: %s; another program on %s may own this device", act.Resource.Addr, act.Changes[0], h.Name)
			}
		}
	}
	return errors.New("the changes were made, but the fabric could not be read again in full; run plan")
}

// acted are the hosts that a plan looked at, and whether it changes them.
func acted(p *planner.Plan) map[string]bool {
	out := map[string]bool{}
	for _, h := range p.Hosts {
		if h.Unreachable == "" {
			out[h.Name] = len(h.Actions) > 0
		}
	}
	return out
}
