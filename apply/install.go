package apply

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
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// rebootPatience is how long a host may take to restart: a server checks its memory first.
const rebootPatience = 20 * time.Minute

// installStacks makes the plan's changes of driver stacks, and plans the rest anew: a package manager's work
// is not undone with the network's, and names of devices may have changed through it. saved plans
// are bound to what they showed.
func (r *run) installStacks(ctx context.Context) (Ending, error) {
	if !r.p.Has(resource.StageStack) {
		return Done, nil
	}
	shown := r.p.Rest()
	bundles, err := r.send(ctx)
	if err != nil {
		return Failed, err
	}
	r.e.Progress("%s", "installing driver stacks")
	r.report.Outcomes = r.s.installAll(ctx, r.p.Stack(), stackOptions{Fabric: r.p.Fabric, Plan: r.id, User: r.s.Options.User, Apart: r.apart(), Patience: rebootPatience, Bundles: bundles,
		Started: func(host, what string) { r.e.Progress("%s: %s", host, what) }})
	r.stacks = r.report.Outcomes
	ending, err := r.failures(ctx)
	if err != nil {
		// What failed stands above, with the ends of logs.
		return ending, errors.Join(r.enrolLate(ctx), fmt.Errorf("driver stacks are not whole on %s; nothing else was changed: the next apply finishes them", strings.Join(r.unfinished(), ", ")))
	}
	if err := r.enrolLate(ctx); err != nil {
		return Failed, err
	}
	r.p = r.s.Propose(ctx)
	switch {
	case len(r.p.Problems()) > 0:
		r.e.Plan(r.p, r.p.Notes())
		return PlanEnding(r.p), errors.New("the driver stacks are as declared; the rest cannot be planned with them")
	case r.p.Has(resource.StageStack):
		r.e.Plan(r.p, r.p.Notes())
		return Failed, errors.New("the driver stacks were installed, and still differ from what is declared")
	}
	moved := planner.Moved(shown, r.p)
	if len(moved) == 0 {
		return Done, nil
	}
	return r.approveRest(moved)
}

// send uploads the bundles that the plan installs, and tells each host's. Nothing is changed yet where it fails.
func (r *run) send(ctx context.Context) (map[string]calls.Bundle, error) {
	bundles, err := bundlesOf(r.p.Stack(), func(path string) { r.e.Progress("hashing %s", path) })
	if err != nil || len(bundles) == 0 {
		return nil, err
	}
	sent := map[string]calls.Bundle{}
	for host, b := range bundles {
		sent[host] = b.Bundle
	}
	err = r.s.Send(ctx, bundles, func(s Sent) {
		r.e.Progress("sending to %d hosts: %d of %d MB, %.0f MB/s, %s left", s.Hosts, s.Bytes/1e6, s.Size/1e6, s.Rate/1e6, s.Left.Round(time.Second))
	}, func(host, what string) { r.e.Warn("! host %s %s", host, what) })
	if err != nil {
		return nil, fmt.Errorf("nothing was installed: %w", err)
	}
	return sent, nil
}

// bundlesOf are the bundles that hosts of a plan get, each file hashed and opened once. The process's end closes them.
func bundlesOf(p *planner.Plan, hashing func(path string)) (map[string]Bundle, error) {
	out, open := map[string]Bundle{}, map[string]Bundle{}
	for _, h := range p.Hosts {
		for _, a := range h.Actions {
			payload := a.Resource.Payload
			if !payload.NeededBy(a.Changes) {
				continue
			}
			b, there := open[payload.Path]
			if !there {
				hashing(payload.Path)
				file, size, sum, err := openBundle(payload.Path)
				if err != nil {
					return nil, err
				}
				b = Bundle{Bundle: calls.Bundle{Name: filepath.Base(payload.Path), SHA256: sum, Size: size}, From: file}
				open[payload.Path] = b
			}
			if payload.SHA256 != "" && payload.SHA256 != b.SHA256 {
				return nil, fmt.Errorf("nothing was changed: %s has the SHA-256 %s, and the %s block of host %s says %s: fetch it again", payload.Path, b.SHA256, a.Resource.Addr.Kind, h.Name, payload.SHA256)
			}
			b.Relay = payload.Relay
			out[h.Name] = b
		}
	}
	return out, nil
}

// unreadable says why a declared file cannot be sent from here; it matters where a host is to get it.
func unreadable(p *resource.Payload) string {
	if p == nil {
		return ""
	}
	info, err := os.Stat(p.Path)
	switch {
	case err != nil:
		return fmt.Sprintf("the bundle %s cannot be read: %v; %s", p.Path, err, p.Origin)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return fmt.Sprintf("the bundle %s is no file, or an empty one", p.Path)
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
func (r *run) unfinished() (hosts []string) {
	for _, h := range r.stacks {
		if slices.ContainsFunc(h.Outcomes, func(o Outcome) bool { return !o.Done }) {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// approveRest asks again where the rest is not what was shown: after a reboot runtime settings are gone,
// and with a driver come devices.
func (r *run) approveRest(moved map[string][]string) (Ending, error) {
	if r.o.Saved != nil {
		var said []string
		for _, host := range slices.Sorted(maps.Keys(moved)) {
			said = append(said, fmt.Sprintf("host %s: %s", host, strings.Join(moved[host], "; ")))
		}
		return Stale, fmt.Errorf("the driver stacks are as declared; the rest differs by now from the saved plan, and was left: plan again\n    %s", strings.Join(said, "\n    "))
	}
	r.e.Note("With the driver stacks in place, the rest is:")
	r.e.Plan(r.p, r.p.Notes())
	if err := r.approve(r.p); err != nil {
		return Failed, r.ofTheRest(err)
	}
	return Done, nil
}

// ofTheRest says of what an error tells, such as that nothing was changed, where driver stacks were.
func (r *run) ofTheRest(err error) error {
	if err == nil || r.stacks == nil {
		return err
	}
	return fmt.Errorf("the driver stacks are as declared; of the rest: %w", err)
}

// apart says whether two hosts share a link: one end stays up while the other restarts.
func (r *run) apart() func(a, b string) bool {
	shared := map[[2]string]bool{}
	for _, p := range r.s.Fabric.Paths() {
		a, b := p.Endpoints[0].Host, p.Endpoints[1].Host
		shared[[2]string{a, b}], shared[[2]string{b, a}] = true, true
	}
	return func(a, b string) bool { return shared[[2]string{a, b}] }
}

// withStacks puts what was done to driver stacks before what was done after it.
func (r *run) withStacks(rest []HostOutcome) []HostOutcome {
	for _, s := range r.stacks {
		if len(s.Outcomes) == 0 {
			continue
		}
		at := slices.IndexFunc(rest, func(h HostOutcome) bool { return h.Host == s.Host })
		if at < 0 {
			rest = append(rest, s)
			continue
		}
		h := &rest[at]
		if h.Fate == "" || h.Fate == Untouched {
			h.Fate = s.Fate
		}
		h.Outcomes = slices.Concat(s.Outcomes, h.Outcomes)
	}
	return rest
}
