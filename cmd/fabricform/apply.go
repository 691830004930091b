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

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/planner"
)

func applyCommand(a *app) *cobra.Command {
	var approve, noVerify bool
	c := &cobra.Command{
		Use: "apply [FABRIC]", Short: "Make the planned difference, then prove the fabric", Args: cobra.MaximumNArgs(1),
		Example: "  fabricform apply\n  fabricform apply -auto-approve -lab examples/roce-pair.hcl",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&approve, "auto-approve", false, "do not ask")
	c.Flags().BoolVar(&noVerify, "no-verify", false, "leave out the live checks afterwards")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		p := s.plan(cmd.Context())
		a.out.Plan(p, s.notes())
		code := exitOK
		if len(p.Unreachable()) > 0 {
			code = exitUnreachable
		}
		if len(p.Problems()) > 0 {
			return told(worse(code, exitError))
		}
		if p.Changes() == 0 {
			if err := s.enrol(cmd.Context(), p); err != nil {
				return err
			}
		} else {
			if err := confirmed(approve); err != nil {
				return err
			}
			changed, err := a.change(cmd.Context(), s, p)
			if err != nil || changed != exitOK {
				return errors.Join(err, told(worse(code, changed)))
			}
		}
		if noVerify {
			a.out.Linef("Live checks left out, as -no-verify asks: nothing was proven.")
			return told(code)
		}
		return told(worse(code, a.prove(cmd.Context(), s, checks{})))
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

// change makes the plan's changes and shows that the fabric settled as planned.
func (a *app) change(ctx context.Context, s *session, p *planner.Plan) (int, error) {
	if err := s.fleet.Preflight(ctx, p); err != nil {
		return exitError, err
	}
	a.out.Linef("")
	outcomes := s.fleet.Walk(ctx, p, func(act planner.Action) { a.err.Progressf("%s", act.Resource.Addr) })
	a.out.Walk(outcomes)
	code := exitOK
	for _, h := range outcomes {
		if err := h.Err(); err != nil {
			if apply.IsStale(err) {
				code = worse(code, exitStale)
			} else {
				code = worse(code, exitError)
			}
		}
	}
	if ctx.Err() != nil {
		return exitError, errors.New("interrupted: what is marked ✓ above was done, the rest was not")
	}
	if err := s.enrol(ctx, p); err != nil {
		return exitError, err
	}
	if code != exitOK {
		return code, errors.New("apply stopped: what is marked ✓ above was done and stays, the rest was not; plan again to see what is left")
	}
	return code, s.settled(ctx, p.Unreachable())
}

// enrol keeps the fabric's roster on the hosts where it changed or where something was made now.
func (s *session) enrol(ctx context.Context, p *planner.Plan) error {
	hosts := slices.Clone(p.Enrol)
	for _, h := range p.Hosts {
		if len(h.Actions) > 0 && !slices.Contains(hosts, h.Name) {
			hosts = append(hosts, h.Name)
		}
	}
	return s.fleet.Enrol(ctx, p.Fabric, p.Roster, hosts)
}

// settled re-reads until the plan is empty, with patience for links that come up: a change that
// another program undoes is not a success.
func (s *session) settled(ctx context.Context, left map[string]string) error {
	var p *planner.Plan
	for try := 0; try < 6; try++ {
		p = s.plan(ctx)
		if p.Changes() == 0 && len(p.Problems()) == 0 && len(p.Unreachable()) == len(left) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
	}
	for _, h := range p.Hosts {
		for _, act := range h.Actions {
			if act.Op == planner.Keep {
				continue
			}
			return fmt.Errorf("the changes were made, but did not stay: %s: %s; another program on %s may own this device", act.Resource.Addr, act.Changes[0], h.Name)
		}
	}
	return errors.New("the changes were made, but the fabric could not be read again in full; run plan")
}
