package qos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// restorer restores all settings of the NICs that the atoms name: one change may change others, as mlx5 resizes buffers with PFC, and
// trusts PCP once no DSCP has an entry. The values have the names of atoms; "" is absent.
type restorer struct{ resource.ValueRestorer[string] }

// Restorer implements resource.Restorable.
func (provider) Restorer() resource.Restorer {
	return restorer{resource.ValueRestorer[string]{Of: "classes of traffic", Read: readValues, Lists: itemsOf}}
}

// Name names the part.
func (restorer) Name() string { return Kind }

// Save reads all settings of the atoms' NICs.
func (k restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var names []string
	for _, a := range atoms {
		if a.Kind() != Kind || !slices.Contains(attributesOf(), a.Value()) {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		for _, attribute := range attributesOf() {
			names = append(names, string(atom(a.Thing(), attribute)))
		}
	}
	return k.Backup(ctx, r, names)
}

// readValues reads the values of atoms. Without a table of trust, the entries of the DSCPs say what is trusted, so that the value of
// the trust is left out.
func readValues(ctx context.Context, r host.Reader, names []string) (map[string]string, error) {
	snap, err := facts.Gather(ctx, r, facts.Connection{None: true})
	if err != nil {
		return nil, err
	}
	found, out := map[string]state{}, map[string]string{}
	for _, name := range names {
		a := resource.Atom(name)
		s, done := found[a.Thing()]
		if l := snap.Link(a.Thing()); !done && l != nil {
			if s, err = read(ctx, r, snap, *l); err != nil {
				return nil, err
			}
			found[a.Thing()] = s
		}
		if out[name] = s.Values[a.Value()]; a.Value() == attrTrust && !s.Table {
			out[name] = ""
		}
	}
	return out, nil
}

// itemsOf lists one value. A change of the trust may have changed an entry of a DSCP.
func itemsOf(name, value string) []resource.Item {
	if value == "" {
		return nil
	}
	a := resource.Atom(name)
	item := resource.Item{Key: name, State: value, Shown: value, As: resource.Change{Attribute: a.Value(), Atom: a}, Device: a.Thing()}
	if a.Value() == attrFlow {
		item.As.Disruption = resource.LinkFlap
	}
	if attribute, _ := cut(a.Value()); attribute == attrDSCP {
		item.Others = []resource.Atom{atom(a.Thing(), attrTrust)}
	}
	return []resource.Item{item}
}

// Restore sets what differs, and continues after a step that fails.
func (k restorer) Restore(ctx context.Context, h host.Host, data json.RawMessage) ([]string, error) {
	was, err := k.Decode(data)
	if err != nil {
		return nil, err
	}
	names := slices.SortedFunc(maps.Keys(was), func(a, b string) int {
		if r := rank(resource.Atom(a).Value(), was[a]) - rank(resource.Atom(b).Value(), was[b]); r != 0 {
			return r
		}
		return strings.Compare(a, b)
	})
	snap, err := facts.Gather(ctx, h, facts.Connection{None: true})
	if err != nil {
		return nil, err
	}
	live, err := readValues(ctx, h, names)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		a := resource.Atom(name)
		if live[name] == was[name] || snap.Link(a.Thing()) == nil {
			continue
		}
		p, err := portOf(h, snap, a.Thing())
		if err == nil {
			err = p.set(ctx, a.Value(), was[name])
		}
		errs = append(errs, err)
		if live, err = readValues(ctx, h, names); err != nil { // one setting may have changed others
			return nil, errors.Join(append(errs, err)...)
		}
	}
	var left []string
	for _, name := range names {
		if a := resource.Atom(name); live[name] != was[name] {
			left = append(left, fmt.Sprintf("%s of %s was %q, and is %q", a.Value(), a.Thing(), was[name], live[name]))
		}
	}
	return left, errors.Join(errs...)
}
