package lsp

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fabricform/fabricform/config"
)

// maxText limits the text that is outlined. Package config reads no larger files.
const maxText = 4 << 20

// document is a text that is open in the editor.
type document struct {
	uri     string
	path    string // "": not a file
	version int
	text    []byte
	outline *file // outline of the text; nil until it is needed
}

// file returns the document's outline.
func (d *document) file() *file {
	if d.outline == nil {
		d.outline = newFile(d.path, d.uri, d.text[:min(len(d.text), maxText)])
	}
	return d.outline
}

// isFabric reports whether the document is a file of a fabric.
func (d *document) isFabric() bool { return d.path != "" && config.IsFabric(filepath.Base(d.path)) }

// saved is the cached outline of a file that is not open. It is valid until the file changes.
type saved struct {
	size    int64
	changed time.Time
	outline *file
}

// documents holds the open texts and the files in their directories.
type documents struct {
	open  map[string]*document // by URI
	disk  map[string]saved     // by path
	alone map[string]bool      // directories in which each file is a separate fabric
	hosts map[string]instances // by directory or file; of the last check without errors
}

func (ds *documents) byPath(path string) *document {
	for _, d := range ds.open {
		if d.path == path {
			return d
		}
	}
	return nil
}

// fabric returns all files of the document's fabric, the document first.
func (ds *documents) fabric(d *document) []*file {
	out := []*file{d.file()}
	dir := filepath.Dir(d.path)
	if !d.isFabric() || ds.alone[dir] {
		out[0].hosts = ds.hosts[d.path]
		return out
	}
	out[0].hosts = ds.hosts[dir]
	names, _ := config.Files(dir) // an error means that the document is not saved yet
	for _, o := range ds.open {
		if o.isFabric() && filepath.Dir(o.path) == dir && !slices.Contains(names, o.path) {
			names = append(names, o.path)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		if name == d.path || strings.HasSuffix(name, ".json") {
			continue
		}
		if o := ds.byPath(name); o != nil {
			out = append(out, o.file())
		} else if f := ds.read(name); f != nil {
			out = append(out, f)
		}
	}
	return out
}

// read outlines a file on disk. It returns nil if the file cannot be read; package config reports that.
func (ds *documents) read(path string) *file {
	st, err := os.Stat(path)
	if err != nil || !st.Mode().IsRegular() || st.Size() > maxText {
		return nil
	}
	if s, known := ds.disk[path]; known && s.size == st.Size() && s.changed.Equal(st.ModTime()) {
		return s.outline
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	f := newFile(path, pathURI(path), src)
	ds.disk[path] = saved{st.Size(), st.ModTime(), f}
	return f
}

// job returns the job to check a directory, and false if no file in it is open.
func (ds *documents) job(dir string) (job, bool) {
	j := job{dir: dir, alone: ds.alone[dir], overlay: map[string][]byte{}}
	for _, d := range ds.open {
		if d.isFabric() && filepath.Dir(d.path) == dir {
			j.open = append(j.open, d.path)
			j.overlay[d.path] = d.text
		}
	}
	slices.Sort(j.open)
	return j, len(j.open) > 0
}

// uriPath returns the path of a file URI.
func uriPath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") ||
		strings.Contains(u.Path, "\x00") {
		return "", errors.New("not the URI of a file")
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // /c:/fabrics
	}
	return filepath.Clean(filepath.FromSlash(path)), nil
}

func pathURI(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
