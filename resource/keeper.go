package resource

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fabricform/fabricform/host"
)

// Keeper knows the exact way back of what a room's providers change: raw kernel objects, foreign
// ones on the same devices included, because one change can take others along (an MTU below 1280
// wipes IPv6, a bounced link empties tables).
type Keeper interface {
	// Room names the keeper's part of a snapshot.
	Room() string
	// Snapshot reads all that changes of the atoms can reach. It changes nothing.
	Snapshot(ctx context.Context, r host.Reader, atoms []Atom) (json.RawMessage, error)
	// Restore brings back what Snapshot read and nothing else; it may be repeated. It goes on past a
	// step that fails, re-reads, and says on one line each what still differs: no line and no error
	// mean that the host is as it was, lifetimes and counters aside. The error tells what failed.
	Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error)
}

// Kept is an optional interface of providers whose changes can be undone exactly. Providers of one
// room share a keeper.
type Kept interface {
	Keeper() Keeper
}

// Keepers sorts atoms by the keepers that know their way back, in the order of the kinds. An atom
// that nobody can bring back is an error: it must not be changed under a transaction.
func (k Kinds) Keepers(atoms []Atom) ([]Keeper, map[string][]Atom, error) {
	var order []Keeper
	by := map[string][]Atom{}
	for _, kind := range k {
		for _, a := range atoms {
			if a.Kind() != kind.Name || kind.Keeper == nil {
				continue
			}
			room := kind.Keeper.Room()
			if by[room] == nil {
				order = append(order, kind.Keeper)
			}
			by[room] = append(by[room], a)
		}
	}
	for _, a := range atoms {
		if kind, ok := k.Lookup(a.Kind()); !ok || kind.Keeper == nil {
			return nil, nil, fmt.Errorf("%q: no exact way back is known of a %s", a, a.Kind())
		}
	}
	return order, by, nil
}

// KeeperOf finds the keeper of a room.
func (k Kinds) KeeperOf(room string) (Keeper, bool) {
	for _, kind := range k {
		if kind.Keeper != nil && kind.Keeper.Room() == room {
			return kind.Keeper, true
		}
	}
	return nil, false
}
