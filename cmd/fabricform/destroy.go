package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

func destroyCommand(a *app) *cobra.Command {
	var approve bool
	c := &cobra.Command{
		Use: "destroy [FABRIC]", Short: "Give back everything that the fabric made on its hosts", Args: cobra.MaximumNArgs(1),
		Long: `Takes away what fabricform made for this fabric and restores the values from before its first
change, as each host's own record says. What somebody else changed since stays as it is.
With -host it does so on some hosts only; a name may be one that the files no longer have.`,
		Example: "  fabricform destroy my-fabric/\n  fabricform destroy -host gpu03 my-fabric/",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&approve, "auto-approve", false, "do not ask")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.openWithVanished(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer s.fleet.Close()
		s.destroy = true
		p := s.plan(cmd.Context())
		p.Roster, p.Vanished, p.Enrol = s.left(p), nil, s.fleet.Hosts()
		a.out.Plan(p, nil)
		switch {
		case len(p.Problems()) > 0:
			return told(exitError)
		case p.Changes() == 0 && len(p.Unreachable()) > 0:
			return told(exitUnreachable)
		case p.Changes() > 0:
			if err := confirmed(approve); err != nil {
				return err
			}
		}
		code, err := a.change(cmd.Context(), s, p)
		if err == nil {
			err = a.tellTheOthers(cmd.Context(), s, p)
		}
		if len(p.Unreachable()) > 0 {
			code = worse(code, exitUnreachable)
		}
		return errors.Join(err, told(code))
	}
	return c
}

// tellTheOthers takes the destroyed hosts off the rosters of those that remain.
func (a *app) tellTheOthers(ctx context.Context, s *session, p *planner.Plan) error {
	if s.chosen == nil {
		return nil
	}
	others := *a
	f := *s.fabric
	f.Hosts = slices.DeleteFunc(slices.Clone(f.Hosts), func(h *fabric.Host) bool { return !s.leftOut(h.Name) })
	if len(f.Hosts) == 0 {
		return nil
	}
	others.selection = selection{}
	o, err := others.connect(ctx, &f)
	if err != nil {
		return err
	}
	defer o.fleet.Close()
	return o.fleet.Enrol(ctx, p.Fabric, p.Roster, o.fleet.Hosts())
}

// left is the roster once the plan is carried out: without the hosts that are given back.
func (s *session) left(p *planner.Plan) (out []member) {
	for _, m := range p.Roster {
		if s.leftOut(m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// openWithVanished opens a session that also knows hosts which -host names and only the other
// hosts' rosters remember.
func (a *app) openWithVanished(ctx context.Context, path string) (*session, error) {
	f, err := a.load(path)
	if err != nil {
		return nil, err
	}
	asked := slices.DeleteFunc(slices.Clone(a.hosts), func(term string) bool {
		return f.Host(term) != nil || strings.ContainsAny(term, "*?[=")
	})
	if len(asked) == 0 {
		return a.connect(ctx, f)
	}
	known, err := a.rosters(ctx, f)
	if err != nil {
		return nil, err
	}
	whole := *f
	for _, name := range asked {
		i := slices.IndexFunc(known, func(m member) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-host %s: neither the files nor the hosts' own records know such a host", name)
		}
		whole.Hosts = append(slices.Clone(whole.Hosts), &fabric.Host{Name: name, BlockName: name, Address: known[i].Address, SSH: f.SSH})
	}
	return a.connect(ctx, &whole)
}

// rosters asks all hosts of the files which hosts the fabric once had.
func (a *app) rosters(ctx context.Context, f *fabric.Fabric) ([]member, error) {
	everyone := *a
	everyone.selection = selection{}
	s, err := everyone.connect(ctx, f)
	if err != nil {
		return nil, err
	}
	defer s.fleet.Close()
	return s.plan(ctx).Vanished, nil
}
