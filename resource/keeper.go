package resource

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/fabricform/fabricform/host"
)

// Keeper can restore exactly what the providers of a room change. It keeps raw kernel objects, including
// foreign ones on the same devices, because one change can remove others (an MTU below 1280 removes IPv6, a
// bounced link empties tables).
type Keeper interface {
	// Room names the keeper's part of a backup.
	Room() string
	// Save reads everything that changes of the atoms can affect. It changes nothing.
	Save(ctx context.Context, r host.Reader, atoms []Atom) (json.RawMessage, error)
	// Restore restores what Save read and nothing else; it may be repeated. It continues after a step that
	// fails, then reads again and returns one line for each remaining difference. No line and no error mean
	// that the host is as it was, except for lifetimes and counters. The error joins the failed steps.
	Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error)
}

// Kept is an optional interface of providers whose changes can be restored exactly. Providers of one room
// share a keeper.
type Kept interface {
	Keeper() Keeper
}

// Keepers groups atoms by their keepers, in the order of the kinds. An atom without a keeper is an error: a
// transaction must not change it.
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
			return nil, nil, fmt.Errorf("%q: a change of kind %s cannot be restored exactly", a, a.Kind())
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
