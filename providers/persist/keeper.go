package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// keeper restores files exactly, or their absence.
type keeper struct{}

// Keeper returns a keeper that restores files and makes managers read them again.
func (provider) Keeper() resource.Keeper { return keeper{} }

// Room names the part.
func (keeper) Room() string { return "persist" }

// kept holds the file at each path; nil if there was no file or folder.
type kept map[string]*facts.File

// Save reads the files and folders that the atoms name.
func (keeper) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var paths []string
	for _, a := range atoms {
		if a.Kind() != Kind || a.Thing() != "file" && a.Thing() != "folder" {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		paths = append(paths, a.Value())
	}
	return read(ctx, r, paths)
}

// read reads files and folders.
func read(ctx context.Context, r host.Reader, paths []string) (json.RawMessage, error) {
	k := kept{}
	for _, at := range paths {
		f, err := facts.FileAt(ctx, r, at)
		if err != nil {
			return nil, fmt.Errorf("make a backup: %w", err)
		}
		k[at] = f
	}
	return json.Marshal(k)
}

func decodeKept(part json.RawMessage) (k kept, err error) {
	if err := json.Unmarshal(part, &k); err != nil {
		return nil, fmt.Errorf("decode the backup of files: %w", err)
	}
	return k, nil
}

// Again reads the same files and folders.
func (keeper) Again(ctx context.Context, r host.Reader, part json.RawMessage) (json.RawMessage, error) {
	k, err := decodeKept(part)
	if err != nil {
		return nil, err
	}
	return read(ctx, r, slices.Collect(maps.Keys(k)))
}

// Items has an item for each file and folder that exists. A folder has one state: others may use it, too.
func (keeper) Items(part json.RawMessage) ([]resource.Item, error) {
	k, err := decodeKept(part)
	var out []resource.Item
	for _, at := range slices.Sorted(maps.Keys(k)) {
		switch f := k[at]; {
		case f == nil:
		case f.Mode.IsDir():
			out = append(out, resource.Item{Key: at, Shown: at, As: resource.Change{Attribute: "folder", Atom: resource.NewAtom(Kind, "folder", at)}})
		default:
			out = append(out, resource.Item{Key: at, State: f.Digest(), Shown: f.Digest(), As: resource.Change{Attribute: at, Atom: resource.NewAtom(Kind, "file", at)}})
		}
	}
	return out, err
}

// Take copies the files that the keys name.
func (keeper) Take(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	k, err := decodeKept(part)
	if err != nil {
		return nil, nil, err
	}
	live, err := decodeKept(now)
	if err != nil {
		return nil, nil, err
	}
	for at := range k {
		if keys[at] {
			k[at] = live[at]
		}
	}
	for at, f := range k { // a file that stays needs its folder
		if dir := path.Dir(at); f != nil && keys[at] && live[dir] != nil {
			k[dir] = live[dir]
		}
	}
	out, err := json.Marshal(k)
	return out, nil, err
}

// Restore writes the files that differ. A folder that others use now remains, and is reported.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	k, err := decodeKept(part)
	if err != nil {
		return nil, err
	}
	paths := slices.Sorted(maps.Keys(k))
	var todo, folders []step
	var errs []error
	for _, at := range paths {
		now, err := facts.FileAt(ctx, h, at)
		if now == nil && k[at] == nil && err == nil {
			// A reset during a write leaves a temporary file, which would keep the folder from being removed.
			err = h.RemoveFile(at)
		}
		errs = append(errs, err)
		if err != nil || same(now, k[at]) {
			continue
		}
		s := step{path: at, was: now, put: k[at] != nil}
		if s.put {
			s.text, s.mode = k[at].Text, k[at].Mode.Perm()
		}
		if s.folder = (k[at] != nil && k[at].Mode.IsDir()) || (now != nil && now.Mode.IsDir()); s.folder && !s.put {
			folders = append(folders, s) // removed last, when it is empty
			continue
		}
		todo = append(todo, s)
	}
	errs = append(errs, revert(ctx, h, todo))
	for _, s := range slices.Backward(folders) {
		errs = append(errs, h.RemoveFile(s.path))
	}
	var differs []string
	for _, at := range paths {
		if now, readErr := facts.FileAt(ctx, h, at); readErr != nil || !same(now, k[at]) {
			differs = append(differs, path.Dir(at)+": "+path.Base(at)+" is not as it was")
		}
	}
	return differs, errors.Join(errs...)
}

// same compares files by content, mode and owner, and folders by existence.
func same(a, b *facts.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode.IsDir() == b.Mode.IsDir() && (a.Mode.IsDir() || a.Digest() == b.Digest() && a.Text == b.Text)
}
