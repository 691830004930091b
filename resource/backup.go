package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host"
)

// Restorer can restore exactly what a provider changes, or several providers of a package together. It saves raw kernel objects, including
// foreign ones on the same devices, because one change can remove others (an MTU below 1280 removes IPv6, a
// bounced link empties tables).
type Restorer interface {
	// Name names the restorer's part of a backup.
	Name() string
	// Save reads everything that changes of the atoms can affect. It changes nothing.
	Save(ctx context.Context, r host.Reader, atoms []Atom) (json.RawMessage, error)
	// Restore restores what Save read and nothing else; it may be repeated. It continues after a step that
	// fails, then reads again and returns one line for each remaining difference. No line and no error mean
	// that the host is as it was, except for lifetimes and counters. The error joins the failed steps.
	Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error)
	// Again reads what an earlier part covers as it is now, in the same form. It changes nothing.
	Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error)
	// Items lists what a part holds. Items that are absent are left out.
	Items(part json.RawMessage) ([]Item, error)
	// Merge returns the part with the items of the given keys as now, which Again read, has them: changed, added or
	// absent. lost are the keys of added items that cannot exist beside the rest; the result leaves them out.
	Merge(part, now json.RawMessage, keys map[string]bool) (out json.RawMessage, lost []string, err error)
}

// Waker is an optional interface of restorers. Their Restore makes other programs of the host act, which may change again what the parts
// before it have restored: those are restored once more.
type Waker interface{ Wakes() }

// Bystanders is an optional interface of restorers whose changes disturb things of others, which they do not restore.
type Bystanders interface {
	// Disturbed returns a clause for each thing of others that the changes disturb. ours are the atoms of the transaction.
	Disturbed(links []host.Link, changes []Change, ours []Atom) []string
}

// Item is one value or object in a part of a backup.
type Item struct {
	Key   string // of the same thing in every part
	State string // equal texts mean equal states
	// As describes a change that makes or removes the item: everything but From and To.
	As    Change
	Shown string // the state for people
	// Others are further atoms that may own the item, besides that of As.
	Others []Atom
	// Own is true for what the kernel makes and removes by itself: it is not reported.
	Own    bool
	Device string       // the device that it belongs to, if any
	To     netip.Prefix // the destinations of the traffic that it directs, if any
	// Sensitive hides Shown in every change of the thing, whichever of its states says so.
	Sensitive bool
}

// Named reports whether one of the atoms owns the item.
func (i Item) Named(atoms []Atom) bool {
	return slices.Contains(atoms, i.As.Atom) || slices.ContainsFunc(i.Others, func(a Atom) bool { return slices.Contains(atoms, a) })
}

// Hide hides what is shown of all items of a thing if one of them is sensitive: in another state, somebody may have
// removed the mark.
func Hide(states ...map[string]*Item) {
	type thing struct {
		atom      Atom
		attribute string
	}
	sensitive := map[thing]bool{}
	for _, items := range states {
		for _, i := range items {
			if i.Sensitive {
				sensitive[thing{i.As.Atom, i.As.Attribute}] = true
			}
		}
	}
	for _, items := range states {
		for _, i := range items {
			if sensitive[thing{i.As.Atom, i.As.Attribute}] {
				i.Sensitive, i.Shown = true, fabric.Sensitive
			}
		}
	}
}

// Between returns the change from one state of an item to another; nil is absence.
func Between(from, to *Item) Change {
	var c Change
	if from != nil {
		c = from.As
		c.From = from.Shown
	}
	if to != nil {
		was := c.From
		c = to.As
		c.From, c.To = was, to.Shown
	}
	return c
}

// Restorable is an optional interface of providers whose changes can be restored exactly. Providers of one package
// share a restorer.
type Restorable interface {
	Restorer() Restorer
}

// Restorers groups atoms by their restorers, in the order of the kinds. An atom without a restorer is an error: a
// transaction must not change it.
func (k Kinds) Restorers(atoms []Atom) ([]Restorer, map[string][]Atom, error) {
	var order []Restorer
	by := map[string][]Atom{}
	for _, kind := range k {
		for _, a := range atoms {
			if a.Kind() != kind.Name || kind.Restorer == nil {
				continue
			}
			name := kind.Restorer.Name()
			if by[name] == nil {
				order = append(order, kind.Restorer)
			}
			by[name] = append(by[name], a)
		}
	}
	for _, a := range atoms {
		if kind, ok := k.Lookup(a.Kind()); !ok || kind.Restorer == nil {
			return nil, nil, fmt.Errorf("%q: a change of kind %s cannot be restored exactly", a, a.Kind())
		}
	}
	return order, by, nil
}

// Persists reports whether the changes of the restorer are made in the persist stage.
func (k Kinds) Persists(restorer string) bool {
	return slices.ContainsFunc(k, func(kind Kind) bool {
		return kind.Restorer != nil && kind.Restorer.Name() == restorer && kind.Stage == StagePersist
	})
}

// RestorerOf finds the restorer with that name.
func (k Kinds) RestorerOf(name string) (Restorer, bool) {
	for _, kind := range k {
		if kind.Restorer != nil && kind.Restorer.Name() == name {
			return kind.Restorer, true
		}
	}
	return nil, false
}
