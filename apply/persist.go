package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// persistSteps returns a host's actions of the persist stage, which the host stores.
func persistSteps(of string, secrets fabric.Secrets, h planner.HostPlan) []calls.TxStep {
	var out []calls.TxStep
	for _, a := range h.Actions {
		if a.Stage == resource.StagePersist {
			out = append(out, step(of, secrets, h, a))
		}
	}
	return out
}

// Persist writes the persistent configuration on all hosts and records the results in outcomes, unless
// outcomes is nil. On a host whose walk stopped half-way it writes nothing.
func (c *coordinator) Persist(ctx context.Context, outcomes []HostOutcome) error {
	var mu sync.Mutex
	return eachHost(c.Hosts(), func(host string) error {
		i := slices.IndexFunc(outcomes, func(o HostOutcome) bool { return o.Host == host })
		p := calls.TxPersist{TxRef: c.refs[host].ref, Partial: i >= 0 && !outcomes[i].walked()}
		r, err := txStep(ctx, c, calls.Persist, host, p)
		if err == nil {
			err = r.Shows(p.TxRef, checkpoint.Prepared, checkpoint.Persisting)
		}
		if err != nil {
			return err
		}
		if r.Failed != nil && r.Failed.Stuck {
			c.giveUp(host)
		}
		if i >= 0 && !p.Partial {
			mu.Lock()
			defer mu.Unlock()
			outcomes[i].recordPersisted(r)
		}
		if r.Failed != nil {
			r.Failed.Message = c.fleet.invocation.Fill(r.Failed.Message)
			return fmt.Errorf("write the persistent configuration: %w", r.Failed)
		}
		return nil
	})
}

// walked reports whether the whole runtime stage was done.
func (h HostOutcome) walked() bool {
	return !slices.ContainsFunc(h.Outcomes, func(o Outcome) bool { return o.Action.Stage != resource.StagePersist && !o.Done })
}

// recordPersisted adds the host's results to its outcomes; both are in the order of its actions.
func (h *HostOutcome) recordPersisted(r calls.TxPersisted) {
	for i := range h.Outcomes {
		o := &h.Outcomes[i]
		switch {
		case o.Action.Stage != resource.StagePersist:
		case len(r.Done) > 0:
			o.Done, o.Also, r.Done = true, r.Done[0].Also, r.Done[1:]
		case r.Failed != nil:
			o.Err, o.Failed = r.Failed, r.Failed.Message
			return
		}
	}
}

// FinishInterrupted makes all hosts finish transactions that a reset interrupted, unless askFirst did, and returns these by
// host. A host that does not answer in time counts as unreachable. asking is for the first Read after it.
func (f *Fleet) FinishInterrupted(ctx context.Context, asking bool) (map[string]calls.TxInfo, error) {
	out := map[string]calls.TxInfo{}
	var mu sync.Mutex
	err := eachHost(f.Hosts(), func(host string) error {
		a := f.askFirst(ctx, host, asking)
		if a.finishing == nil && a.finished.Ended != nil {
			mu.Lock()
			defer mu.Unlock()
			out[host] = *a.finished.Ended
		}
		if isLate(a.finishing) {
			return nil
		}
		return a.finishing
	})
	return out, err
}
