package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
)

func (y *toys) made() string { return y.hosts["a"].key + y.hosts["b"].key }

// TestKeysComeFirst: they are made and committed in a transaction of their own, what is derived from them is shown and
// asked for, and a rollback takes both away.
func TestKeysComeFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.keys = true
		r := y.run(t.Context(), Options{})
		if r.Ending != Done || r.Err != nil || y.made() != "kakb" || y.values() != "kakbkakb" {
			t.Fatalf("ending %d, %v, keys %q, values %q", r.Ending, r.Err, y.made(), y.values())
		}
		stage := []string{"tx.ready", "tx.open", "act", "tx.prepare", "tx.persist", "tx.commit", "enrol"}
		if d := cmp.Diff(slices.Concat([]string{"tx.finish"}, stage, stage), y.hosts["a"].asked); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"plan: 2", "asked for 2", "note: The keys are made. The rest of the plan:", "plan: 2", "asked for 2", "walk: a committed", "walk: b committed",
			"note: Live checks skipped (-no-verify): nothing was verified."}, y.heard.lines); d != "" {
			t.Error(d)
		}
		if h := r.Outcomes; len(h) != 2 || len(h[0].Outcomes) != 2 || h[0].Outcomes[0].Action.Resource.Addr.Kind != "key" || !h[0].Outcomes[1].Done {
			t.Errorf("%+v", h)
		}
		if r := y.run(t.Context(), Options{}); r.Ending != Done || r.Plan.Changes() != 0 {
			t.Errorf("again: ending %d, %d changes", r.Ending, r.Plan.Changes())
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || r.Err != nil || y.made() != "" || y.values() != "11" {
			t.Errorf("rolled back: ending %d, %v, keys %q, values %s", r.Ending, r.Err, y.made(), y.values())
		}
	})
}

// TestKeysGoWithTheirPlan: host c, which has none of them, committed something between the keys and what is derived from them.
func TestKeysGoWithTheirPlan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.keys = true
		if r := y.run(t.Context(), Options{}); r.Ending != Done || y.made() != "kakb" || y.values() != "kakbkakb" {
			t.Fatalf("ending %d, %v, keys %q, values %q", r.Ending, r.Err, y.made(), y.values())
		}
		y.add("c")
		y.hosts["c"].tx = calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Fabric: "f", Plan: "another", State: checkpoint.Committed, Since: time.Now().Add(time.Second)}
		for _, name := range []string{"a", "b"} {
			y.hosts[name].tx.Since = time.Now().Add(2 * time.Second)
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || r.Err != nil || y.made() != "" || fatesOf(r) != "a reverted, b reverted" {
			t.Errorf("ending %d, %v, keys %q, fates %q", r.Ending, r.Err, y.made(), fatesOf(r))
		}
	})
}

// TestASavedPlanCoversTheKeysOnly: what is derived from them was not shown.
func TestASavedPlanCoversTheKeysOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.keys = true
		r := y.runSaved(t.Context(), y.save(t.Context(), nil))
		if r.Ending != Done || r.Err != nil || y.made() != "kakb" || y.values() != "11" {
			t.Errorf("ending %d, %v, keys %q, values %s", r.Ending, r.Err, y.made(), y.values())
		}
		if !slices.ContainsFunc(y.heard.lines, func(l string) bool {
			return strings.Contains(l, "is not part of the saved plan: run `fabricform apply")
		}) {
			t.Errorf("%q", y.heard.lines)
		}
		if r := y.run(t.Context(), Options{}); r.Ending != Done || y.values() != "kakbkakb" {
			t.Errorf("the next apply: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestWithoutAllKeysNothingElseIsChanged: all keys are rolled back together, and refusing the rest does not hide the
// keys.
func TestWithoutAllKeysNothingElseIsChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.keys = true
		y.hosts["b"].fails["act"] = errors.New("the home is full")
		r := y.run(t.Context(), Options{Manual: true})
		if r.Ending != RolledBack || r.Err == nil || !strings.Contains(r.Err.Error(), "not all keys were made; the rest of the plan was not applied") || y.made() != "" || y.values() != "11" {
			t.Errorf("ending %d, %v, keys %q, values %s", r.Ending, r.Err, y.made(), y.values())
		}
	})
}

// TestAFailureOfTheKeysDoesNotHideTheStacks: "nothing was changed" is true of the rest only.
func TestAFailureOfTheKeysDoesNotHideTheStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.stacks, y.keys, y.fabric.Links = true, true, nil
		y.hosts["b"].fails["tx.open"] = errors.New("the disk is full")
		r := y.run(t.Context(), Options{})
		const want = "the driver stacks are installed as declared; for the rest of the plan: nothing was changed on any host: "
		if r.Err == nil || !strings.HasPrefix(r.Err.Error(), want) || !strings.HasSuffix(r.Err.Error(), "\nnot all keys were made; the rest of the plan was not applied") || y.made() != "" {
			t.Errorf("ending %d, %v, keys %q", r.Ending, r.Err, y.made())
		}
	})
}
