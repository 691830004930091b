package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers/ofed"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
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
	bundles, err := r.send(ctx)
	if err != nil {
		return exitError, err
	}
	r.a.err.Progressf("%s", "installing driver stacks")
	r.report.Outcomes = r.s.fleet.Stacks(ctx, r.p.Stack(), apply.StackOptions{Fabric: r.p.Fabric, Plan: r.id, User: operator(), Apart: r.apart(), Patience: rebootPatience, Bundles: bundles,
		Started: func(host, what string) { r.a.err.Progressf("%s: %s", host, what) }})
	r.stacks = r.report.Outcomes
	code, err = r.failures(ctx)
	if err != nil {
		// What failed stands above, with the ends of logs.
		return code, errors.Join(r.enrolLate(ctx), fmt.Errorf("driver stacks are not whole on %s; nothing else was changed: the next apply finishes them", strings.Join(r.unfinished(), ", ")))
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

// send uploads the bundles that the plan installs, and tells each host's. Nothing is changed yet where it fails.
func (r *job) send(ctx context.Context) (map[string]calls.Bundle, error) {
	bundles, err := bundlesOf(r.p.Stack(), r.s.fabric, func(path string) { r.a.err.Progressf("hashing %s", path) })
	if err != nil || len(bundles) == 0 {
		return nil, err
	}
	sent := map[string]calls.Bundle{}
	for host, b := range bundles {
		sent[host] = b.Bundle
	}
	err = r.s.fleet.Send(ctx, bundles, func(s apply.Sent) {
		r.a.err.Progressf("sending to %d hosts: %d of %d MB, %.0f MB/s, %s left", s.Hosts, s.Bytes/1e6, s.Size/1e6, s.Rate/1e6, s.Left.Round(time.Second))
	}, func(host, what string) { r.a.err.Linef("! host %s %s", host, what) })
	if err != nil {
		return nil, fmt.Errorf("nothing was installed: %w", err)
	}
	return sent, nil
}

// bundlesOf are the bundles that hosts of a plan get, each file hashed and opened once. The process's end closes them.
func bundlesOf(p *planner.Plan, f *fabric.Fabric, hashing func(path string)) (map[string]apply.Bundle, error) {
	out, open := map[string]apply.Bundle{}, map[string]apply.Bundle{}
	for _, h := range p.Hosts {
		o := f.Host(h.Name).OFED
		if len(h.Actions) == 0 || o == nil || o.Bundle == "" || !ofed.Installs(h.Actions[0].Changes) {
			continue
		}
		b, there := open[o.Bundle]
		if !there {
			hashing(o.Bundle)
			file, size, sum, err := openBundle(o.Bundle)
			if err != nil {
				return nil, err
			}
			b = apply.Bundle{Bundle: calls.Bundle{Name: filepath.Base(o.Bundle), SHA256: sum, Size: size}, From: file}
			open[o.Bundle] = b
		}
		if o.SHA256 != "" && o.SHA256 != b.SHA256 {
			return nil, fmt.Errorf("nothing was changed: %s has the SHA-256 %s, and the ofed block of host %s says %s: fetch it again", o.Bundle, b.SHA256, h.Name, o.SHA256)
		}
		b.Relay = o.Relay
		out[h.Name] = b
	}
	return out, nil
}

// noBundle says why a declared bundle cannot be sent from here; it matters where a host is to get it.
func noBundle(o *fabric.OFED) string {
	if o == nil || o.Bundle == "" {
		return ""
	}
	info, err := os.Stat(o.Bundle)
	switch {
	case err != nil:
		return fmt.Sprintf("the bundle %s cannot be read: %v; NVIDIA's page gives it to a browser, and here it must be a local file", o.Bundle, err)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return fmt.Sprintf("the bundle %s is no file, or an empty one", o.Bundle)
	}
	return ""
}

// openBundle opens a local file, and hashes it.
func openBundle(path string) (f *os.File, size int64, sum string, err error) {
	if sum, size, err = transport.HashFile(path); err != nil {
		return nil, 0, "", fmt.Errorf("nothing was changed: %w", err)
	}
	f, err = os.Open(path)
	return f, size, sum, err
}

// unfinished are the hosts whose stack stage did not come to its end.
func (r *job) unfinished() (hosts []string) {
	for _, h := range r.stacks {
		if slices.ContainsFunc(h.Outcomes, func(o apply.Outcome) bool { return !o.Done }) {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
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
		return exitError, r.ofTheRest(err)
	}
	if r.p.Changes() > 0 {
		if err := confirmed(r.o.approve); err != nil {
			return exitError, r.ofTheRest(err)
		}
	}
	return exitOK, nil
}

// ofTheRest says of what an error tells, such as that nothing was changed, where driver stacks were.
func (r *job) ofTheRest(err error) error {
	if err == nil || r.stacks == nil {
		return err
	}
	return fmt.Errorf("the driver stacks are as declared; of the rest: %w", err)
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
