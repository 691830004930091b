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

// restorer restores files exactly, or their absence.
type restorer struct {
	resource.ValueRestorer[*facts.File] // nil: no file or folder
}

// Restorer returns a restorer that restores files and makes managers read them again.
func (provider) Restorer() resource.Restorer {
	return restorer{resource.ValueRestorer[*facts.File]{Of: "files", Read: facts.FilesAt, Lists: itemsOf}}
}

// Name names the part.
func (restorer) Name() string { return "persist" }

// Wakes says that network managers act on the files that Restore writes and removes. They make, remove and configure NICs.
func (restorer) Wakes() {}

// Save reads the files and folders that the atoms name.
func (k restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var paths []string
	for _, a := range atoms {
		if a.Kind() != Kind || a.Thing() != "file" && a.Thing() != "folder" {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		paths = append(paths, a.Value())
	}
	return k.Backup(ctx, r, paths)
}

// itemsOf lists a file or folder that exists. A folder has one state: others may use it, too.
func itemsOf(at string, f *facts.File) []resource.Item {
	switch {
	case f == nil:
		return nil
	case f.Mode.IsDir():
		return []resource.Item{{Key: at, Shown: at, As: resource.Change{Attribute: "folder", Atom: resource.NewAtom(Kind, "folder", at)}}}
	}
	return []resource.Item{{Key: at, State: f.Digest(), Shown: f.Digest(),
		As: resource.Change{Attribute: at, Atom: resource.NewAtom(Kind, "file", at)}}}
}

// Merge copies the files that the keys name, with their folders.
func (k restorer) Merge(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	return k.MergeBy(part, now, func(was, live map[string]*facts.File) {
		for at := range was {
			if keys[at] {
				was[at] = live[at]
			}
		}
		for at, f := range was { // a file that stays needs its folder
			if dir := path.Dir(at); f != nil && keys[at] && live[dir] != nil {
				was[dir] = live[dir]
			}
		}
	})
}

// Restore writes the files that differ. A folder that others use now remains, and is reported.
func (k restorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	files, err := k.Decode(part)
	if err != nil {
		return nil, err
	}
	paths := slices.Sorted(maps.Keys(files))
	var todo, folders []step
	var errs []error
	for _, at := range paths {
		now, err := facts.FileAt(ctx, h, at)
		if now == nil && files[at] == nil && err == nil {
			// A reset during a write leaves a temporary file, which would keep the folder from being removed.
			err = h.RemoveFile(at)
		}
		errs = append(errs, err)
		if err != nil || same(now, files[at]) {
			continue
		}
		s := step{path: at, was: now, put: files[at] != nil}
		if s.put {
			s.text, s.mode = files[at].Text, files[at].Mode.Perm()
		}
		if s.folder = (files[at] != nil && files[at].Mode.IsDir()) || (now != nil && now.Mode.IsDir()); s.folder && !s.put {
			folders = append(folders, s) // removed last, when it is empty
			continue
		}
		todo = append(todo, s)
	}
	var again []step
	if mark, err := facts.FileAt(ctx, h, unreadMark); err != nil || mark != nil {
		for _, at := range paths {
			again = append(again, step{path: at, folder: files[at] != nil && files[at].Mode.IsDir(), put: files[at] != nil, text: textOf(files[at])})
		}
	}
	errs = append(errs, revert(ctx, h, todo, again))
	for _, s := range slices.Backward(folders) {
		errs = append(errs, h.RemoveFile(s.path))
	}
	var differs []string
	for _, at := range paths {
		if now, readErr := facts.FileAt(ctx, h, at); readErr != nil || !same(now, files[at]) {
			differs = append(differs, path.Dir(at)+": "+path.Base(at)+" is not as it was")
		}
	}
	return differs, errors.Join(errs...)
}

func textOf(f *facts.File) string {
	if f == nil {
		return ""
	}
	return f.Text
}

// same compares files by content, mode and owner, and folders by existence.
func same(a, b *facts.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode.IsDir() == b.Mode.IsDir() && (a.Mode.IsDir() || a.Digest() == b.Digest() && a.Text == b.Text)
}
