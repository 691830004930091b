package apply

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// destroy undoes everything that the fabric made.
func (r *run) destroy(ctx context.Context, ending Ending) (Ending, error) {
	r.p.Roster, r.p.Vanished, r.p.Enrol = r.s.remaining(r.p), nil, r.s.Hosts()
	r.e.Plan(r.p, r.p.Notes())
	ending = max(ending, PlanEnding(r.p))
	if len(r.p.Problems()) > 0 {
		return ending, nil
	}
	if err := r.approve(r.p); err != nil {
		return Failed, err
	}
	changed, err := r.changeInWaves(ctx, parts{change: func(ctx context.Context, _ func(string) bool) (Ending, error) { return r.change(ctx) }})
	r.e.Walk(r.report.Outcomes)
	r.noteMoved()
	if err == nil && changed == Done {
		err = r.enrolOthers(ctx)
	}
	return max(ending, changed), err
}

// remaining returns the roster without the hosts that are being destroyed.
func (s *Session) remaining(p *planner.Plan) (out []resource.Member) {
	for _, m := range p.Roster {
		if s.Excluded(m.Name) {
			out = append(out, m)
		}
	}
	return out
}

// enrolOthers removes the destroyed hosts from the rosters of the other hosts.
func (r *run) enrolOthers(ctx context.Context) error {
	if !slices.ContainsFunc(r.s.Fabric.Hosts, func(h *fabric.Host) bool { return r.s.Excluded(h.Name) }) {
		return nil
	}
	others := r.s.others(ctx)
	defer others.Close()
	return others.Enrol(ctx, r.p, others.Hosts(), nil)
}

// WithVanished adds the hosts that terms of a fabric.Selection name, and that the files no longer declare but the other hosts' rosters
// still list.
func WithVanished(ctx context.Context, f *fabric.Fabric, o SessionOptions, terms []string) (*fabric.Fabric, error) {
	asked := slices.DeleteFunc(slices.Clone(terms), func(term string) bool {
		return f.Host(term) != nil || strings.ContainsAny(term, "*?[=")
	})
	if len(asked) == 0 {
		return f, nil
	}
	o.Chosen, o.Destroy = nil, false
	s := Open(ctx, f, o)
	defer s.Close()
	p, err := s.Plan(ctx)
	if err != nil {
		return nil, err
	}
	whole := *f
	for _, name := range asked {
		i := slices.IndexFunc(p.Vanished, func(m resource.Member) bool { return m.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("-host %s: no such host in the files or in the hosts' records", name)
		}
		whole.Hosts = append(slices.Clone(whole.Hosts),
			&fabric.Host{Name: name, BlockName: name, Address: p.Vanished[i].Address, SSH: f.SSH, Slurm: f.Slurm})
	}
	return &whole, nil
}
