package apply

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// stackOptions steer the stack stage.
type stackOptions struct {
	Fabric, Plan string
	User         string                  // user@machine of the operator
	Apart        func(a, b string) bool  // hosts that are not to go down at once, such as the two ends of a link
	Started      func(host, what string) // told of each step; from several goroutines
	Patience     time.Duration           // with a host that restarts
	Bundles      map[string]calls.Bundle // what was sent, by host
}

// installAll installs driver stacks: first, side by side, on hosts whose traffic does not feel it; then
// on the others in waves without two hosts of one link. After a failure no other host begins. A host
// where it failed, or that was not heard of any more, goes on or stops by itself, and its journal
// tells the next plan.
func (f *Fleet) installAll(ctx context.Context, p *planner.Plan, o stackOptions) []HostOutcome {
	out := make([]HostOutcome, len(p.Hosts))
	index := map[string]int{}
	for i, h := range p.Hosts {
		out[i].Host, index[h.Name] = h.Name, i
		for _, a := range h.Actions {
			out[i].Outcomes = append(out[i].Outcomes, Outcome{Action: a})
		}
	}
	for _, wave := range waves(p, o.Apart) {
		_ = sideBySide(0, wave, func(_ int, h planner.HostPlan) error {
			out[index[h.Name]] = f.stackHost(ctx, h, o)
			return nil // errors are in the outcome
		})
		if slices.ContainsFunc(out, func(h HostOutcome) bool { return h.Err() != nil }) || ctx.Err() != nil {
			break
		}
	}
	return out
}

// waves are the hosts that act at the same time.
func waves(p *planner.Plan, apart func(a, b string) bool) [][]planner.HostPlan {
	var calm []planner.HostPlan
	var out [][]planner.HostPlan
next:
	for _, h := range p.Hosts {
		switch {
		case len(h.Actions) == 0:
			continue
		case h.Worst() < resource.DriverReload:
			calm = append(calm, h)
			continue
		}
		for i := range out {
			if !slices.ContainsFunc(out[i], func(o planner.HostPlan) bool { return apart(o.Name, h.Name) }) {
				out[i] = append(out[i], h)
				continue next
			}
		}
		out = append(out, []planner.HostPlan{h})
	}
	if calm != nil {
		out = append([][]planner.HostPlan{calm}, out...)
	}
	return out
}

func (f *Fleet) stackHost(ctx context.Context, h planner.HostPlan, o stackOptions) HostOutcome {
	out := HostOutcome{Host: h.Name}
	for _, a := range h.Actions {
		res := Outcome{Action: a}
		if out.Err() == nil && ctx.Err() == nil {
			res.Err = f.installOn(ctx, h.Name, a, o)
			if res.Done = res.Err == nil; !res.Done {
				res.Failed = res.Err.Error()
			}
		}
		out.Outcomes = append(out.Outcomes, res)
	}
	if err := out.Err(); err != nil {
		out.Fate, out.Why = Unfinished, err.Error()
		var failed *installError
		if errors.As(err, &failed) {
			out.Why = failed.why // the outcome has the log, too
		}
	} else {
		out.Fate = Committed
	}
	return out
}

// installOn installs, waits for the end, and restarts the host where the changes say so.
func (f *Fleet) installOn(ctx context.Context, host string, a planner.Action, o stackOptions) error {
	// A plan may be carried out twice: each time is an order of its own.
	order := calls.StackOrder{ID: o.Plan + "-" + rand.Text(), Fabric: o.Fabric, Who: o.User, Resource: a.Resource, Changes: a.Changes}
	if b, sent := o.Bundles[host]; sent {
		order.Bundle = &b
	}
	installs := slices.ContainsFunc(a.Changes, func(c resource.Change) bool { return c.Disruption < resource.Reboot })
	var state calls.StackState
	var err error
	if installs {
		state, err = askAgain(ctx, f, calls.StartStack, host, order, time.Minute)
	} else {
		state, err = askAgain(ctx, f, calls.ReadStack, host, struct{}{}, time.Minute)
	}
	if err != nil {
		return err
	}
	order.Boot = state.Boot // somebody's restart after it counts
	if installs {
		if err := f.awaitStack(ctx, host, order.ID, state, o); err != nil {
			return err
		}
	}
	if a.Disruption() < resource.Reboot {
		return nil
	}
	o.Started(host, "restarting it")
	// The answer may be lost with the connection, as the host goes down.
	state, err = askAgain(ctx, f, calls.Reboot, host, order, o.Patience)
	if err != nil || state.Boot != order.Boot { // it is back already
		return err
	}
	return f.awaitBoot(ctx, host, order.Boot, o.Patience)
}

// installError is why an installation failed, with the end of its log.
type installError struct{ why, tail string }

func (e *installError) Error() string {
	return fmt.Sprintf("%s; its log %s ends so:\n%s", e.why, calls.StackLog, indent(e.tail))
}

// askAgain asks for what does no harm when it is asked for twice: a connection that breaks is made
// anew, and the host's own answer, also a refusal, is waited for. A host that was not reached to begin
// with has no connection to break.
func askAgain[P, R any](ctx context.Context, f *Fleet, m agent.Method[P, R], host string, params P, patience time.Duration) (R, error) {
	for breaks := 0; ; breaks++ {
		r, err := m.Call(ctx, f, host, params)
		var refused *agent.Error
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil || breaks == breaksBorne || f.client(host) == nil {
			return r, err
		}
		if back := f.comeBack(ctx, host, patience); back != nil {
			return r, errors.Join(err, back)
		}
	}
}

// awaitStack asks until the installation has ended; it goes on without a connection.
func (f *Fleet) awaitStack(ctx context.Context, host, id string, state calls.StackState, o stackOptions) error {
	step := ""
	for {
		j := state.Job
		switch {
		case j == nil || j.ID != id:
			return errors.New("its journal is of another installation: plan again")
		case j.State == resource.JobDone:
			return nil
		case j.State == resource.JobFailed:
			return &installError{why: j.Why, tail: state.Tail}
		case !j.Alive:
			return fmt.Errorf("the installation was interrupted in: %s; the next apply finishes it", j.Step)
		}
		if j.Step != step {
			step = j.Step
			o.Started(host, step)
		}
		if err := retry.Pause(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("not waited for any more (%w): the installation goes on there by itself", err)
		}
		next, err := askAgain(ctx, f, calls.ReadStack, host, struct{}{}, time.Minute)
		if err != nil {
			return fmt.Errorf("%w: the installation goes on there by itself", err)
		}
		state = next
	}
}

// awaitBoot waits until the host answers under another boot id.
func (f *Fleet) awaitBoot(asked context.Context, host, before string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(asked, patience)
	defer cancel()
	late := func() error {
		if err := asked.Err(); err != nil {
			return fmt.Errorf("it was told to restart, and is not waited for any more: %w", err)
		}
		return fmt.Errorf("it was told to restart, and has not within %s", patience)
	}
	// The helper that restarts it keeps others from beginning anything as long as it lives.
	if c := f.client(host); c != nil {
		select {
		case <-c.Dead():
		case <-ctx.Done():
			return late()
		}
	}
	for {
		// The old boot may still answer for a while; each try is a connection of its own.
		if err := f.comeBack(ctx, host, patience); err != nil {
			if asked.Err() != nil {
				return late()
			}
			return fmt.Errorf("it was told to restart, and does not come back: %w", err)
		}
		state, err := calls.ReadStack.Call(ctx, f, host, struct{}{})
		if err == nil && state.Boot != before {
			return nil
		}
		if retry.Pause(ctx, time.Second) != nil {
			return late()
		}
	}
}

// comeBack makes a new connection to a host, with patience.
func (f *Fleet) comeBack(ctx context.Context, host string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		c, err := f.redial(try, host)
		cancel()
		if err == nil {
			if before := f.adopt(host, c); before != nil {
				before.Close()
			}
			return nil
		}
		if ctx.Err() != nil || time.Now().After(end) {
			return fmt.Errorf("it cannot be reached any more: %w", err)
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ")
}
