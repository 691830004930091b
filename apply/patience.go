package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/planner"
)

// How long a host may take for a step that is not an action of a plan. An action may take as long as its kind says.
const (
	stepPatience    = 30 * time.Second // a step of a transaction writes one file, synced
	openPatience    = 2 * time.Minute  // a host saves its state, starts its guardians, and sees them fire
	commitPatience  = 2 * time.Minute  // a host reads and saves its state, and ends its guardians: a slow one took 30 s
	persistPatience = 10 * time.Minute // some actions, each with a deadline of its own on the host
	readPatience    = 2 * time.Minute  // all hosts are read, some times
	checkPatience   = 10 * time.Minute // carriers and pings of all paths, some times
	// answerPatience comes on top of what the helper allows an action or a revert, for its own report that it is stuck.
	answerPatience = 15 * time.Second
)

// stuckError says that a host has not answered in time, although its connection works.
type stuckError struct {
	method   string
	patience time.Duration
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("the step is stuck: no answer to %s within %s", e.method, e.patience)
}

// isStuck reports whether a step did not end in time. It may still run, and still change its host.
func isStuck(err error) bool {
	var late *stuckError
	var e *agent.Error
	return errors.As(err, &late) || errors.As(err, &e) && e.Stuck
}

// within calls a method of a host, which must answer in time.
func within[P, R any](ctx context.Context, m agent.Method[P, R], c agent.Caller, host string, params P, patience time.Duration) (R, error) {
	late := &stuckError{string(m), patience}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, late)
	defer cancel()
	r, err := m.Call(ctx, c, host, params)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		err = late
	}
	return r, err
}

// txStep makes a step of a host's transaction. If the step is stuck, it gives the host up.
func txStep[P, R any](ctx context.Context, c *coordinator, m agent.Method[P, R], host string, params P, patience time.Duration) (R, error) {
	r, err := within(ctx, m, c.fleet, host, params, patience)
	if isStuck(err) {
		c.giveUp(host)
	}
	return r, err
}

// giveUp ends the connection to a host whose step is stuck, and stops to renew its lease. The helper may still change the
// host when the step returns, so it must end before the host reverts: a new connection ends it, or the guardian does.
func (c *coordinator) giveUp(host string) {
	c.refs[host].givenUp.Store(true)
	if client := c.fleet.client(host); client != nil {
		client.Close()
	}
}

// patienceFor returns how long an action may take.
func (f *Fleet) patienceFor(a planner.Action) time.Duration {
	if a.Op == planner.Undo {
		return f.kinds.PatienceFor(a.Changes)
	}
	kind, _ := f.kinds.Lookup(a.Resource.Addr.Kind)
	return kind.Patience()
}

// revertPatience is how long a host may take to revert, after the action that runs.
const revertPatience = calls.RestorePatience + answerPatience
