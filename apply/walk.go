package apply

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Outcome is how one action ended. Actions after a failed one on the same host are not done.
type Outcome struct {
	Action planner.Action    `json:"action"`
	Done   bool              `json:"done"`
	Also   []resource.Change `json:"also,omitempty"` // put back because an earlier action had disturbed it
	Err    error             `json:"-"`              // nil and not Done: not tried
	Failed string            `json:"failed,omitempty"`
}

// HostOutcome is one host's part of the walk.
type HostOutcome struct {
	Host     string    `json:"host"`
	Outcomes []Outcome `json:"outcomes"`
}

// Err is the host's first failure, or nil.
func (h HostOutcome) Err() error {
	for _, o := range h.Outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// IsStale says whether an action was refused because the host moved since the plan was made.
func IsStale(err error) bool {
	var e *agent.Error
	return errors.As(err, &e) && e.Stale
}

// Preflight asks every host that the plan will change for a sign of life, before any change.
func (f *Fleet) Preflight(ctx context.Context, p *planner.Plan) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, h := range p.Hosts {
		if len(h.Actions) == 0 {
			continue
		}
		g.Go(func() error {
			if _, err := f.Snapshot(gctx, h.Name); err != nil {
				return fmt.Errorf("host %s was lost after the plan was made; nothing was changed on any host: %w", h.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// Walk makes the plan's changes: hosts side by side, each host's actions in order. Started is told
// of every action before it begins, from several goroutines; it may be nil.
func (f *Fleet) Walk(ctx context.Context, p *planner.Plan, started func(planner.Action)) []HostOutcome {
	out := make([]HostOutcome, len(p.Hosts))
	var g errgroup.Group
	for i, h := range p.Hosts {
		g.Go(func() error {
			out[i] = f.walkHost(ctx, p.Fabric, h, started)
			return nil
		})
	}
	_ = g.Wait() // the functions above return nil always
	return out
}

func (f *Fleet) walkHost(ctx context.Context, fabric string, h planner.HostPlan, started func(planner.Action)) HostOutcome {
	out := HostOutcome{Host: h.Name}
	failed := false
	for _, a := range h.Actions {
		o := Outcome{Action: a}
		if !failed && ctx.Err() == nil {
			if started != nil {
				started(a)
			}
			r, err := f.carryOut(ctx, fabric, h.Name, a)
			o.Done, o.Also, o.Err = err == nil, r.Also, err
			if failed = err != nil; failed {
				o.Failed = err.Error()
			}
		}
		out.Outcomes = append(out.Outcomes, o)
	}
	return out
}

func (f *Fleet) carryOut(ctx context.Context, fabric, host string, a planner.Action) (agent.ActResult, error) {
	if a.Op == planner.Undo {
		return f.Undo(ctx, host, agent.UndoParams{Fabric: fabric, Changes: a.Changes, Forget: a.Forget})
	}
	return f.Act(ctx, agent.ActParams{Fabric: fabric, Resource: a.Resource, Changes: a.Changes, Settling: a.Settling})
}
