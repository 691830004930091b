//go:build linux

package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/fabricform/fabricform/host/file"
)

// File is the saved state of a file, or its absence.
type File struct {
	Path    string      `json:"path"`
	Absent  bool        `json:"absent,omitempty"`
	Link    string      `json:"link,omitempty"` // target of a symbolic link
	Mode    fs.FileMode `json:"mode,omitempty"` // permissions
	UID     int         `json:"uid,omitempty"`
	GID     int         `json:"gid,omitempty"`
	Content []byte      `json:"content,omitempty"`
}

// maxSavedFile limits the size of a saved file: configuration files are small.
const maxSavedFile = 1 << 20

func backUpFile(path string) (File, error) {
	f := File{Path: path}
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		f.Absent = true
		return f, nil
	}
	if err != nil {
		return f, err
	}
	f.UID, f.GID = idsOf(info)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		f.Link, err = os.Readlink(path)
		return f, err
	case !info.Mode().IsRegular():
		return f, fmt.Errorf("not a regular file but %s", info.Mode().Type())
	case info.Size() > maxSavedFile:
		return f, errors.New("larger than 1 MiB")
	}
	f.Mode = info.Mode().Perm() | info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)
	f.Content, err = file.Read(path)
	return f, err
}

func (f File) equal(o File) bool {
	same := bytes.Equal(f.Content, o.Content)
	return same && f.Path == o.Path && f.Absent == o.Absent && f.Link == o.Link && f.Mode == o.Mode && f.UID == o.UID && f.GID == o.GID
}

// restore restores the file atomically. It does not touch a file that is unchanged.
func (f File) restore() error {
	if now, err := backUpFile(f.Path); err == nil && now.equal(f) {
		return nil
	}
	owner := file.Owner{UID: f.UID, GID: f.GID}
	switch {
	case f.Absent:
		return file.Remove(f.Path)
	case f.Link != "":
		return file.ReplaceLink(f.Path, f.Link, owner)
	}
	return file.ReplaceOwned(f.Path, f.Content, f.Mode, owner)
}

func idsOf(info fs.FileInfo) (uid, gid int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(st.Uid), int(st.Gid)
	}
	return 0, 0
}
