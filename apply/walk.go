package apply

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// Outcome is the result of one action. After a failed action, the host's later actions are not tried.
type Outcome struct {
	Action planner.Action    `json:"action"`
	Done   bool              `json:"done"`
	Also   []resource.Change `json:"also,omitempty"` // restored, because an earlier action had disturbed it
	Err    error             `json:"-"`              // nil and not Done: not tried
	Failed string            `json:"failed,omitempty"`
}

// HostOutcome is one host's part of the walk.
type HostOutcome struct {
	Host       string    `json:"host"`
	Outcomes   []Outcome `json:"outcomes"`
	Fate       Fate      `json:"fate,omitempty"` // how the host's transaction ended
	Why        string    `json:"why,omitempty"`  // the reason for the fate
	Unrestored []string  `json:"left,omitempty"` // what a revert could not restore
	// Kept and Overwritten are what a revert did with the changes of others.
	Kept        []resource.Change `json:"kept,omitempty"`
	Overwritten []resource.Change `json:"overwritten,omitempty"`
	Via         string            `json:"via,omitempty"` // the address that the host reverted to, if it was reached at another one
}

// Err returns the host's first failure, or nil.
func (h HostOutcome) Err() error {
	for _, o := range h.Outcomes {
		if o.Err != nil {
			return o.Err
		}
	}
	return nil
}

// isStale reports whether an action was refused because the host changed since the plan was made.
func isStale(err error) bool {
	var e *agent.Error
	return errors.As(err, &e) && e.Stale
}

// isHeld reports whether an action was refused because another transaction is open on the host.
func isHeld(err error) bool {
	var e *agent.Error
	return errors.As(err, &e) && e.Held
}

// Walk makes the plan's changes of the runtime stage, or of the stage of keys, in the transaction: hosts in parallel, each host's
// actions in order. After a failure, no host starts another action; with others, only the failed host
// stops. Walk calls started before each action, from several goroutines; started may be nil.
func (c *coordinator) Walk(ctx context.Context, p *planner.Plan, others bool, started func(planner.Action)) []HostOutcome {
	out := make([]HostOutcome, len(p.Hosts))
	var failed atomic.Bool
	parallel.Each(0, p.Hosts, func(i int, h planner.HostPlan) {
		out[i] = c.walkHost(ctx, h, func() bool { return failed.Load() && !others }, started)
		if out[i].Err() != nil {
			failed.Store(true)
		}
	})
	return out
}

func (c *coordinator) walkHost(ctx context.Context, h planner.HostPlan, stopped func() bool, started func(planner.Action)) HostOutcome {
	out := HostOutcome{Host: h.Name}
	failed := false
	for _, a := range h.Actions {
		o := Outcome{Action: a}
		if (a.Stage == resource.StageRuntime || a.Stage == resource.StageKeys) && !failed && !stopped() && ctx.Err() == nil {
			if started != nil {
				started(a)
			}
			// Without cancel: an action must not be interrupted. It has a deadline of its own.
			r, err := c.carryOut(context.WithoutCancel(ctx), h, a)
			o.Done, o.Also, o.Err = err == nil, r.Also, err
			if o.Done && a.Stage == resource.StageKeys && a.Op != planner.Undo {
				o.Action.Changes = r.Changes // fewer, if another host has made the key in a home that both share
			}
			if failed = err != nil; failed {
				o.Failed = err.Error()
			}
		}
		out.Outcomes = append(out.Outcomes, o)
	}
	return out
}

func (c *coordinator) carryOut(ctx context.Context, h planner.HostPlan, a planner.Action) (calls.ActResult, error) {
	if a.Op == planner.Reconnect {
		return calls.ActResult{}, c.reconnect(ctx, h.Name, a.Via)
	}
	s := step(c.fabric, c.who.Secrets, h, a)
	if s.Undo != nil {
		s.Undo.Tx = c.refs[h.Name].ref
		return txStep(ctx, c, calls.Undo, h.Name, *s.Undo)
	}
	s.Act.Tx = c.refs[h.Name].ref
	return txStep(ctx, c, calls.Act, h.Name, *s.Act)
}

// step returns the request to a helper for an action. It has the sensitive values, which the plan does not have.
func step(of string, secrets fabric.Secrets, h planner.HostPlan, a planner.Action) calls.TxStep {
	if a.Op == planner.Undo {
		return calls.TxStep{Undo: &calls.UndoParams{Fabric: of, Changes: a.Changes, Forget: a.Forget, Management: h.Moves()}}
	}
	a.Resource.Spec = secrets.Reveal(a.Resource.Spec)
	return calls.TxStep{Act: &calls.ActParams{Fabric: of, Resource: a.Resource, Changes: a.Changes, Disturbed: a.Disturbed,
		Management: h.Moves(), Later: a.Later}}
}
