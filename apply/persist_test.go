package apply

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// scripted is a fleet of one host whose helper answers by a script, and notes what it was asked.
func scripted(t *testing.T, handlers map[string]agent.Handler) (*coordinator, func() []string) {
	t.Helper()
	var mu sync.Mutex
	var asked []string
	noted := map[string]agent.Handler{}
	for method, h := range handlers {
		noted[method] = func(ctx context.Context, p json.RawMessage) (any, error) {
			mu.Lock()
			asked = append(asked, method)
			mu.Unlock()
			return h(ctx, p)
		}
	}
	near, far := net.Pipe()
	t.Cleanup(func() { near.Close(); far.Close() })
	go func() { _ = agent.Serve(context.Background(), far, far, "b", noted) }() // ends with the pipe
	c, err := agent.Connect(t.Context(), near, "b", 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	f := newFleet(nil, "b", nil)
	f.adopt("h", c)
	tx := newCoordinator(f, txOptions{Fabric: "f"})
	tx.refs["h"] = &lockedRef{ref: calls.TxRef{ID: "1"}}
	return tx, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return asked
	}
}

func action(name, stage string) planner.Action {
	return planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: "h", Kind: "k", Name: name}}, Op: planner.Update, Stage: stage}
}

// outcome is what an outcome came to, on one line.
func outcome(o Outcome) string {
	s := o.Action.Resource.Addr.Name
	switch {
	case o.Done:
		s += " done"
	case o.Err != nil:
		s += " failed: " + o.Failed
	}
	for _, c := range o.Also {
		s += ", also " + c.Attribute
	}
	return s
}

func lines(h HostOutcome) (out []string) {
	for _, o := range h.Outcomes {
		out = append(out, outcome(o))
	}
	return out
}

var plan = &planner.Plan{Hosts: []planner.HostPlan{{Name: "h", Actions: []planner.Action{
	action("nic", resource.StageRuntime), action("route", resource.StageRuntime), action("files", resource.StagePersist), action("units", resource.StagePersist),
}}}}

func TestStagesAreMadeOneAfterTheOther(t *testing.T) {
	tx, asked := scripted(t, map[string]agent.Handler{
		"act": func(context.Context, json.RawMessage) (any, error) { return calls.ActResult{}, nil },
		"tx.persist": func(_ context.Context, raw json.RawMessage) (any, error) {
			if strings.Contains(string(raw), "partial") {
				t.Errorf("asked with %s", raw)
			}
			return calls.TxPersisted{TxInfo: calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, State: checkpoint.Persisting}, Done: []calls.ActResult{{Also: []resource.Change{{Attribute: "folder"}}}}, Failed: &agent.Error{Message: "no space"}}, nil
		},
	})
	outcomes := tx.Walk(t.Context(), plan, false, nil)
	if d := cmp.Diff([]string{"nic done", "route done", "files", "units"}, lines(outcomes[0])); d != "" {
		t.Errorf("after the runtime stage:\n%s", d)
	}
	if err := tx.Persist(t.Context(), outcomes); err == nil || !strings.Contains(err.Error(), "host h: write the persistent configuration: no space") {
		t.Errorf("got %v", err)
	}
	if d := cmp.Diff([]string{"nic done", "route done", "files done, also folder", "units failed: no space"}, lines(outcomes[0])); d != "" {
		t.Errorf("after the persist stage:\n%s", d)
	}
	if d := cmp.Diff([]string{"act", "act", "tx.persist"}, asked()); d != "" {
		t.Error(d)
	}
}

// A walk that was stopped half-way keeps what runs, and writes nothing: files describe the whole.
func TestAHalfWalkPersistsNothing(t *testing.T) {
	partial := false
	tx, _ := scripted(t, map[string]agent.Handler{
		"act": func(_ context.Context, raw json.RawMessage) (any, error) {
			if strings.Contains(string(raw), `"route"`) {
				return nil, &agent.Error{Message: "no route to host"}
			}
			return calls.ActResult{}, nil
		},
		"tx.persist": func(_ context.Context, raw json.RawMessage) (any, error) {
			partial = strings.Contains(string(raw), `"partial":true`)
			return calls.TxPersisted{TxInfo: calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, State: checkpoint.Persisting}}, nil
		},
	})
	outcomes := tx.Walk(t.Context(), plan, false, nil)
	if err := tx.Persist(t.Context(), outcomes); err != nil || !partial {
		t.Errorf("partial %v, %v", partial, err)
	}
	if d := cmp.Diff([]string{"nic done", "route failed: no route to host", "files", "units"}, lines(outcomes[0])); d != "" {
		t.Error(d)
	}
}

// TestHomesAreReadOnlyBeforeAnythingChanges: a transaction must not wait for a file server that the
// fabric leads to.
func TestHomesAreReadOnlyBeforeAnythingChanges(t *testing.T) {
	var asked []bool
	tx, _ := scripted(t, map[string]agent.Handler{"snapshot": func(_ context.Context, raw json.RawMessage) (any, error) {
		var p calls.SnapshotParams
		err := json.Unmarshal(raw, &p)
		asked = append(asked, p.Ask)
		return calls.SnapshotResult{Snapshot: &facts.Snapshot{Links: []host.Link{{Name: "lo"}}}}, err
	}})
	for _, asking := range []bool{true, false} {
		if _, err := tx.fleet.Read(t.Context(), "h", asking); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(asked, []bool{true, false}) {
		t.Error(asked)
	}
}

// TestAHostKnowsWhatAChangeLeaves: the record forgets what was adopted, and the transaction does not change it.
func TestAHostKnowsWhatAChangeLeaves(t *testing.T) {
	removed := action("b0", resource.StageRuntime)
	removed.Op, removed.Changes = planner.Undo, []resource.Change{{Atom: "bond b0 device", From: "bond"}, {Attribute: "mtu"}}
	left := action("b1", resource.StageRuntime)
	left.Op, left.Forget = planner.Undo, []resource.Atom{"bond b1 device", "bond b1 member eth1"}
	order := txOrders(&planner.Plan{Hosts: []planner.HostPlan{{Name: "h", Actions: []planner.Action{removed, left}}}}, txOptions{Fabric: "f"})["h"]
	if !slices.Equal(order.Atoms, []resource.Atom{"bond b0 device", "bond b1 device", "bond b1 member eth1"}) || !slices.Equal(order.Stays, left.Forget) {
		t.Errorf("%v, of which stay %v", order.Atoms, order.Stays)
	}
}
