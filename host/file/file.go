// Package file replaces files atomically: a crash leaves either the old content or the new.
package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// StateDir is the folder for fabricform's state on a host. State that survives a reboot belongs below /var/lib
// (Filesystem Hierarchy Standard 3.0, 5.8).
const StateDir = "/var/lib/fabricform"

// ErrPipe is the error for a named pipe where a file belongs: opening it would wait for a writer, for ever if there is none.
var ErrPipe = errors.New("it is a named pipe, not a file: remove it")

// Read reads a whole file. It refuses named pipes at once.
func Read(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 {
		return nil, &fs.PathError{Op: "open", Path: path, Err: ErrPipe}
	}
	return os.ReadFile(path)
}

// Replace replaces a file atomically and syncs it: a reader finds either the old content or the new one at any time,
// even after a crash. The file gets exactly this mode, whatever the umask. Concurrent writers of one path must hold a
// lock. Replace removes its temporary file if it fails.
func Replace(path string, text []byte, perm fs.FileMode) error {
	return replace(path, func(staged string) error { return writeSynced(staged, text, perm, nil) })
}

// ReplaceIn is Replace for a file of an open folder, wherever that is moved meanwhile. After a crash, the old content may be back.
func ReplaceIn(folder *os.Root, name string, text []byte, perm fs.FileMode) error {
	staged := stagedName(name)
	if err := folder.Remove(staged); err != nil && !errors.Is(err, fs.ErrNotExist) { // a crash may have left one
		return err
	}
	f, err := folder.OpenFile(staged, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm&0o600)
	if err == nil {
		err = writeTo(f, text, perm, nil)
	}
	if err == nil {
		err = folder.Rename(staged, name)
	}
	if err != nil {
		_ = folder.Remove(staged) // it may not be there
	}
	return err
}

// Owner is the user and the group of a file.
type Owner struct{ UID, GID int }

// ReplaceOwned is Replace for a file with that owner. The file has its owner and its mode before it has its name.
func ReplaceOwned(path string, text []byte, perm fs.FileMode, owner Owner) error {
	return replace(path, func(staged string) error { return writeSynced(staged, text, perm, &owner) })
}

// ReplaceLink is ReplaceOwned for a symbolic link, which has no mode.
func ReplaceLink(path, target string, owner Owner) error {
	return replace(path, func(staged string) error {
		if err := os.Symlink(target, staged); err != nil {
			return err
		}
		return os.Lchown(staged, owner.UID, owner.GID)
	})
}

func replace(path string, write func(staged string) error) error {
	staged := stagedName(path)
	err := removeAny(staged) // a crash may have left one, with another mode or as a link
	if err == nil {
		err = write(staged)
	}
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		var of *fs.PathError
		if errors.As(err, &of) && of.Path == staged {
			of.Path = path // the operator knows the file by this name, not by its temporary one
		}
		return errors.Join(err, removeAny(staged))
	}
	return SyncFolder(filepath.Dir(path))
}

// Remove removes a file or an empty folder, and the temporary file that a crash in Replace may have left. It is not an
// error if the file does not exist.
func Remove(path string) error {
	if err := errors.Join(removeAny(path), removeAny(stagedName(path))); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Output writes a file that a user named. It replaces a regular or new file atomically, and writes directly to anything
// else, such as /dev/stdout or a pipe.
func Output(path string, text []byte, perm fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, perm)
	}
	path, err := target(path)
	if err != nil {
		return err
	}
	return Replace(path, text, perm)
}

// CanOutput returns an error if Output could not write the file now. It leaves nothing behind.
func CanOutput(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return errors.New("it is a folder; name a file in it")
	case err == nil && !info.Mode().IsRegular():
		return nil
	}
	path, err := target(path)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".fabricform-")
	var why *fs.PathError
	if errors.As(err, &why) { // without the temporary name
		return fmt.Errorf("%s: %w", filepath.Dir(path), why.Err)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// target returns the file to replace, so that a link remains.
func target(path string) (string, error) {
	// Opening the file lets the kernel decide whether this user may write through a link: in a shared folder it refuses
	// links of other users (fs.protected_symlinks, proc_sys_fs(5)). Resolving the link alone would bypass that.
	switch f, err := os.OpenFile(path, os.O_WRONLY, 0); {
	case err == nil:
		f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		return to, nil
	}
	return path, nil
}

// stagedName returns the name of the temporary file. It is hidden, because programs that read every file of a folder,
// such as `source interfaces.d/*` of interfaces(5), must not read one that a crash left.
func stagedName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

func writeSynced(path string, text []byte, perm fs.FileMode, owner *Owner) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm&0o600)
	if err != nil {
		return err
	}
	return writeTo(f, text, perm, owner)
}

// writeTo writes a new file, and closes it.
func writeTo(f *os.File, text []byte, perm fs.FileMode, owner *Owner) error {
	_, err := f.Write(text)
	if err == nil && owner != nil {
		err = f.Chown(owner.UID, owner.GID)
	}
	if err == nil {
		err = f.Chmod(perm) // the umask applies to open, and chown clears bits
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func removeAny(path string) error {
	// Check first: on a read-only file system, even the removal of a missing file fails.
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncFolder makes a rename durable, because a sync of the file does not include its name. Windows cannot sync a
// folder: FlushFileBuffers needs a writable handle, and os.Open opens a folder only for reading.
func SyncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
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
