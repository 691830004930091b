package launch

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/fabricform/fabricform/host/file"
)

// sharedFolder is the error for a folder, or one above it, that another user can change.
const sharedFolder = "another user owns %s or can write to it, and could replace the scripts before you run them: " +
	"name another folder, or take the permission away (chmod go-w)"

// Write writes rendered files into a folder, or none if one of them would replace what fabricform did not render. The operator
// will run the scripts, so nobody else may own the folder or one above it, or write to them. It does not follow a symbolic link at the
// folder or at a file, because another user could have pointed one at a file of the operator's.
func Write(dir string, files []File) error {
	dir = filepath.Clean(dir) // a slash at the end would follow a link
	err := makeFolder(dir)
	at, missing := os.Lstat(dir)
	if missing == nil && !at.IsDir() {
		return fmt.Errorf("%s is not a folder, and -out does not follow links: name another one", dir)
	}
	if err = cmp.Or(err, missing); err != nil {
		return err
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = folder.Close() }()
	// What is opened is checked: it could be another folder than a moment ago.
	if now, err := folder.Stat("."); err != nil || !os.SameFile(at, now) || !ownFolder(now) {
		return cmp.Or(err, fmt.Errorf(sharedFolder, dir))
	}
	for _, f := range files {
		if err := replaceable(folder, f.Name); err != nil {
			return err
		}
	}
	for _, f := range files {
		mode := fs.FileMode(0o644)
		if f.Script {
			mode = 0o755
		}
		if err := file.ReplaceIn(folder, f.Name, f.Text, mode); err != nil {
			return err
		}
	}
	return nil
}

// replaceable returns an error if the file exists and was not written by an earlier run of render.
func replaceable(folder *os.Root, name string) error {
	path := filepath.Join(folder.Name(), name)
	switch at, err := folder.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !at.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file, and -out does not follow links: remove it, or name another folder", path)
	}
	f, err := folder.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if formatOf(f) != "" {
		return nil
	}
	return fmt.Errorf("%s exists, and fabricform did not render it: move it away, or name another folder", path)
}

// formatOf returns the format of a rendered text, from its mark; "" if fabricform did not render the text.
func formatOf(text io.Reader) string {
	lines := bufio.NewReader(text)
	for range 2 {
		line, _ := lines.ReadSlice('\n')
		if rest, is := bytes.CutPrefix(line, []byte(Mark)); is {
			format, _, _ := bytes.Cut(rest, []byte(","))
			return string(format)
		}
	}
	return ""
}

// Earlier returns the names of the files in the folder that an earlier run of render wrote in the format of these files, and that are
// not among them, sorted. A job that is started from all files of the folder would have ranks of both.
func Earlier(dir string, files []File) (out []string, err error) {
	found, err := os.ReadDir(dir)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	format := formatOf(bytes.NewReader(files[0].Text))
	for _, e := range found {
		if !e.Type().IsRegular() || slices.ContainsFunc(files, func(f File) bool { return f.Name == e.Name() }) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // of another user: render did not write it
		}
		if formatOf(f) == format {
			out = append(out, e.Name())
		}
		_ = f.Close()
	}
	return out, nil
}
