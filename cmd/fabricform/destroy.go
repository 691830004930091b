package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
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
	o.noVerify = true
	c.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.check(); err != nil {
			return err
		}
		r, err := a.begin(cmd.Context(), "destroy", fabricArg(args), o)
		if err != nil {
			return err
		}
		defer r.s.fleet.Close()
		return r.end(r.destroy(cmd.Context()))
	}
	return c
}

// destroy gives everything back; the answer is the exit code.
func (r *job) destroy(ctx context.Context) (int, error) {
	r.p.Roster, r.p.Vanished, r.p.Enrol = r.s.left(r.p), nil, r.s.fleet.Hosts()
	r.a.report().Plan(r.p, nil)
	code := planCode(r.p, false)
	if len(r.p.Problems()) > 0 {
		return code, nil
	}
	if r.p.Changes() > 0 {
		if err := confirmed(r.o.approve); err != nil {
			return exitError, err
		}
	}
	changed, err := r.change(ctx)
	r.a.report().Walk(r.report.Outcomes)
	r.moved()
	if err == nil && changed == exitOK {
		err = r.a.tellTheOthers(ctx, r.s, r.p)
	}
	return worse(code, changed), err
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
	others.Selection = fabric.Selection{}
	o, err := others.connect(ctx, &f)
	if err != nil {
		return err
	}
	defer o.fleet.Close()
	return o.fleet.Enrol(ctx, p.Fabric, p.Roster, o.fleet.Hosts(), nil)
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

// openFor opens a session. To destroy, it also knows hosts which -host names and only the other
// hosts' rosters remember.
func (a *app) openFor(ctx context.Context, path string, destroy bool) (*session, error) {
	if !destroy {
		return a.open(ctx, path)
	}
	f, err := a.load(path)
	if err != nil {
		return nil, err
	}
	asked := slices.DeleteFunc(slices.Clone(a.Hosts), func(term string) bool {
		return f.Host(term) != nil || strings.ContainsAny(term, "*?[=")
	})
	if len(asked) > 0 {
		if f, err = a.withVanished(ctx, f, asked); err != nil {
			return nil, err
		}
	}
	s, err := a.connect(ctx, f)
	if err != nil {
		return nil, err
	}
	s.source, s.destroy = config.SourceID(path), true
	return s, nil
}

// withVanished adds hosts that the files no longer name, as the others' rosters know them.
func (a *app) withVanished(ctx context.Context, f *fabric.Fabric, asked []string) (*fabric.Fabric, error) {
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
	return &whole, nil
}

// rosters asks all hosts of the files which hosts the fabric once had.
func (a *app) rosters(ctx context.Context, f *fabric.Fabric) ([]member, error) {
	everyone := *a
	everyone.Selection = fabric.Selection{}
	s, err := everyone.connect(ctx, f)
	if err != nil {
		return nil, err
	}
	defer s.fleet.Close()
	return s.plan(ctx).Vanished, nil
}
