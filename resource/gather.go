package resource

import (
	"context"
	"encoding/json"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Look is what a kind reads its part of a snapshot for.
type Look[S any] struct {
	Snapshot *facts.Snapshot // holds what every snapshot does; the kind adds its part
	Wants    []S
	Atoms    []Atom // of this kind, whose live values are asked for
	// Patient allows to read what may not answer for some seconds, such as a home on a file server. What a
	// transaction reads is never patient: its way back may lead over that server's network.
	Patient bool
}

// Gatherer is a kind that looks at more than every snapshot holds. Gather reads what Observe looks at for
// the wanted things, and what Live looks at for the atoms. It reads nothing else: reading all costs more.
type Gatherer[S any] interface {
	Gather(ctx context.Context, r host.Reader, look Look[S]) error
}

// Parted is a Gatherer that puts what it reads into a part of its own.
type Parted interface {
	Part() facts.AnyPart
}

// Gather reads a snapshot for wanted things of one kind.
func Gather[S any](ctx context.Context, r host.Reader, g Gatherer[S], wants ...S) (*facts.Snapshot, error) {
	snap, err := facts.Gather(ctx, r, "")
	if err != nil {
		return nil, err
	}
	return snap, g.Gather(ctx, r, Look[S]{Snapshot: snap, Wants: wants})
}

// Query is what a snapshot is read for.
type Query struct {
	SSHConnection string // SSH_CONNECTION of the operator's login; "": there is none
	Resources     []Resource
	Atoms         []Atom
	Patient       bool // see Look
}

// Gather reads a snapshot with the parts of the kinds that have something to look at. A resource of a kind
// that is not in the table is left to the planner, which refuses it.
func (k Kinds) Gather(ctx context.Context, r host.Reader, q Query) (*facts.Snapshot, error) {
	snap, err := facts.Gather(ctx, r, q.SSHConnection)
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
