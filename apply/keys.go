package apply

import (
	"context"
	"errors"

	"github.com/fabricform/fabricform/resource"
)

// keysOf names the transaction in which a plan's keys are made.
func keysOf(plan string) string { return plan + "-keys" }

// makeKeys makes the plan's keys in a transaction of their own, which is committed at once, and then plans the rest again,
// because it is derived from the keys. The rest of a saved plan stays as saved: it contains nothing that is derived from
// these keys.
func (r *run) makeKeys(ctx context.Context) (Ending, error) {
	if !r.p.Has(resource.StageKeys) {
		return Done, nil
	}
	shown := r.p.Without(resource.StageKeys)
	of := *r
	of.p, of.id, of.keying, of.report = r.p.Only(resource.StageKeys), keysOf(r.id), true, new(Report)
	*of.report = *r.report
	r.e.Progress("%s", "making keys")
	ending, err := of.change(ctx)
	r.keys = of.report.Outcomes
	if ending != Done || err != nil {
		return ending, errors.Join(r.ofTheRest(err), errors.New("not all keys were made; the rest of the plan was not applied"))
	}
	if r.s.saved != nil {
		r.s.keysOnly = true
		r.p = shown
		for _, n := range shown.Notes() {
			r.e.Note("%s", n)
		}
		r.e.Note("The keys are made. What is derived from them is not part of the saved plan: run %s.",
			r.s.Options.Invocation.Hint("apply"))
		return Done, nil
	}
	return r.replan(ctx, shown, "keys are made")
}
