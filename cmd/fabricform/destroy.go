package main

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

func destroyCommand(a *app) *cobra.Command {
	var approve bool
	var only string
	c := &cobra.Command{
		Use: "destroy [FABRIC]", Short: "Give back everything that the fabric made on its hosts", Args: cobra.MaximumNArgs(1),
		Long: `Takes away what fabricform made for this fabric and restores the values from before its first
change, as each host's own record says. What somebody else changed since stays as it is.
With -host it does so on one host, which may be one that the files no longer name.`,
		Example: "  fabricform destroy my-fabric/\n  fabricform destroy -host gpu03 my-fabric/",
	}
	a.fleetFlags(c)
	c.Flags().BoolVar(&approve, "auto-approve", false, "do not ask")
	c.Flags().StringVar(&only, "host", "", "this `host` only; it may have vanished from the files")
	c.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := a.open(cmd.Context(), fabricArg(args))
		if err != nil {
			return err
		}
		defer func() { s.fleet.Close() }()
		if only != "" && s.fabric.Host(only) == nil {
			whole, err := a.vanished(cmd, s, only)
			if err != nil {
				return err
			}
			s.fleet.Close()
			s = whole
		}
		s.destroy, s.only = true, only
		p := s.plan(cmd.Context())
		p.Roster, p.Vanished, p.Enrol = left(p, only), nil, s.fleet.Hosts()
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
		if len(p.Unreachable()) > 0 {
			code = worse(code, exitUnreachable)
		}
		return errors.Join(err, told(code))
	}
	return c
}

// left is the roster once the plan is carried out: without the one host, or empty.
func left(p *planner.Plan, only string) (out []member) {
	if only == "" {
		return nil
	}
	for _, m := range p.Roster {
		if m.Name != only {
			out = append(out, m)
		}
	}
	return out
}

// vanished opens the session anew with a host that only the others' rosters know.
func (a *app) vanished(cmd *cobra.Command, s *session, name string) (*session, error) {
	p := s.plan(cmd.Context())
	i := slices.IndexFunc(p.Vanished, func(m member) bool { return m.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("-host %s: neither the files nor the hosts' own records know such a host", name)
	}
	f := *s.fabric
	f.Hosts = append(slices.Clone(f.Hosts), &fabric.Host{Name: name, BlockName: name, Address: p.Vanished[i].Address, SSH: f.SSH})
	return a.connect(cmd.Context(), &f)
}
