package kindtest

import (
	"context"
	"io/fs"
	"slices"
	"strings"
)

// Files are the files of a fake host, by path. They are read as those of a host are: host.Reader's ReadFile and ReadDir.
type Files map[string]string

// ReadFile returns fs.ErrNotExist for a file that is not there.
func (f Files) ReadFile(_ context.Context, path string) ([]byte, error) {
	if text, there := f[path]; there {
		return []byte(text), nil
	}
	return nil, fs.ErrNotExist
}

// ReadDir returns the sorted names in a folder; fs.ErrNotExist if no file is below it.
func (f Files) ReadDir(_ context.Context, dir string) (names []string, err error) {
	for path := range f {
		if rest, below := strings.CutPrefix(path, dir+"/"); below {
			name, _, _ := strings.Cut(rest, "/")
			names = append(names, name)
		}
	}
	if names == nil {
		return nil, fs.ErrNotExist
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}
