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

// maxText is how much text is outlined; config reads no larger file.
const maxText = 4 << 20

// document is a text that the editor has open.
type document struct {
	uri     string
	path    string // "": not a file
	version int
	text    []byte
	outline *file // of the text; nil until it is needed
}

// file is the document's outline.
func (d *document) file() *file {
	if d.outline == nil {
		d.outline = newFile(d.path, d.uri, d.text[:min(len(d.text), maxText)])
	}
	return d.outline
}

// isFabric says whether the document is a file of a fabric.
func (d *document) isFabric() bool { return d.path != "" && config.IsFabric(filepath.Base(d.path)) }

// saved is the outline of a file that is not open, while the file stays as it was.
type saved struct {
	size    int64
	changed time.Time
	outline *file
}

// documents are the texts that are open, and the files beside them.
type documents struct {
	open  map[string]*document // by URI
	disk  map[string]saved     // by path
	alone map[string]bool      // directories whose files are fabrics of their own
}

func (ds *documents) byPath(path string) *document {
	for _, d := range ds.open {
		if d.path == path {
			return d
		}
	}
	return nil
}

// fabric is all files of the document's fabric, the document first.
func (ds *documents) fabric(d *document) []*file {
	out := []*file{d.file()}
	dir := filepath.Dir(d.path)
	if !d.isFabric() || ds.alone[dir] {
		return out
	}
	names, _ := config.Files(dir) // none: the document is not saved yet
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

// read outlines a file of the disk; nil where it cannot be read, which config reports.
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

// job is what there is to look at in a directory; false where nothing of it is open.
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

// uriPath is the file that a URI names.
func uriPath(uri string) (string, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" || !strings.HasPrefix(u.Path, "/") || strings.Contains(u.Path, "\x00") {
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
