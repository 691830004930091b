package process

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process that is killed cannot remove its temporary folder, so that a later one does. It knows the folders that are in use by a
// lock (flock(2)) on each, which the kernel releases when the process ends.

// temporaryPrefix begins the names of folders that carry such a lock. Those of builds before it begin with "fabricform-" alone: nothing
// says whether they are in use.
const temporaryPrefix = "fabricform-temp-"

// abandonedWithin bounds the removal of one abandoned folder, and the end of the processes that still use it.
const abandonedWithin = 20 * time.Second

// TemporaryFolder returns the path of a temporary folder with this ID below another folder.
func TemporaryFolder(below, id string) string { return filepath.Join(below, temporaryPrefix+id) }

// MakeTemporary makes a folder for files that this process or its programs write. remove must be called once.
func MakeTemporary() (dir string, remove func() error, err error) {
	dir = TemporaryFolder(os.TempDir(), rand.Text())
	unlock, err := MakeLocked(dir)
	if err != nil {
		return "", nil, err
	}
	return dir, func() error { defer unlock(); return os.RemoveAll(dir) }, nil
}

// MakeLocked makes a folder, and locks it until unlock, or until this process ends. Nobody else may read the folder: who can open it
// could lock it.
func MakeLocked(dir string) (unlock func(), err error) {
	for range 10 {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return nil, err
		}
		f, err := lockFolder(dir, unix.LOCK_EX)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, fs.ErrNotExist) { // otherwise RemoveAbandoned has seen it before it was locked
			return nil, errors.Join(err, os.Remove(dir))
		}
	}
	return nil, fmt.Errorf("make %s: another process removes it again and again", dir)
}

// lockFolder opens and locks a folder of this process's user. The error is fs.ErrNotExist if the folder is not at its path any more.
func lockFolder(dir string, how int) (f *os.File, err error) {
	f, err = os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	opened, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if of, is := opened.Sys().(*syscall.Stat_t); !is || int(of.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("lock %s: %w", dir, fs.ErrPermission)
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", dir, err)
	}
	now, err := os.Lstat(dir)
	if err == nil && !os.SameFile(opened, now) {
		err = fs.ErrNotExist
	}
	return f, err
}

// RemoveAbandoned removes the temporary folders of this user's processes that have ended, and kills their descendants that still run. It
// never touches a folder that is in use or that another user owns. What cannot be removed now is left
// to a later call.
func RemoveAbandoned(ctx context.Context) {
	parents := []string{"/tmp", filepath.Clean(os.TempDir())}
	for _, parent := range slices.Compact(parents) {
		dir, err := os.Open(parent)
		if err != nil {
			continue
		}
		for ctx.Err() == nil {
			names, err := dir.Readdirnames(1000) // anybody may make as many as they like
			for _, name := range names {
				if id, is := strings.CutPrefix(name, temporaryPrefix); is && ctx.Err() == nil {
					removeAbandoned(ctx, filepath.Join(parent, name), id)
				}
			}
			if err != nil {
				break
			}
		}
		_ = dir.Close()
	}
}

func removeAbandoned(ctx context.Context, dir, id string) {
	f, err := lockFolder(dir, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }()
	ctx, cancel := context.WithTimeout(ctx, abandonedWithin)
	defer cancel()
	entries, _ := f.ReadDir(1) // that of the family's user
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			EndFamily(id, int(info.Sys().(*syscall.Stat_t).Uid), abandonedWithin/2)
		}
	}
	// rm(1) can be killed: another user may own what is in the folder, and add to it all the time.
	Program{Name: "rm", Args: []string{"-rf", "--", dir}}.Start(ctx)()
}
