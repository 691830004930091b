// Package kindtest is the conformance test of kinds. Each kind runs it against its host: a kernel in a
// namespace of its own, or a fake.
package kindtest

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Case is one wanted thing, and a host that differs from it.
type Case struct {
	Kinds resource.Kinds // the package of the kind
	Kind  string
	Host  host.Host
	Spec  any
	// There says that the thing exists before the change, such as a NIC, or a file that is replaced.
	There bool
	// Equal says whether the host is as it was at the beginning; nil if comparing the difference is enough.
	Equal func() bool
}

// Conform expects of a kind:
//   - the spec survives JSON, by which it travels to the host;
//   - Exists says whether the thing is absent;
//   - after the changes there is no difference, so no change is made twice;
//   - after an undo nothing is left: the difference is the first one again;
//   - after a snapshot, a change and a restore, the host is equal to the snapshot.
//
// At the end the host is as it was at the beginning, unless the kind can neither undo nor restore.
func Conform(t *testing.T, c Case) {
	t.Helper()
	want := resource.New("host", c.Kind, "it", fabric.Pos{}, c.Spec)
	Travels(t, c.Spec)
	kind, ok := c.Kinds.Lookup(c.Kind)
	if !ok {
		t.Fatalf("no kind %q", c.Kind)
	}
	first := c.plan(t, kind, want)
	if len(first.Changes) == 0 || first.Exists != c.There {
		t.Fatalf("before the change: exists %v, changes %v", first.Exists, first.Changes)
	}
	atoms := make([]resource.Atom, 0, len(first.Changes))
	for _, change := range first.Changes {
		if change.Stage != kind.Stage {
			t.Errorf("%s has stage %q, its kind has stage %q", change, change.Stage, kind.Stage)
		}
		if change.Atom != "" {
			atoms = append(atoms, change.Atom)
		}
	}
	if kind.Undo != nil {
		c.apply(t, kind, want, first)
		c.undo(t, kind, want, first)
		c.expect(t, kind, want, first, "undone")
	}
	if kind.Restorer != nil && len(atoms) > 0 {
		part, err := kind.Restorer.Save(t.Context(), c.Host, atoms)
		if err != nil {
			t.Fatalf("keep: %v", err)
		}
		c.apply(t, kind, want, first)
		c.compare(t, kind.Restorer, part, atoms)
		for _, round := range []string{"restored", "restored again"} {
			if left, err := kind.Restorer.Restore(t.Context(), c.Host, part); err != nil || len(left) > 0 {
				t.Errorf("%s: %v, still differs: %v", round, err, left)
			}
			c.expect(t, kind, want, first, round)
		}
	}
	if kind.Undo == nil && kind.Restorer == nil {
		c.apply(t, kind, want, first)
	}
}

// compare expects a restorer to see what the change did to its atoms, and to take it over item by item.
func (c Case) compare(t *testing.T, k resource.Restorer, part json.RawMessage, atoms []resource.Atom) {
	t.Helper()
	now, err := k.Again(t.Context(), c.Host, part)
	if err != nil {
		t.Fatalf("read again: %v", err)
	}
	was, is := states(t, k, part), states(t, k, now)
	differs, seen := map[string]bool{}, false
	for _, from := range []map[string]resource.Item{was, is} {
		for key, i := range from {
			a, before := was[key]
			b, after := is[key]
			if before != after || a.State != b.State {
				differs[key] = true
				seen = seen || i.Named(atoms)
			}
		}
	}
	if !seen {
		t.Errorf("the restorer sees no change of %v", atoms)
	}
	for _, keys := range []map[string]bool{{}, differs} {
		out, lost, err := k.Merge(part, now, keys)
		if err != nil || len(lost) > 0 {
			t.Fatalf("take: %v, lost %q", err, lost)
		}
		want := was
		if len(keys) > 0 {
			want = is
		}
		got := states(t, k, out)
		for _, items := range []map[string]resource.Item{want, got} {
			for key := range items {
				if a, b := got[key], want[key]; a.State != b.State || a.Key != b.Key {
					t.Errorf("took %d items: %q is %q, wanted %q", len(keys), key, a.State, b.State)
				}
			}
		}
	}
}

func states(t *testing.T, k resource.Restorer, part json.RawMessage) map[string]resource.Item {
	t.Helper()
	list, err := k.Items(part)
	if err != nil {
		t.Fatalf("items: %v", err)
	}
	out := map[string]resource.Item{}
	for _, i := range list {
		if _, twice := out[i.Key]; twice {
			t.Errorf("two items have the key %q", i.Key)
		}
		out[i.Key] = i
	}
	return out
}

// Travels expects a spec to survive JSON.
func Travels(t *testing.T, spec any) {
	t.Helper()
	raw := resource.New("host", "kind", "it", fabric.Pos{}, spec).Spec
	again := reflect.New(reflect.TypeOf(spec))
	if err := json.Unmarshal(raw, again.Interface()); err != nil || !reflect.DeepEqual(again.Elem().Interface(), spec) {
		t.Errorf("the spec does not survive JSON: %+v became %+v (%v)", spec, again.Elem(), err)
	}
}

func (c Case) plan(t *testing.T, kind resource.Kind, want resource.Resource) resource.Difference {
	t.Helper()
	d, err := kind.Plan(c.gather(t, resource.Query{Resources: []resource.Resource{want}}), want.Spec)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (c Case) gather(t *testing.T, q resource.Query) *facts.Snapshot {
	t.Helper()
	snap, err := c.Kinds.Gather(t.Context(), c.Host, q)
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

// apply makes the changes and expects no difference afterwards.
func (c Case) apply(t *testing.T, kind resource.Kind, want resource.Resource, d resource.Difference) {
	t.Helper()
	if err := kind.Apply(context.Background(), c.Host, want.Spec, d.Changes); err != nil {
		t.Fatalf("apply %v: %v", d.Changes, err)
	}
	after := c.plan(t, kind, want)
	if len(after.Changes) > 0 || !after.Exists {
		t.Fatalf("after apply: exists %v, changes %v", after.Exists, after.Changes)
	}
	c.adopt(t, kind, want, d, after)
}

// adopt expects that a first apply would adopt every value that the changes have set, if the kind adopts at all, and that a plan which no
// longer declares these values finds them unchanged.
func (c Case) adopt(t *testing.T, kind resource.Kind, want resource.Resource, d, after resource.Difference) {
	t.Helper()
	if after.Present == nil {
		return
	}
	for _, change := range d.Changes {
		if change.Atom != "" && change.To != "" && after.Present[change.Atom] == "" {
			t.Errorf("%s was set to %q, and would not be adopted", change.Atom, change.To)
		}
	}
	for a, value := range after.Present {
		snap := c.gather(t, resource.Query{Atoms: []resource.Atom{a}, Resources: []resource.Resource{want}})
		if back, _, err := kind.Undo(snap, a, value); err != nil || value != "" && !kind.Claims(snap, want.Spec, a) || !(resource.Owned{Ours: value}).StillOurs(back.From) {
			t.Errorf("%s would be adopted as %q, and its undo finds %+v, %v", a, value, back, err)
		}
	}
}

// undo reverts the changes in the order of their atoms, as a plan does.
func (c Case) undo(t *testing.T, kind resource.Kind, want resource.Resource, d resource.Difference) {
	t.Helper()
	var record resource.Record
	record.Note(d.Changes)
	for _, a := range slices.Sorted(maps.Keys(record.Atoms)) {
		owned := record.Atoms[a]
		if snap := c.gather(t, resource.Query{Atoms: []resource.Atom{a}, Resources: []resource.Resource{want}}); !kind.Claims(snap,
			want.Spec, a) {
			t.Errorf("the wanted thing does not claim %s", a)
		}
		// The files may no longer declare the thing: the helper then reads for the atom alone.
		snap := c.gather(t, resource.Query{Atoms: []resource.Atom{a}})
		back, _, err := kind.Undo(snap, a, owned.Earlier)
		if err == nil && back.From == owned.Earlier {
			continue // restored together with another one
		}
		ours := owned.StillOurs(back.From) || kind.Between != nil && kind.Between(a, owned, back.From)
		if err != nil || !ours || back.To != owned.Earlier || back.Atom != a ||
			back.Stage != kind.UndoStage() || back.Attribute == "" {
			t.Errorf("record of %s: %+v; its undo: %+v, %v", a, owned, back, err)
		}
		if err := kind.ApplyUndo(t.Context(), c.Host, snap, a, owned.Earlier); err != nil {
			t.Fatalf("revert %s: %v", a, err)
		}
	}
}

// expect compares the host with the first difference.
func (c Case) expect(t *testing.T, kind resource.Kind, want resource.Resource, first resource.Difference, when string) {
	t.Helper()
	now := c.plan(t, kind, want)
	if now.Exists != first.Exists || !slices.Equal(now.Changes, first.Changes) {
		t.Errorf("%s: exists %v, changes %v, want %v", when, now.Exists, now.Changes, first.Changes)
	}
	if c.Equal != nil && !c.Equal() {
		t.Errorf("%s: the host is not as it was", when)
	}
}
