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
	"github.com/fabricform/fabricform/parallel"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// stackOptions steer the stack stage.
type stackOptions struct {
	Fabric, Plan string
	User         string                  // user@machine of the operator
	Apart        func(a, b string) bool  // reports whether two hosts must not go down at once, such as the two ends of a link
	Started      func(host, what string) // called for each step, from several goroutines
	Patience     time.Duration           // how long a host may take to reboot
	Bundles      map[string]calls.Bundle // the bundles that were sent, by host
}

// installAll installs driver stacks: first, in parallel, on hosts whose traffic is not interrupted; then on the
// others in waves, never on both ends of a link at once. After a failure it starts no other host. An
// installation continues without its client, and its journal tells the next plan how it ended.
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
		parallel.Each(0, wave, func(_ int, h planner.HostPlan) { out[index[h.Name]] = f.stackHost(ctx, h, o) })
		if slices.ContainsFunc(out, func(h HostOutcome) bool { return h.Err() != nil }) || ctx.Err() != nil {
			break
		}
	}
	return out
}

// waves groups the hosts that are changed at the same time.
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
			out.Why = failed.why // the outcome also has the log
		}
	} else {
		out.Fate = Committed
	}
	return out
}

// installOn installs, waits for the end, and reboots the host if the changes need it.
func (f *Fleet) installOn(ctx context.Context, host string, a planner.Action, o stackOptions) error {
	// A plan may be applied twice: each time needs its own order.
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
	order.Boot = state.Boot // any later reboot counts
	if installs {
		if err := f.awaitStack(ctx, host, order.ID, state, o); err != nil {
			return err
		}
	}
	if a.Disruption() < resource.Reboot {
		return nil
	}
	o.Started(host, "rebooting")
	// The answer may be lost with the connection, as the host goes down.
	state, err = askAgain(ctx, f, calls.Reboot, host, order, o.Patience)
	if err != nil || state.Boot != order.Boot { // the host has already rebooted
		return err
	}
	return f.awaitBoot(ctx, host, order.Boot, o.Patience)
}

// installError is why an installation failed, with the end of its log.
type installError struct{ why, tail string }

func (e *installError) Error() string {
	return fmt.Sprintf("%s; the end of its log %s:\n%s", e.why, calls.StackLog, indent(e.tail))
}

// askAgain makes an idempotent call. If the connection breaks, it reconnects and repeats the call until the
// host answers, even with a refusal. It does not retry on a host that was never connected.
func askAgain[P, R any](ctx context.Context, f *Fleet, m agent.Method[P, R], host string, params P, patience time.Duration) (R, error) {
	for breaks := 0; ; breaks++ {
		r, err := m.Call(ctx, f, host, params)
		var refused *agent.Error
		if err == nil || errors.As(err, &refused) || ctx.Err() != nil || breaks == maxBreaks || isLate(err) || f.client(host) == nil {
			return r, err
		}
		if back := f.comeBack(ctx, host, patience); back != nil {
			return r, errors.Join(err, back)
		}
	}
}

// awaitStack waits until the installation has ended. The installation continues without a connection.
func (f *Fleet) awaitStack(ctx context.Context, host, id string, state calls.StackState, o stackOptions) error {
	step := ""
	for {
		j := state.Job
		switch {
		case j == nil || j.ID != id:
			return errors.New("the host's journal belongs to another installation: plan again")
		case j.State == resource.JobDone:
			return nil
		case j.State == resource.JobFailed:
			return &installError{why: j.Why, tail: state.Tail}
		case !j.Alive:
			return fmt.Errorf("the installation was interrupted during: %s. Run apply again to complete it", j.Step)
		}
		if j.Stuck {
			return &installError{why: fmt.Sprintf("the installation is stuck in: %s. "+
				"For %s, its programs have printed nothing, moved no bytes and used no processor time. "+
				"They are not killed, and may go on: look at the host", j.Step, resource.StuckAfter), tail: state.Tail}
		}
		if j.Step != step {
			step = j.Step
			o.Started(host, step)
		}
		if err := retry.Pause(ctx, 500*time.Millisecond); err != nil {
			return fmt.Errorf("gave up waiting (%w); the installation continues on the host", err)
		}
		next, err := askAgain(ctx, f, calls.ReadStack, host, struct{}{}, time.Minute)
		if err != nil {
			return fmt.Errorf("%w; the installation continues on the host", err)
		}
		state = next
	}
}

// awaitBoot waits until the host answers with another boot ID.
func (f *Fleet) awaitBoot(asked context.Context, host, before string, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(asked, patience)
	defer cancel()
	late := func() error {
		if err := asked.Err(); err != nil {
			return fmt.Errorf("reboot requested; gave up waiting: %w", err)
		}
		return fmt.Errorf("reboot requested, but the host did not reboot within %s", patience)
	}
	// While the helper that reboots the host is alive, the host refuses other changes.
	if c := f.client(host); c != nil {
		select {
		case <-c.Dead():
		case <-ctx.Done():
			return late()
		}
	}
	for {
		// The old boot may still answer for a while; each attempt uses a new connection.
		if err := f.comeBack(ctx, host, patience); err != nil {
			if asked.Err() != nil {
				return late()
			}
			return fmt.Errorf("reboot requested, but the host does not come back: %w", err)
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

// comeBack reconnects to a host, with retries.
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
			return fmt.Errorf("the host is unreachable: %w", err)
		}
		if err := retry.Pause(ctx, time.Second); err != nil {
			return err
		}
	}
}

func indent(s string) string {
	return "    " + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n    ")
}
