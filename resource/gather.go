package resource

import (
	"context"
	"encoding/json"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Look says what a kind must read for its part of a snapshot.
type Look[S any] struct {
	Snapshot *facts.Snapshot // holds the common facts; the kind adds its part
	Wants    []S
	Atoms    []Atom // of this kind, whose live values are wanted
	// Patient allows reads that may block for some seconds, such as a home directory on a file server. A
	// transaction never allows them: its rollback may need the network to that server.
	Patient bool
}

// Gatherer is a kind that needs more than the common facts of a snapshot. Gather reads what Observe needs for
// the wanted things and what Undo needs for the atoms, and nothing else: reading everything would be slower.
type Gatherer[S any] interface {
	Gather(ctx context.Context, r host.Reader, look Look[S]) error
}

// Parted is a Gatherer that stores its facts in a part of its own.
type Parted interface {
	Part() facts.AnyPart
}

// Gather reads a snapshot for wanted things of one kind.
func Gather[S any](ctx context.Context, r host.Reader, g Gatherer[S], wants ...S) (*facts.Snapshot, error) {
	snap, err := facts.Gather(ctx, r, facts.Connection{None: true})
	if err != nil {
		return nil, err
	}
	return snap, g.Gather(ctx, r, Look[S]{Snapshot: snap, Wants: wants})
}

// Query says what a snapshot must hold.
type Query struct {
	Connection facts.Connection // the operator's
	Resources  []Resource
	Atoms      []Atom
	Patient    bool // see Look
}

// Gather reads a snapshot with the parts of the kinds that the query names. It ignores resources of kinds
// that are not in the table; the planner refuses them.
func (k Kinds) Gather(ctx context.Context, r host.Reader, q Query) (*facts.Snapshot, error) {
	snap, err := facts.Gather(ctx, r, q.Connection)
	if err != nil {
		return nil, err
	}
	specs, atoms := map[string][]json.RawMessage{}, map[string][]Atom{}
	for _, want := range q.Resources {
		specs[want.Addr.Kind] = append(specs[want.Addr.Kind], want.Spec)
	}
	for _, a := range q.Atoms {
		atoms[a.Kind()] = append(atoms[a.Kind()], a)
	}
	for _, kind := range k {
		if s, a := specs[kind.Name], atoms[kind.Name]; kind.Gather != nil && len(s)+len(a) > 0 {
			if err := kind.Gather(ctx, r, snap, s, a, q.Patient); err != nil {
				return nil, err
			}
		}
	}
	return snap, nil
}
