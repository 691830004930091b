package apply

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// persistSteps are a host's actions of the persist stage, which the host keeps.
func persistSteps(fabric string, h planner.HostPlan) []calls.TxStep {
	var out []calls.TxStep
	for _, a := range h.Actions {
		if a.Stage == resource.StagePersist {
			out = append(out, step(fabric, h, a))
		}
	}
	return out
}

// Persist writes on all hosts what lasts, and enters into the outcomes of the walk how that ended;
// nil: nobody asks. A host whose walk stopped half-way keeps what runs, and nothing is written there.
func (t *transaction) Persist(ctx context.Context, outcomes []HostOutcome) error {
	var mu sync.Mutex
	return eachHost(t.Hosts(), func(host string) error {
		i := slices.IndexFunc(outcomes, func(o HostOutcome) bool { return o.Host == host })
		p := calls.TxPersist{TxRef: t.refs[host].ref, Partial: i >= 0 && !outcomes[i].walked()}
		r, err := calls.Persist.Call(ctx, t.fleet, host, p)
		if err != nil {
			return err
		}
		if i >= 0 && !p.Partial {
			mu.Lock()
			defer mu.Unlock()
			outcomes[i].persisted(r)
		}
		if r.Failed != nil {
			return fmt.Errorf("write what lasts over a reboot: %w", r.Failed)
		}
		return nil
	})
}

// walked says whether the whole runtime stage was made.
func (h HostOutcome) walked() bool {
	return !slices.ContainsFunc(h.Outcomes, func(o Outcome) bool { return o.Action.Stage == resource.StageRuntime && !o.Done })
}

// persisted enters the host's answers, which come in the order of its actions.
func (h *HostOutcome) persisted(r calls.TxPersisted) {
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

// Settle has all hosts end what a reset left, and says by host what was ended so.
func (f *Fleet) Settle(ctx context.Context) (map[string]calls.TxInfo, error) {
	out := map[string]calls.TxInfo{}
	var mu sync.Mutex
	err := eachHost(f.Hosts(), func(host string) error {
		r, err := calls.Settle.Call(ctx, f, host, struct{}{})
		if err == nil && r.Ended != nil {
			mu.Lock()
			defer mu.Unlock()
			out[host] = *r.Ended
		}
		return err
	})
	return out, err
}
