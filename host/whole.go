package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// ReplaceFile writes a file that is whole and on the disk when it returns: whoever reads it at any
// moment, after a crash too, finds all of the old content or all of the new. Two writers of one
// path must hold a lock. It leaves nothing behind where it fails.
func ReplaceFile(path string, text []byte, perm fs.FileMode) error {
	if err := writeSynced(path+".new", text, perm); err != nil {
		return errors.Join(err, removeAny(path+".new"))
	}
	if err := os.Rename(path+".new", path); err != nil {
		return errors.Join(err, removeAny(path+".new"))
	}
	return syncDir(filepath.Dir(path))
}

func writeSynced(path string, text []byte, perm fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func removeAny(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// syncDir makes a rename last: the file's own sync says nothing of its name.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
