package ncclconf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// keeper restores the file and its backup exactly.
type keeper struct{}

// Keeper returns a keeper that restores both files.
func (provider) Keeper() resource.Keeper { return keeper{} }

// Room names the part.
func (keeper) Room() string { return Kind }

// kept holds the file at each path; nil if there was none.
type kept map[string]*facts.File

// Save reads the files that the atoms name, and their backups.
func (keeper) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	k := kept{}
	for _, a := range atoms {
		if a != atom(a.Value()) || host.OwnFile(a.Value()) != nil {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		for _, at := range []string{a.Value(), before(a.Value())} {
			now, err := facts.FileAt(ctx, r, at)
			if err != nil {
				return nil, fmt.Errorf("make a backup: %w", err)
			}
			k[at] = now
		}
	}
	return json.Marshal(k)
}

// Restore writes the files that differ.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	var k kept
	if err := json.Unmarshal(part, &k); err != nil {
		return nil, fmt.Errorf("decode the backup of files: %w", err)
	}
	var errs []error
	var differs []string
	for _, at := range slices.Sorted(maps.Keys(k)) {
		now, err := facts.FileAt(ctx, h, at)
		switch {
		case err != nil:
		case k[at] == nil: // a reset in the middle of a write leaves a hidden file behind
			err = h.RemoveFile(at)
		case now == nil || *now != *k[at]:
			err = h.PutFile(at, []byte(k[at].Text), k[at].Mode.Perm())
		}
		errs = append(errs, err)
		now, err = facts.FileAt(ctx, h, at)
		if errs = append(errs, err); (now == nil) != (k[at] == nil) || now != nil && *now != *k[at] {
			differs = append(differs, at+" is not as it was")
		}
	}
	return differs, errors.Join(errs...)
}
