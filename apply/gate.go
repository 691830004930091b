package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
	"github.com/fabricform/fabricform/validators"
)

// gate checks what must be true before the changes become final: every host accepts a new connection and
// is as declared, and no carrier or ping that worked before is lost.
func (r *run) gate(ctx context.Context, tx *coordinator, baseline []validators.Result) error {
	r.e.Progress("%s", "checking that every host accepts a new connection and is as declared")
	err, stage := tx.Reach(ctx), resource.StageRuntime
	if r.keying {
		stage = resource.StageKeys
	}
	if err == nil {
		err = r.s.converge(ctx, r.expectedHosts(), stage)
	}
	if err == nil {
		err = r.checkRegression(ctx, baseline)
	}
	if err == nil {
		err = tx.Prepare(ctx)
	}
	return withInterrupt(ctx, err)
}

// orInterrupted replaces the error of one host's check by "interrupted" if there was an interrupt before. Otherwise the
// error would blame a host whose check was only cut short.
func orInterrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// withInterrupt returns the errors that were found before an interrupt, and the interrupt.
func withInterrupt(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil {
		return err
	}
	return errors.Join(errInterrupted, withoutInterrupts(err))
}

// withoutInterrupts returns the errors that no interrupt caused.
func withoutInterrupts(err error) error {
	if all, joined := err.(interface{ Unwrap() []error }); joined {
		var out []error
		for _, e := range all.Unwrap() {
			out = append(out, withoutInterrupts(e))
		}
		return errors.Join(out...)
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

var errInterrupted = errors.New("interrupted")

// Interrupted returns an error if there was an interrupt. It is for callers that have changed nothing: what they read is
// cut short, and hosts that answer count as unreachable.
func Interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return errors.New("interrupted; nothing was changed")
}

// plannedHosts returns the hosts that a plan covers, and whether it changes them. A host that changed since the plan was
// saved is skipped.
func plannedHosts(p *planner.Plan) map[string]bool {
	out := map[string]bool{}
	for _, h := range p.Hosts {
		if h.Unreachable == "" && len(h.Stale) == 0 {
			out[h.Name] = len(h.Actions) > 0
		}
	}
	return out
}

// expectedHosts are those that must now be as planned.
func (r *run) expectedHosts() map[string]bool {
	out := plannedHosts(r.p)
	for _, host := range r.failed {
		delete(out, host)
	}
	return out
}

// convergeEvery is the pause between two reads of hosts that have not converged yet.
const convergeEvery = 500 * time.Millisecond

// converge re-reads hosts until all can be read and the changed ones need no more changes of the given or
// an earlier stage: a change that another program undoes is not a success. It retries, because links take
// time to come up. It ignores the stack stage: a package manager's work is independent of the network's
// changes and is not rolled back with them.
func (s *Session) converge(ctx context.Context, changed map[string]bool, stage string) error {
	due := func(a planner.Action) bool {
		// Actions that only keep or forget values change nothing more.
		return len(a.Changes) > 0 && a.Stage != resource.StageStack && resource.Rank(a.Stage) <= resource.Rank(stage)
	}
	var hosts []planner.HostPlan
	ctx, cancel := context.WithTimeout(ctx, readPatience)
	defer cancel()
	for range 6 {
		hosts = slices.DeleteFunc(s.compare(ctx).Hosts, func(h planner.HostPlan) bool { _, covered := changed[h.Name]; return !covered })
		if !slices.ContainsFunc(hosts, func(h planner.HostPlan) bool {
			return h.Unreachable != "" || len(h.Problems) > 0 || changed[h.Name] && slices.ContainsFunc(h.Actions, due)
		}) {
			return nil
		}
		if retry.Pause(ctx, convergeEvery) != nil {
			break
		}
	}
	var unread error
	for _, h := range hosts {
		for _, p := range h.Problems {
			unread = cmp.Or(unread, fmt.Errorf("%s: %s", p.Addr, p.Message))
		}
		if h.Unreachable != "" {
			unread = cmp.Or(unread, fmt.Errorf("host %s: %s", h.Name, h.Unreachable))
		}
		for _, act := range h.Actions {
			if changed[h.Name] && due(act) {
				return fmt.Errorf("the changes were made, but did not stay: %s: %s. Another program on %s may manage this device",
					act.Resource.Addr, act.Changes[0], h.Name)
			}
		}
	}
	return fmt.Errorf("the changes were made, but not all hosts could be read again: %w", unread)
}

// baseline measures what works before the changes, on the paths that the plan affects. So the gate can
// distinguish what the changes broke from what never worked; the later checks report that.
func (r *run) baseline(ctx context.Context) []validators.Result {
	touched := map[fabric.NICRef]bool{}
	for _, h := range r.p.Hosts {
		for _, a := range h.Actions {
			if kind, ok := r.s.Options.Resources.Kinds.Lookup(a.Resource.Addr.Kind); ok && kind.NIC {
				touched[fabric.NICRef{Host: h.Name, NIC: a.Resource.Addr.Name}] = true
			}
		}
	}
	seen := r.s.Facts()
	// A path without carrier at one end cannot break, and a path that the files take down is meant
	// to break.
	lit := func(ref fabric.NICRef) bool {
		h, snap := r.s.Fabric.Host(ref.Host), seen[ref.Host]
		if h == nil || snap == nil || h.NIC(ref.NIC) == nil || !h.NIC(ref.NIC).Up {
			return false
		}
		l := nccl.Netdev(snap, h.NIC(ref.NIC))
		return l != nil && l.Carrier
	}
	where := func(p fabric.Path) bool {
		if r.pending[p.Endpoints[0].Host] || r.pending[p.Endpoints[1].Host] {
			return false
		}
		return (touched[p.Endpoints[0]] || touched[p.Endpoints[1]]) && lit(p.Endpoints[0]) && lit(p.Endpoints[1])
	}
	if r.s.Options.Destroy || !slices.ContainsFunc(r.s.Fabric.Paths(), where) {
		return nil
	}
	pass, _ := r.passing(ctx, where)
	return pass
}

// passing returns the carrier and ping checks that pass, and why hosts could not be measured.
func (r *run) passing(ctx context.Context, where func(fabric.Path) bool) (pass, unmeasured []validators.Result) {
	for _, v := range validators.Run(ctx, r.s.Fabric, r.s.Fleet,
		validators.Options{Only: []validators.Check{validators.CheckLink, validators.CheckPing}, Where: where, Reach: true, Lab: r.s.Options.Lab != nil,
			Unreachable: r.s.unmeasurable(), Excluded: r.s.Excluded}) {
		switch {
		case v.Verdict == validators.Pass && (v.Item == validators.Carrier || v.Item == validators.SmallPing):
			pass = append(pass, v)
		case v.Unmeasured || v.Skipped == validators.HostUnreachable:
			unmeasured = append(unmeasured, v)
		}
	}
	return pass, unmeasured
}

// checkRegression returns an error if a check that passed before the changes no longer passes. It retries,
// because links take time to come up again.
func (r *run) checkRegression(ctx context.Context, before []validators.Result) error {
	if len(before) == 0 {
		return nil
	}
	paths := map[validators.Subject]bool{}
	for _, v := range before {
		paths[v.Subject] = true
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	var broken, unknown []string
	for range 4 {
		pass, unmeasured := r.passing(ctx, func(p fabric.Path) bool { return paths[validators.OnPath(p)] })
		broken, unknown = nil, nil
		for _, v := range before {
			same := func(now validators.Result) bool { return now.Key() == v.Key() }
			// A skipped check has one result for its whole path.
			blind := func(now validators.Result) bool {
				return now.Subject == v.Subject && now.Check == v.Check && (now.Item == "" || same(now))
			}
			if slices.ContainsFunc(pass, same) {
				continue
			}
			if i := slices.IndexFunc(unmeasured, blind); i >= 0 {
				unknown = append(unknown, fmt.Sprintf("%s (%s)", v.Key(), unmeasured[i].Cause))
			} else {
				broken = append(broken, v.Key().String())
			}
		}
		if len(broken)+len(unknown) == 0 {
			return nil
		}
		if retry.Pause(ctx, time.Second) != nil {
			break
		}
	}
	if len(broken) > 0 {
		return fmt.Errorf("the changes broke checks that passed before: %s", strings.Join(broken, "; "))
	}
	return fmt.Errorf("checks that passed before the changes could not be made again: %s", strings.Join(unknown, "; "))
}
