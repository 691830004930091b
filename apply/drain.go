package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// Scheduler gives hosts to jobs, and can keep jobs away from them.
type Scheduler interface {
	// Drain keeps new jobs away from the hosts, with a reason for each, and waits until none runs there. A connection can then be made to each.
	// waiting is called when the jobs that it waits for change. After an error, it has given back all that it had taken; a
	// *transport.BusyError says that jobs took too long.
	Drain(ctx context.Context, reasons map[string]string, waiting func(jobs []string)) error
	// Resume gives the hosts that Drain took back to jobs. Others, and those that somebody has drained meanwhile, stay as they are.
	Resume(ctx context.Context, hosts []string) error
	// Keep leaves hosts that Drain took without jobs, each with a reason that says why.
	Keep(ctx context.Context, reasons map[string]string) error
	// Release lets jobs have what the connections to the hosts have taken. They are closed.
	Release(hosts []string)
}

// disturbs reports whether a host's actions can touch the traffic of a job: all do that change the running host. Files for the next boot
// or the next job, and keys, touch none.
func disturbs(h planner.HostPlan) bool {
	return slices.ContainsFunc(h.Actions, func(a planner.Action) bool {
		return len(a.Changes) > 0 && a.Stage != resource.StagePersist && a.Stage != resource.StageKeys
	})
}

// drainWaves groups the hosts of the plan that must be drained: those of one wave are drained and changed together, never both ends of a
// link, and never more than each of them allows.
func (r *run) drainWaves() (out [][]string) {
	apart := r.apart()
	most := func(host string) int {
		s := r.s.Fabric.Host(host).Slurm
		if s.MaxDrained > 0 {
			return max(min(s.Wave, s.MaxDrained), 1)
		}
		return max(s.Wave, 1)
	}
next:
	for _, h := range r.p.Hosts {
		if !r.s.scheduled(h.Name) || !disturbs(h) {
			continue
		}
		for i, wave := range out {
			full := slices.ContainsFunc(append(wave, h.Name), func(o string) bool { return len(wave) >= most(o) })
			if !full && !slices.ContainsFunc(wave, func(o string) bool { return apart(o, h.Name) }) {
				out[i] = append(wave, h.Name)
				continue next
			}
		}
		out = append(out, []string{h.Name})
	}
	return out
}

// parts are what changeInWaves does with some of the hosts. of tells them.
type parts struct {
	change func(ctx context.Context, of func(host string) bool) (Ending, error) // r.p has their part of the plan
	check  func(ctx context.Context, of func(host string) bool)                 // after a change that is done; nil: nothing
}

// changeInWaves does a change for a fabric with hosts that a scheduler gives to jobs: what touches no job's traffic is changed at once, and then
// each wave is drained, changed, checked and given back. It stops when a wave fails. Jobs may have the hosts before their wave and after it. If
// no host must be drained, it is one change, which check does not follow.
func (r *run) changeInWaves(ctx context.Context, do parts) (ending Ending, err error) {
	waves := r.drainWaves()
	if len(waves) > 0 && (r.o.Manual || r.o.CheckRollback) {
		return Failed, errors.New("nothing was changed: hosts are given back to jobs wave by wave, so that what was committed there cannot wait for a " +
			"confirmation or for the live checks of all; leave out -confirm=manual and -on-failed-check=rollback")
	}
	whole, done := r.p, []HostOutcome(nil)
	defer func() { r.p, r.pending, r.wave = whole, nil, "" }()
	r.pending = map[string]bool{}
	for _, host := range slices.Concat(waves...) {
		r.pending[host] = true
	}
	part := func(of func(host string) bool) (Ending, error) {
		own := *whole
		own.Hosts, own.Enrol = slices.Clone(whole.Hosts), slices.DeleteFunc(slices.Clone(whole.Enrol), func(host string) bool { return !of(host) })
		for i, h := range own.Hosts {
			if !of(h.Name) {
				own.Hosts[i].Actions = nil
			}
		}
		r.p, r.report.Outcomes = &own, nil
		ending, err := do.change(ctx, of)
		if len(waves) > 0 {
			if ending == Done && err == nil && do.check != nil {
				do.check(ctx, of)
			}
			if done = after(r.report.Outcomes, done); r.p.RollsBack != "" { // its outcomes have no actions
				done = append(done, r.report.Outcomes...)
			}
		}
		return ending, err
	}
	if len(waves) > 0 {
		r.s.giveBack()
	}
	r.wakeFor(ctx, func(host string) bool { return !r.pending[host] })
	ending, err = part(func(host string) bool { return !r.pending[host] && !r.away[host] })
	if len(waves) == 0 {
		return ending, err
	}
	r.s.giveBack()
	for i, wave := range waves {
		if ending != Done || err != nil {
			break
		}
		for _, host := range wave {
			delete(r.pending, host)
		}
		r.p, r.wave = whole, fmt.Sprintf("wave %d of %d (%s)", i+1, len(waves), planner.Names(wave))
		ending, err = r.drained(ctx, wave, func() (Ending, error) { return part(func(host string) bool { return slices.Contains(wave, host) }) })
		r.s.giveBack()
		if (ending != Done || err != nil) && len(waves) > 1 {
			r.e.Warn("%s", r.stopped(done, waves[i+1:]))
		}
	}
	r.report.Outcomes = done
	return ending, err
}

// wakeFor connects to those of the hosts that rest. It warns about those that it does not reach and that were to be changed, and notes them.
func (r *run) wakeFor(ctx context.Context, of func(host string) bool) {
	var hosts []string
	for _, h := range r.p.Hosts {
		if of(h.Name) {
			hosts = append(hosts, h.Name)
		}
	}
	r.s.wake(ctx, r.s.Options.Parallelism, hosts)
	r.away = map[string]bool{}
	resting := r.s.resting()
	for _, h := range r.p.Hosts {
		if why := resting[h.Name]; why != nil && of(h.Name) && (len(h.Actions) > 0 || slices.Contains(r.p.Enrol, h.Name) || r.p.RollsBack != "") {
			r.away[h.Name] = true
			r.e.Warn("! %s: not changed, because it was given back to jobs while the plan was read: %v", h.Name, why)
		}
	}
}

// stopped says what stays and what was not begun after a wave has failed.
func (r *run) stopped(done []HostOutcome, later [][]string) string {
	on := map[Fate][]string{}
	for _, h := range done {
		on[h.Fate] = append(on[h.Fate], h.Host)
	}
	var says []string
	if kept := on[Committed]; len(kept) > 0 {
		says = append(says, "what is committed on "+planner.Names(kept)+" stays")
	}
	if back := on[Reverted]; r.p.RollsBack != "" && len(back) > 0 {
		says = append(says, planner.Names(back)+" are rolled back")
	}
	if len(later) > 0 {
		says = append(says, "nothing was begun on "+planner.Names(slices.Concat(later...)))
	}
	rest := "Plan again to see what remains"
	if r.p.RollsBack != "" {
		rest = "Run rollback again for what remains"
	}
	return fmt.Sprintf("! stopped at %s%s. %s", r.wave, strings.Join(append([]string{""}, says...), "; "), rest)
}

// drained drains hosts, does something, and gives them back, but those that it leaves half-changed.
func (r *run) drained(ctx context.Context, hosts []string, do func() (Ending, error)) (ending Ending, err error) {
	scheduler, reasons := r.s.Options.Scheduler, map[string]string{}
	for _, h := range r.p.Hosts {
		if slices.Contains(hosts, h.Name) {
			reasons[h.Name] = r.reason(h)
		}
	}
	r.e.Progress("draining %s", planner.Names(hosts))
	err = scheduler.Drain(ctx, reasons, func(jobs []string) {
		r.e.Warn("! %s: waiting for %s", planner.Names(hosts), transport.Jobs(jobs))
	})
	var busy *transport.BusyError
	switch {
	case errors.As(err, &busy):
		r.e.Warn("! not changed, and given back to jobs: %s, because %v", planner.Names(hosts), err)
		return HostsUnreachable, nil
	case err != nil && ctx.Err() != nil:
		return Failed, fmt.Errorf("interrupted; not changed: %s", planner.Names(hosts))
	case err != nil:
		return Failed, fmt.Errorf("not changed: %s, because %w", planner.Names(hosts), err)
	}
	defer func() {
		ctx, sick := context.WithoutCancel(ctx), r.halfChanged(hosts)
		sound := slices.DeleteFunc(slices.Clone(hosts), func(h string) bool { return sick[h] != "" })
		back := scheduler.Resume(ctx, sound)
		if len(sick) > 0 {
			r.e.Warn("! not given back to jobs: %s", planner.Names(slices.Sorted(maps.Keys(sick))))
			back = errors.Join(back, scheduler.Keep(ctx, sick))
		}
		if back != nil {
			ending, err = max(ending, Failed), errors.Join(err, back)
		}
	}()
	r.s.wake(ctx, r.s.Options.Parallelism, slices.Concat(hosts, r.neighbours(hosts)))
	for host, why := range r.s.resting() {
		if slices.Contains(hosts, host) {
			return Failed, fmt.Errorf("not changed: %s, because host %s is not reached: %w", planner.Names(hosts), host, why)
		}
	}
	return do()
}

// halfChanged returns why no job may start on some of the hosts: what was begun there is neither committed nor reverted, as far as is known.
func (r *run) halfChanged(hosts []string) map[string]string {
	out := map[string]string{}
	for _, o := range r.report.Outcomes {
		if slices.Contains(hosts, o.Host) && (o.Fate == Lost || o.Fate == RevertFailed) {
			out[o.Host] = fmt.Sprintf("fabricform %s %s by %s left it half-changed: %s", r.report.Command, r.id, r.s.Options.User, o.Why)
		}
	}
	return out
}

// reason says in the words of the plan why a host is drained.
func (r *run) reason(h planner.HostPlan) string {
	var changes []string
	for _, a := range h.Shown() {
		for _, c := range a.Changes {
			changes = append(changes, fmt.Sprintf("%s.%s %s", a.Resource.Addr.Kind, a.Resource.Addr.Name, c))
		}
	}
	return fmt.Sprintf("fabricform %s %s by %s: %s", r.report.Command, r.id, r.s.Options.User, strings.Join(changes, "; "))
}
