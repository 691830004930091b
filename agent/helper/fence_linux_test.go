package helper

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// TestTheHelperLooksAgainBeforeItActsAndUndoes: the plan may be old, and its client wrong. The helper itself refuses
// changes to the operator's own path that the plan did not show, changes of values that have moved, and changes
// without an open transaction.
func TestTheHelperLooksAgainBeforeItActsAndUndoes(t *testing.T) {
	x := newStage(t)
	if _, err := x.store.Persist(x.tx.ID, x.tx.Token); err != nil {
		t.Fatal(err)
	}
	live, touches, unknown, done := "1", "", "", 0
	change := func(to string) resource.Change { return resource.NewAtom("set", "it").Change(live, to) }
	x.kinds = resource.Kinds{{Name: "set",
		Gather: func(_ context.Context, _ host.Reader, snap *facts.Snapshot, _ []json.RawMessage, _ []resource.Atom, _ bool) error {
			snap.Management.Unknown = unknown
			return nil
		},
		Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
			return resource.Difference{Exists: true, Changes: []resource.Change{change("2")}, Touches: touches}, nil
		},
		Apply: func(context.Context, host.Host, json.RawMessage, []resource.Change) error { done++; return nil },
		Undo: func(_ *facts.Snapshot, _ resource.Atom, to string) (resource.Change, string, error) {
			return change(to), touches, nil
		},
		ApplyUndo: func(context.Context, host.Host, *facts.Snapshot, resource.Atom, string) error { done++; return nil },
	}}
	shown := change("2")
	act := func(tx calls.TxRef, management bool) error {
		_, err := x.act(t.Context(), calls.ActParams{Fabric: "f", Tx: tx, Management: management, Changes: []resource.Change{shown}, Resource: resource.Resource{Addr: resource.Addr{Kind: "set"}}})
		return err
	}
	undo := func(tx calls.TxRef, management bool) error {
		_, err := x.undo(t.Context(), calls.UndoParams{Fabric: "f", Tx: tx, Management: management, Changes: []resource.Change{shown}})
		return err
	}
	for name, do := range map[string]func(calls.TxRef, bool) error{"act": act, "undo": undo} {
		for _, c := range []struct {
			name, live, touches, unknown string
			tx                           calls.TxRef
			management                   bool
			refused                      string // "": it is done
		}{
			{name: "as shown", live: "1", tx: x.tx},
			{name: "it moved", live: "7", tx: x.tx, refused: "changed since the plan was made"},
			{name: "no transaction", live: "1", refused: "transaction"},
			{name: "another's transaction", live: "1", tx: calls.TxRef{ID: x.tx.ID, Token: "guessed"}, refused: "another client"},
			{name: "the operator's own path", live: "1", touches: "your own path", tx: x.tx, refused: "your own path"},
			{name: "that path, and it is allowed", live: "1", touches: "your own path", tx: x.tx, management: true},
			{name: "that path is not known", live: "1", touches: "your own path", unknown: "no route", tx: x.tx, refused: "your own path"},
			{name: "that path is not known, and it is allowed", live: "1", touches: "your own path", unknown: "no route", tx: x.tx, management: true},
		} {
			live, touches, unknown, done = c.live, c.touches, c.unknown, 0
			err := do(c.tx, c.management)
			if c.refused == "" && (err != nil || done != 1) || c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || done != 0) {
				t.Errorf("%s, %s: %v, done %d times", name, c.name, err, done)
			}
		}
	}
	live, touches, unknown, done = shown.To, "", "", 0 // the undo of another value has restored this one, too
	if err := undo(x.tx, false); err != nil || done != 0 {
		t.Errorf("it is as wanted: %v, done %d times", err, done)
	}
	live, x.kinds[0].Between = "7", func(_ resource.Atom, _ resource.Owned, live string) bool { return live == "7" } // it has changed this one
	if err := undo(x.tx, false); err != nil || done != 1 {
		t.Errorf("it is between the earlier value and ours: %v, done %d times", err, done)
	}
}

// TestAtomsAreRemovedTogether if their kind asks for it: those that are there, and none that has moved.
func TestAtomsAreRemovedTogether(t *testing.T) {
	x := newStage(t)
	if _, err := x.store.Persist(x.tx.ID, x.tx.Token); err != nil {
		t.Fatal(err)
	}
	live := map[string]string{}
	var said []string
	atom := func(name string) resource.Atom { return resource.NewAtom("set", name) }
	x.kinds = resource.Kinds{{Name: "set",
		Gather: func(context.Context, host.Reader, *facts.Snapshot, []json.RawMessage, []resource.Atom, bool) error {
			return nil
		},
		Undo: func(_ *facts.Snapshot, a resource.Atom, to string) (resource.Change, string, error) {
			return a.Change(live[a.Thing()], to), "", nil
		},
		ApplyUndo: func(_ context.Context, _ host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
			said, live[a.Thing()] = append(said, "set "+a.Thing()), to
			return nil
		},
		ApplyUndos: func(_ context.Context, _ host.Host, _ *facts.Snapshot, atoms []resource.Atom) error {
			line := "remove"
			for _, a := range atoms {
				line += " " + a.Thing()
				live[a.Thing()] = ""
			}
			said = append(said, line)
			return nil
		},
	}}
	undo := func() error {
		said = nil
		changes := []resource.Change{atom("a").Change("1", ""), atom("b").Change("1", "0"), atom("c").Change("1", ""), atom("d").Change("1", "")}
		_, err := x.undo(t.Context(), calls.UndoParams{Fabric: "f", Tx: x.tx, Changes: changes})
		return err
	}
	live = map[string]string{"a": "1", "b": "1", "d": "1"}
	if err := undo(); err != nil || strings.Join(said, ", ") != "remove a d, set b" {
		t.Errorf("%v: %q", err, said)
	}
	live = map[string]string{"a": "1", "b": "1", "c": "7", "d": "1"}
	if err := undo(); err == nil || !strings.Contains(err.Error(), "set c changed since the plan was made") || len(said) > 0 {
		t.Errorf("%v: %q", err, said)
	}
}

// TestTheRecordHasOnlyWhatThisHostMade: of two hosts that share a home, one makes the key. The other one must not remove it later.
func TestTheRecordHasOnlyWhatThisHostMade(t *testing.T) {
	x := newStage(t)
	if _, err := x.store.Persist(x.tx.ID, x.tx.Token); err != nil {
		t.Fatal(err)
	}
	change := resource.NewAtom("made", "it").Change("", "made")
	var made error
	x.kinds = resource.Kinds{{Name: "made",
		Gather: func(context.Context, host.Reader, *facts.Snapshot, []json.RawMessage, []resource.Atom, bool) error {
			return nil
		},
		Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
			return resource.Difference{Changes: []resource.Change{change}}, nil
		},
		Apply: func(context.Context, host.Host, json.RawMessage, []resource.Change) error { return made },
	}}
	for _, made = range []error{resource.ErrMadeElsewhere, nil} {
		got, err := x.act(t.Context(), calls.ActParams{Fabric: "f", Tx: x.tx, Changes: []resource.Change{change}, Resource: resource.Resource{Addr: resource.Addr{Kind: "made"}}})
		r, err2 := x.record(t.Context(), "f")
		if _, owned := r.Atoms[change.Atom]; err != nil || err2 != nil || owned != (made == nil) || len(got.Changes) > 0 != (made == nil) {
			t.Errorf("%v: %v %v %+v, the record has it: %v", made, err, err2, got, owned)
		}
	}
}

// TestWhatOthersAddedIsNotRecorded: an undo restores what was there before the first apply, and an address that drift brought later was not.
func TestWhatOthersAddedIsNotRecorded(t *testing.T) {
	x := newStage(t)
	if _, err := x.store.Persist(x.tx.ID, x.tx.Token); err != nil {
		t.Fatal(err)
	}
	added, first, value := resource.Change{Attribute: "address", From: "10.9.9.9/24", Atom: "made it address 10.9.9.9/24"},
		resource.Change{Attribute: "address", From: "10.0.0.7/24", Atom: "made it address 10.0.0.7/24"}, resource.Change{Attribute: "mtu", From: "1400", To: "9000", Atom: "made it mtu"}
	x.kinds = resource.Kinds{{Name: "made",
		Gather: func(context.Context, host.Reader, *facts.Snapshot, []json.RawMessage, []resource.Atom, bool) error {
			return nil
		},
		Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
			return resource.Difference{Changes: []resource.Change{added, first, value}}, nil
		},
		Apply: func(_ context.Context, _ host.Host, _ json.RawMessage, changes []resource.Change) error {
			if len(changes) != 3 {
				t.Errorf("applied %v", changes)
			}
			return nil
		},
	}}
	planned := []resource.Change{added, first, value}
	planned[0].Drift, planned[2].Drift = true, true
	if _, err := x.act(t.Context(), calls.ActParams{Fabric: "f", Tx: x.tx, Changes: planned, Resource: resource.Resource{Addr: resource.Addr{Kind: "made"}}}); err != nil {
		t.Fatal(err)
	}
	r, err := x.record(t.Context(), "f")
	want := map[resource.Atom]resource.Owned{first.Atom: {Earlier: "10.0.0.7/24"}, value.Atom: {Earlier: "1400", Ours: "9000"}}
	if err != nil || !maps.Equal(r.Atoms, want) {
		t.Errorf("%v, %v", r.Atoms, err)
	}
}
