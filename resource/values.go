package resource

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/host"
)

// ValueRestorer has the methods of a Restorer whose part of a backup holds one value for each name, such as a file for each path.
// A restorer embeds them, and adds Name, Save and Restore.
type ValueRestorer[V any] struct {
	Of    string                                                                         // what has the values, for errors
	Read  func(ctx context.Context, r host.Reader, names []string) (map[string]V, error) // changes nothing
	Lists func(name string, value V) []Item                                              // none if the value is absent
}

// Backup reads the values of the names.
func (v ValueRestorer[V]) Backup(ctx context.Context, r host.Reader, names []string) (json.RawMessage, error) {
	now, err := v.Read(ctx, r, names)
	if err != nil {
		return nil, fmt.Errorf("make a backup: %w", err)
	}
	return json.Marshal(now)
}

// Decode returns the values of a part.
func (v ValueRestorer[V]) Decode(part json.RawMessage) (values map[string]V, err error) {
	if err := json.Unmarshal(part, &values); err != nil {
		return nil, fmt.Errorf("decode the backup of %s: %w", v.Of, err)
	}
	return values, nil
}

// Again reads the values of the part's names.
func (v ValueRestorer[V]) Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error) {
	was, err := v.Decode(part)
	if err != nil {
		return nil, err
	}
	return v.Backup(ctx, r, slices.Sorted(maps.Keys(was)))
}

// Items lists the values that are there, by name.
func (v ValueRestorer[V]) Items(part json.RawMessage) (out []Item, err error) {
	was, err := v.Decode(part)
	for _, name := range slices.Sorted(maps.Keys(was)) {
		out = append(out, v.Lists(name, was[name])...)
	}
	return out, err
}

// Merge copies the present values of the names that are keys.
func (v ValueRestorer[V]) Merge(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	return v.MergeBy(part, now, func(was, live map[string]V) {
		for name := range was {
			if keys[name] {
				was[name] = live[name]
			}
		}
	})
}

// MergeBy is Merge for values that may be merged in part: merge changes the values of the part.
func (v ValueRestorer[V]) MergeBy(part, now json.RawMessage, merge func(was, live map[string]V)) (json.RawMessage, []string, error) {
	was, err := v.Decode(part)
	if err != nil {
		return nil, nil, err
	}
	live, err := v.Decode(now)
	if err != nil {
		return nil, nil, err
	}
	merge(was, live)
	out, err := json.Marshal(was)
	return out, nil, err
}
