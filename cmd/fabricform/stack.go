package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// rebootPatience is how long a host may take to restart: a server checks its memory first.
const rebootPatience = 20 * time.Minute

// stack makes the plan's changes of driver stacks, and plans the rest anew: a package manager's work
// is not undone with the network's, and names of devices may have changed through it. saved plans
// are bound to what they showed.
func (r *job) stack(ctx context.Context) (code int, err error) {
	if !r.p.Has(resource.StageStack) {
		return exitOK, nil
	}
	shown := r.p.Rest()
	r.a.err.Progressf("%s", "installing driver stacks")
	r.report.Outcomes = r.s.fleet.Stacks(ctx, r.p.Stack(), apply.StackOptions{Fabric: r.p.Fabric, Plan: r.id, User: operator(), Apart: r.apart(), Patience: rebootPatience,
		Started: func(host, what string) { r.a.err.Progressf("%s: %s", host, what) }})
	r.stacks = r.report.Outcomes
	code, err = r.failures(ctx)
	if err != nil {
		r.a.report().Walk(r.report.Outcomes)
		return code, errors.Join(err, r.enrolLate(ctx), errors.New("driver stacks are not whole on the hosts that are marked ✗; nothing else was changed: the next apply finishes them"))
	}
	if err := r.enrolLate(ctx); err != nil {
		return exitError, err
	}
	r.p = r.s.propose(ctx)
	switch {
	case len(r.p.Problems()) > 0:
		r.a.report().Plan(r.p, r.p.Notes())
		return planCode(r.p, false), errors.New("the driver stacks are as declared; the rest cannot be planned with them")
	case r.p.Has(resource.StageStack):
		r.a.report().Plan(r.p, r.p.Notes())
		return exitError, errors.New("the driver stacks were installed, and still differ from what is declared")
	}
	moved := planner.Moved(shown, r.p)
	if len(moved) == 0 {
		return exitOK, nil
	}
	return r.movedBy(moved)
}

// movedBy asks again where the rest is not what was shown: after a reboot runtime settings are gone,
// and with a driver come devices.
func (r *job) movedBy(moved map[string][]string) (int, error) {
	if r.saved {
		var said []string
		for _, host := range slices.Sorted(maps.Keys(moved)) {
			said = append(said, fmt.Sprintf("host %s: %s", host, strings.Join(moved[host], "; ")))
		}
		return exitStale, fmt.Errorf("the driver stacks are as declared; the rest differs by now from the saved plan, and was left: plan again\n    %s", strings.Join(said, "\n    "))
	}
	r.a.report().Note("With the driver stacks in place, the rest is:")
	r.a.report().Plan(r.p, r.p.Notes())
	if err := r.o.allow.disruptive(r.p); err != nil {
		return exitError, err
	}
	if err := confirmed(r.o.approve); err != nil {
		return exitError, err
	}
	return exitOK, nil
}

// apart says whether two hosts share a link: one end stays up while the other restarts.
func (r *job) apart() func(a, b string) bool {
	shared := map[[2]string]bool{}
	for _, p := range r.s.fabric.Paths() {
		a, b := p.Endpoints[0].Host, p.Endpoints[1].Host
		shared[[2]string{a, b}], shared[[2]string{b, a}] = true, true
	}
	return func(a, b string) bool { return shared[[2]string{a, b}] }
}

// withStacks puts what was done to driver stacks before what was done after it.
func (r *job) withStacks(rest []apply.HostOutcome) []apply.HostOutcome {
	for _, s := range r.stacks {
		if len(s.Outcomes) == 0 {
			continue
		}
		at := slices.IndexFunc(rest, func(h apply.HostOutcome) bool { return h.Host == s.Host })
		if at < 0 {
			rest = append(rest, s)
			continue
		}
		h := &rest[at]
		if h.Fate == "" || h.Fate == apply.Untouched {
			h.Fate = s.Fate
		}
		h.Outcomes = slices.Concat(s.Outcomes, h.Outcomes)
	}
	return rest
}
