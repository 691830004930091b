package apply

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/resource"
)

// How long a host may take to answer. An action of a plan may take as long as its kind says.
const (
	callPatience    = time.Minute      // a call that is not below; an emulated host is read in 10 s
	stepPatience    = 30 * time.Second // a step of a transaction writes one file, synced
	openPatience    = 2 * time.Minute  // a host saves its state, starts its guardians, and sees them fire
	commitPatience  = 2 * time.Minute  // a host reads and saves its state, and ends its guardians: a slow one took 30 s
	persistPatience = 10 * time.Minute // some actions, each with a deadline of its own on the host
	lookPatience    = 5 * time.Minute  // programs load their libraries: from a cold network file system, this takes minutes
	measurePatience = 15 * time.Minute // the host ends a measurement after 10 minutes
	bundlePatience  = resource.StuckAfter
	// answerPatience comes on top of what the helper allows an action or a revert, for its own report that it is stuck.
	answerPatience = 15 * time.Second
	revertPatience = checkpoint.RestorePatience + answerPatience // after the action that runs
)

// How long some calls may take together.
const (
	readPatience  = 2 * time.Minute  // all hosts are read, some times
	checkPatience = 10 * time.Minute // carriers and pings of all paths, some times
)

// patience returns how long a host may take to answer a call.
func patience(kinds resource.Kinds, method string, params any) time.Duration {
	switch p := params.(type) {
	case calls.ActParams:
		kind, _ := kinds.Lookup(p.Resource.Addr.Kind)
		return kind.Patience() + answerPatience
	case calls.UndoParams:
		return kinds.PatienceFor(p.Changes) + answerPatience
	case calls.EnrolParams:
		return resource.Patience + answerPatience
	}
	switch method {
	case string(calls.Beat), string(calls.Prepare):
		return stepPatience
	case string(calls.Ready), string(calls.Open):
		return openPatience
	case string(calls.Commit):
		return commitPatience
	case string(calls.Persist):
		return persistPatience
	case string(calls.Reversal), string(calls.Revert), string(calls.FinishInterrupted):
		return revertPatience
	case string(calls.PrepareUpload), string(calls.CheckBundle), string(calls.StartRelay), string(calls.Fetch), string(calls.StartStack):
		return bundlePatience // the host may read a whole bundle
	case string(probe.InspectCollective), string(probe.InspectLaunch):
		return lookPatience
	case string(probe.Ping), string(probe.SendTCP), string(probe.CollectTCP), string(probe.CollectCapture), string(probe.RunCollective),
		string(probe.Launch), string(probe.TryLogins),
		string(probe.TendRanks), string(probe.ServeVerbs), string(probe.RunVerbs), string(probe.CollectVerbs):
		return measurePatience
	}
	return callPatience
}

// stuckError says that a host has not answered in time, although its connection works.
type stuckError struct {
	method   string
	patience time.Duration
}

func (e *stuckError) Error() string {
	return fmt.Sprintf("no answer to %s within %s", e.method, e.patience)
}

// isLate reports whether a host has not answered in time.
func isLate(err error) bool {
	var late *stuckError
	return errors.As(err, &late)
}

// isStuck reports whether a step did not end in time. It may still run, and still change its host.
func isStuck(err error) bool {
	var e *agent.Error
	return isLate(err) || errors.As(err, &e) && e.Stuck
}

// patient is a caller whose hosts must answer in time: a host may be silent about one call while its connection works.
type patient struct {
	agent.Caller
	kinds resource.Kinds // they say how long actions may take
}

// Call implements agent.Caller.
func (c patient) Call(ctx context.Context, host, method string, params, result any) error {
	late := &stuckError{method, patience(c.kinds, method, params)}
	ctx, cancel := context.WithTimeoutCause(ctx, late.patience, late)
	defer cancel()
	err := c.Caller.Call(ctx, host, method, params, result)
	if err != nil && errors.Is(context.Cause(ctx), late) {
		return late
	}
	return err
}

// txStep makes a step of a host's transaction. If the step is stuck, it gives the host up.
func txStep[P, R any](ctx context.Context, c *coordinator, m agent.Method[P, R], host string, params P) (R, error) {
	r, err := m.Call(ctx, c.fleet, host, params)
	if isLate(err) {
		err = fmt.Errorf("the step is stuck: %w", err)
	}
	if isStuck(err) {
		c.giveUp(host)
	}
	return r, err
}

// giveUp ends the connection to a host whose step is stuck, and stops renewing its lease. The helper may still change the
// host when the step returns, so it must end before the host reverts: a new connection ends it, or the guardian does.
func (c *coordinator) giveUp(host string) {
	c.refs[host].givenUp.Store(true)
	if client := c.fleet.client(host); client != nil {
		client.Close()
	}
}
