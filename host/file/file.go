// Package file changes files so that a crash leaves the old content or the new one.
package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
)

// StateDir is where this program keeps what is its own on a host. /var/lib is where state belongs that
// survives a reboot (Filesystem Hierarchy Standard 3.0, 5.8).
const StateDir = "/var/lib/fabricform"

// Replace writes a file that is whole and on the disk when it returns: whoever reads it at any
// moment, after a crash too, finds all of the old content or all of the new. The file has exactly this
// mode, whatever the umask. Two writers of one path must hold a lock. It leaves nothing behind where it fails.
func Replace(path string, text []byte, perm fs.FileMode) error {
	return replace(path, func(staged string) error { return writeSynced(staged, text, perm, nil) })
}

// Owner is the user and the group of a file.
type Owner struct{ UID, GID int }

// ReplaceOwned is Replace for a file of this owner: it has its owner and its mode before it has its name.
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
	err := removeAny(staged) // a crash may have left it, with another mode or as a link
	if err == nil {
		err = write(staged)
	}
	if err == nil {
		err = os.Rename(staged, path)
	}
	if err != nil {
		var of *fs.PathError
		if errors.As(err, &of) && of.Path == staged {
			of.Path = path // the reader knows the file, and not the name that it is staged under
		}
		return errors.Join(err, removeAny(staged))
	}
	return SyncFolder(filepath.Dir(path))
}

// Remove removes a file or an empty folder, with what a crash in Replace left beside it. What is gone is
// no error.
func Remove(path string) error {
	if err := errors.Join(removeAny(path), removeAny(stagedName(path))); err != nil {
		return err
	}
	return SyncFolder(filepath.Dir(path))
}

// Output writes a file that a person named: with Replace where it is a file or new, and straight into what is
// neither, such as /dev/stdout or a pipe.
func Output(path string, text []byte, perm fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, text, perm)
	}
	// The kernel decides whether this user may write through a link: in a shared folder it refuses another
	// user's (fs.protected_symlinks, proc_sys_fs(5)), which resolving the link here would bypass.
	switch f, err := os.OpenFile(path, os.O_WRONLY, 0); {
	case err == nil:
		f.Close()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if to, err := filepath.EvalSymlinks(path); err == nil {
		path = to // the link stays one
	}
	return Replace(path, text, perm)
}

// stagedName is hidden: what a crash leaves half written must not be read by those who take every
// file of a folder, as `source interfaces.d/*` of interfaces(5) does.
func stagedName(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
}

func writeSynced(path string, text []byte, perm fs.FileMode, owner *Owner) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm&0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil && owner != nil {
		err = f.Chown(owner.UID, owner.GID)
	}
	if err == nil {
		err = f.Chmod(perm) // open's is subject to the umask, and a change of the owner clears bits
	}
	return errors.Join(err, f.Sync(), f.Close())
}

func removeAny(path string) error {
	// A file system that is read-only says so even of what is not there.
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// SyncFolder makes a rename last: the file's own sync says nothing of its name. Windows syncs no folder:
// FlushFileBuffers wants a handle that may write, and os.Open's of a folder may only read.
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
