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
)

// rebootPatience is how long a host may take to reboot: a server checks its memory first.
const rebootPatience = 20 * time.Minute

// installStacks installs the plan's driver stacks, and then plans the rest again, because the names of
// devices may have changed. The rest of a saved plan must still be as saved. If the rest is rolled back,
// installed packages stay.
func (r *run) installStacks(ctx context.Context) (Ending, error) {
	if !r.p.Has(resource.StageStack) {
		return Done, nil
	}
	shown := r.p.Without(resource.StageStack)
	bundles, err := r.sendBundles(ctx)
	if err != nil {
		return Failed, err
	}
	r.e.Progress("%s", "installing driver stacks")
	r.report.Outcomes = r.s.installAll(ctx, r.p.Only(resource.StageStack),
		stackOptions{Fabric: r.p.Fabric, Plan: r.id, User: r.s.Options.User, Apart: r.apart(), Patience: rebootPatience, Bundles: bundles,
			Started: func(host, what string) { r.e.Progress("%s: %s", host, what) }})
	r.stacks = r.report.Outcomes
	ending, err := r.failures(ctx)
	if err != nil {
		// The failures were reported above, with the ends of their logs.
		return ending, errors.Join(r.enrolLate(ctx),
			fmt.Errorf("driver stacks are incomplete on %s; nothing else was changed. Run apply again to complete them",
				strings.Join(r.unfinished(), ", ")))
	}
	if err := r.enrolLate(ctx); err != nil {
		return Failed, err
	}
	return r.replan(ctx, shown, "driver stacks are installed")
}

// replan makes the rest of a plan anew, after an early stage was done. shown is the rest as it was shown, and done says what
// was done.
func (r *run) replan(ctx context.Context, shown *planner.Plan, done string) (Ending, error) {
	r.done = append(r.done, done)
	var inputs []planner.HostInput
	r.p, inputs = r.s.propose(ctx)
	skipped := map[string][]string{}
	for _, h := range shown.Hosts {
		if len(h.Stale) > 0 {
			skipped[h.Name] = h.Stale
		}
	}
	r.skip(skipped, inputs)
	switch {
	case len(r.p.Problems()) > 0:
		r.e.Plan(r.p, r.p.Notes())
		return PlanEnding(r.p), fmt.Errorf("the %s as declared, but the rest cannot be planned with them", done)
	case r.p.Has(resource.StageStack), r.p.Has(resource.StageKeys) && !shown.Has(resource.StageKeys):
		r.e.Plan(r.p, r.p.Notes())
		return Failed, fmt.Errorf("the %s, but still differ from the files", done)
	}
	moved := planner.Moved(shown, r.p)
	if len(moved) == 0 {
		return Done, nil
	}
	return r.approveRest(moved)
}

// sendBundles uploads the bundles that the plan installs, and returns each host's. If it fails, nothing
// has been changed.
func (r *run) sendBundles(ctx context.Context) (map[string]calls.Bundle, error) {
	bundles, err := bundlesOf(r.p.Only(resource.StageStack), func(path string) { r.e.Progress("hashing %s", path) })
	if err != nil || len(bundles) == 0 {
		return nil, err
	}
	sent := map[string]calls.Bundle{}
	for host, b := range bundles {
		sent[host] = b.Bundle
	}
	err = r.s.Send(ctx, bundles, func(s Sent) {
		r.e.Progress("sending to %s: %d of %d MB, %.0f MB/s, %s left",
			countHosts(s.Hosts), s.Bytes/1e6, s.Size/1e6, s.Rate/1e6, s.Remaining.Round(time.Second))
	}, func(host, what string) { r.e.Warn("! host %s %s", host, what) })
	if err != nil {
		return nil, fmt.Errorf("nothing was installed: %w", err)
	}
	return sent, nil
}

// bundlesOf returns the bundle of each host that a plan gives one. It hashes and opens each file once;
// the files stay open until the process exits.
func bundlesOf(p *planner.Plan, hashing func(path string)) (map[string]LocalBundle, error) {
	out, open := map[string]LocalBundle{}, map[string]LocalBundle{}
	for _, h := range p.Hosts {
		for _, a := range h.Actions {
			payload := a.Resource.Payload
			if !payload.NeededBy(a.Changes) {
				continue
			}
			b, there := open[payload.Path]
			if !there {
				hashing(payload.Path)
				file, err := os.Open(payload.Path)
				if err == nil {
					b, err = ReadBundle(filepath.Base(payload.Path), file)
				}
				if err != nil {
					return nil, fmt.Errorf("nothing was changed: read file: %w", err)
				}
				open[payload.Path] = b
			}
			if payload.SHA256 != "" && payload.SHA256 != b.SHA256 {
				return nil,
					fmt.Errorf("nothing was changed: %s has SHA-256 %s, but the %s block of host %s declares %s: download the file again",
						payload.Path, b.SHA256, a.Resource.Addr.Kind, h.Name, payload.SHA256)
			}
			b.Relay = payload.Relay
			out[h.Name] = b
		}
	}
	return out, nil
}

// unreadable says why a declared bundle cannot be sent from here, or "" if it can.
func unreadable(p *resource.Payload) string {
	if p == nil {
		return ""
	}
	info, err := os.Stat(p.Path)
	switch {
	case err != nil:
		return fmt.Sprintf("the bundle %s cannot be read: %v; %s", p.Path, err, p.Origin)
	case !info.Mode().IsRegular() || info.Size() == 0:
		return fmt.Sprintf("the bundle %s is not a regular file, or is empty", p.Path)
	}
	return ""
}

// unfinished returns the hosts whose stack stage did not complete.
func (r *run) unfinished() (hosts []string) {
	for _, h := range r.stacks {
		if slices.ContainsFunc(h.Outcomes, func(o Outcome) bool { return !o.Done }) {
			hosts = append(hosts, h.Host)
		}
	}
	return hosts
}

// approveRest asks again if the rest of the plan is no longer as shown: a reboot clears runtime settings,
// and a driver adds devices.
func (r *run) approveRest(moved map[string][]string) (Ending, error) {
	if r.s.saved != nil {
		var differences []string
		for _, host := range slices.Sorted(maps.Keys(moved)) {
			differences = append(differences, fmt.Sprintf("host %s: %s", host, strings.Join(moved[host], "; ")))
		}
		return Stale, fmt.Errorf("%s; the rest no longer matches the saved plan and was not applied. Plan again:\n    %s",
			r.sofar(), strings.Join(differences, "\n    "))
	}
	r.e.Note("The %s. The rest of the plan:", r.done[len(r.done)-1])
	r.e.Plan(r.p, r.p.Notes())
	if err := r.approve(r.p); err != nil {
		return Failed, r.ofTheRest(err)
	}
	return Done, nil
}

// ofTheRest adds to an error what the early stages did: "nothing was changed" is then true of the rest only.
func (r *run) ofTheRest(err error) error {
	if err == nil || r.done == nil {
		return err
	}
	return fmt.Errorf("%s; for the rest of the plan: %w", r.sofar(), err)
}

// sofar says what the early stages did.
func (r *run) sofar() string { return "the " + strings.Join(r.done, " and the ") + " as declared" }

// apart reports whether two hosts share a link: one end must stay up while the other reboots.
func (r *run) apart() func(a, b string) bool {
	shared := map[[2]string]bool{}
	for _, p := range r.s.Fabric.Paths() {
		a, b := p.Endpoints[0].Host, p.Endpoints[1].Host
		shared[[2]string{a, b}], shared[[2]string{b, a}] = true, true
	}
	return func(a, b string) bool { return shared[[2]string{a, b}] }
}

// after puts the outcomes of an early stage before those of the later stages.
func after(early, rest []HostOutcome) []HostOutcome {
	for _, s := range early {
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
