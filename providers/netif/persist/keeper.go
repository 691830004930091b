package persist

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// keeper is the exact way back of files: what they were, or that they were not there.
type keeper struct{}

// Keeper brings files back, and has managers read them again.
func (provider) Keeper() resource.Keeper { return keeper{} }

// Room names the part.
func (keeper) Room() string { return "persist" }

// kept is what stood at each path; nil: nothing, or for a folder, that it was not there.
type kept map[string]*facts.File

// Snapshot reads the files and folders that the atoms name.
func (keeper) Snapshot(r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	k := kept{}
	for _, a := range atoms {
		if a.Kind() != Kind || a.Thing() != "file" && a.Thing() != "folder" {
			return nil, fmt.Errorf("%q names nothing that this build can change", a)
		}
		f, err := read(r, a.Value())
		if err != nil {
			return nil, fmt.Errorf("take a snapshot of %s: %w", a.Value(), err)
		}
		k[a.Value()] = f
	}
	return json.Marshal(k)
}

func read(r host.Reader, at string) (*facts.File, error) {
	stat, err := r.Stat(at)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil || stat.Mode.IsDir():
		return &facts.File{FileStat: stat}, err
	}
	text, err := r.ReadFile(at)
	return &facts.File{FileStat: stat, Text: string(text)}, err
}

// Restore writes what differs. A folder that others have come to use stays, and is said.
func (keeper) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	var k kept
	if err := json.Unmarshal(part, &k); err != nil {
		return nil, fmt.Errorf("decode snapshot of files: %w", err)
	}
	paths := slices.Sorted(maps.Keys(k))
	var todo, folders []step
	for _, at := range paths {
		now, err := read(h, at)
		if err != nil {
			return nil, err
		}
		if now == nil && k[at] == nil {
			// A reset in the middle of a write leaves a hidden file behind, and with it the folder.
			if err := h.RemoveFile(at); err != nil {
				return nil, err
			}
			continue
		}
		if same(now, k[at]) {
			continue
		}
		s := step{path: at, was: now, put: k[at] != nil}
		if s.put {
			s.text, s.mode = k[at].Text, k[at].Mode.Perm()
		}
		if s.folder = (k[at] != nil && k[at].Mode.IsDir()) || (now != nil && now.Mode.IsDir()); s.folder && !s.put {
			folders = append(folders, s) // once it is empty
			continue
		}
		todo = append(todo, s)
	}
	err := write(ctx, h, todo)
	for _, s := range slices.Backward(folders) {
		err = errors.Join(err, h.RemoveFile(s.path))
	}
	var differs []string
	for _, at := range paths {
		if now, readErr := read(h, at); readErr != nil || !same(now, k[at]) {
			differs = append(differs, path.Dir(at)+": "+path.Base(at)+" is not as it was")
		}
	}
	return differs, err
}

// same compares files with their modes, and folders by being there.
func same(a, b *facts.File) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Mode.IsDir() == b.Mode.IsDir() && (a.Mode.IsDir() || a.Digest() == b.Digest() && a.Text == b.Text)
}
