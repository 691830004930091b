package host

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/process"
)

func (kernel) LoginFolder(ctx context.Context, a Account) (bool, error) {
	return within(ctx, a.Home, func(string) (bool, error) { return hasLoginFolder(a) })
}

func (kernel) LoginFile(ctx context.Context, a Account, name string) (*LoginFile, error) {
	return within(ctx, a.Home, func(string) (*LoginFile, error) { return loginFile(a, name) })
}

func (kernel) HomeID(ctx context.Context, a Account) (string, error) {
	return within(ctx, a.Home, func(string) (string, error) { return homeID(a) })
}

func (kernel) PutLoginFolder(a Account) error {
	return ownHome(func() error { return putLoginFolder(a) })
}

func (kernel) PutLoginFile(a Account, name string, was *LoginFile, text []byte, perm fs.FileMode) error {
	return ownHome(func() error { return putLoginFile(a, name, was, text, perm) })
}

func (kernel) RemoveLoginFile(a Account, name string) error {
	return ownHome(func() error { return removeLoginFile(a, name) })
}

func (kernel) RemoveLoginFolder(a Account) error {
	return ownHome(func() error { return removeLoginFolder(a) })
}

// ownHome refuses homes of the machine from within the namespaces of a lab: a host of a lab has homes of its own.
func ownHome(do func() error) error {
	if process.InLab() {
		if err := labRefuses("/etc/fabricform"); err != nil {
			return err
		}
	}
	return do()
}

// asUser runs do with the file access rights of the user, and gives do an open home. New files then belong to the user, and
// a file server that distrusts root accepts them. setfsuid(2) applies to one thread, and so does the system call of setgroups(2).
func asUser(a Account, do func(home int) error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked after a failure: the thread then ends with this goroutine
		if os.Geteuid() == a.UID {
			done <- inHome(a, do)
			runtime.UnlockOSThread()
			return
		}
		// Files get the group of fsgid. setfsuid drops the capabilities that bypass permissions, so it comes last.
		own, err := unix.Getgroups()
		if err == nil {
			err = unix.Setgroups(a.Groups)
		}
		_, _ = unix.SetfsgidRetGid(a.GID)
		_, _ = unix.SetfsuidRetUid(a.UID)
		now, _ := unix.SetfsuidRetUid(-1) // returns the current value
		if err != nil || now != a.UID {
			err = fmt.Errorf("access the home of %s as this user: not permitted", a.Name)
		} else {
			err = inHome(a, do)
		}
		_, _ = unix.SetfsuidRetUid(os.Geteuid())
		_, _ = unix.SetfsgidRetGid(os.Getegid())
		back, _ := unix.SetfsuidRetUid(-1)
		restored := unix.Setgroups(own)
		done <- err
		if back == os.Geteuid() && restored == nil {
			runtime.UnlockOSThread()
		}
	}()
	return <-done
}

// inHome opens the home without following a link that others could have made, and checks every folder on the way: nobody
// but root and the user may be able to replace it.
func inHome(a Account, do func(home int) error) error {
	real, err := filepath.EvalSymlinks(a.Home)
	if err != nil {
		return fmt.Errorf("find the home of %s: %w", a.Name, err)
	}
	at, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(at) }()
	path := "/"
	for part := range strings.SplitSeq(strings.Trim(real, "/"), "/") {
		if part == "" {
			continue
		}
		path = filepath.Join(path, part)
		next, err := unix.Openat(at, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		_ = unix.Close(at) // was only read
		at = next
		if err := checkTrusted(at, path, a, path == filepath.Clean(real)); err != nil {
			return err
		}
	}
	return do(at)
}

// checkTrusted returns an error if somebody other than root and the user could replace what is in the folder. Above the home, a
// sticky folder such as /tmp is safe.
func checkTrusted(fd int, path string, a Account, home bool) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	sticky := s.Mode&unix.S_ISVTX != 0 && !home
	switch {
	case s.Uid != 0 && int(s.Uid) != a.UID:
		return fmt.Errorf("%s belongs to user %d, not to %s: refused, because that user could replace the keys", path, s.Uid, a.Name)
	case s.Mode&0o022 != 0 && !sticky:
		return fmt.Errorf("%s is writable by others (mode %04o): refused, because they could replace the keys. Run chmod go-w on it",
			path, s.Mode&0o7777)
	}
	return nil
}

// openLogin opens ~/.ssh; fs.ErrNotExist if there is none.
func openLogin(home int, a Account) (int, error) {
	path := filepath.Join(a.Home, ".ssh")
	fd, err := unix.Openat(home, ".ssh", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR):
		return -1, fmt.Errorf("%s is not a folder, or is a symbolic link: refused", path)
	case err != nil:
		return -1, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	if err := belongs(fd, path, a); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// belongs returns an error unless the folder or file is the user's, and only the user can write to it.
func belongs(fd int, path string, a Account) error {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	switch {
	case int(s.Uid) != a.UID:
		return fmt.Errorf("%s belongs to user %d, not to %s: refused", path, s.Uid, a.Name)
	case s.Mode&0o022 != 0:
		return fmt.Errorf("%s is writable by others (mode %04o): refused. Run chmod go-w on it", path, s.Mode&0o7777)
	}
	return nil
}

func hasLoginFolder(a Account) (has bool, err error) {
	err = asUser(a, func(home int) error {
		fd, err := openLogin(home, a)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil {
			has = true
			_ = unix.Close(fd)
		}
		return err
	})
	return has, err
}

// inLogin opens ~/.ssh as the user.
func inLogin(a Account, name string, do func(dir int) error) error {
	if err := LoginName(name); err != nil {
		return err
	}
	return asUser(a, func(home int) error {
		dir, err := openLogin(home, a)
		if err != nil {
			return err
		}
		defer func() { _ = unix.Close(dir) }()
		return do(dir)
	})
}

// maxLoginFile bounds a file of ~/.ssh.
const maxLoginFile = 4 << 20

func loginFile(a Account, name string) (out *LoginFile, err error) {
	err = inLogin(a, name, func(dir int) error {
		out, err = readLogin(dir, a, name)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) { // ~/.ssh
		return nil, nil
	}
	return out, err
}

// readLogin reads a file of an open ~/.ssh; nil if there is none.
func readLogin(dir int, a Account, name string) (*LoginFile, error) {
	path := filepath.Join(a.Home, ".ssh", name)
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%s is a symbolic link: refused", path)
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case err != nil:
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	f := os.NewFile(uintptr(fd), path)
	defer f.Close()
	if err := belongs(fd, path, a); err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file: refused", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxLoginFile+1))
	if err == nil && len(text) > maxLoginFile {
		err = fmt.Errorf("%s is larger than 4 MiB: refused", path)
	}
	if err != nil {
		return nil, err
	}
	return &LoginFile{Perm: info.Mode().Perm(), Text: text}, nil
}

func putLoginFolder(a Account) error {
	return asUser(a, func(home int) error {
		err := unix.Mkdirat(home, ".ssh", 0o700)
		if errors.Is(err, unix.EEXIST) {
			err = nil
		}
		if err != nil {
			return fmt.Errorf("make %s/.ssh: %w", a.Home, err)
		}
		dir, err := openLogin(home, a)
		if err != nil {
			return err
		}
		return errors.Join(unix.Fsync(dir), unix.Close(dir))
	})
}

// putLoginFile makes or replaces a file atomically and syncs it, unless it is not as it was. Several hosts may write at once to a home that
// they share, so each stages a file of its own.
func putLoginFile(a Account, name string, was *LoginFile, text []byte, perm fs.FileMode) error {
	path, staged := filepath.Join(a.Home, ".ssh", name), stagedLogin(name)+rand.Text()
	err := inLogin(a, name, func(dir int) error {
		fd, err := unix.Openat(dir, staged, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), path)
		_, err = f.Write(text)
		if err == nil {
			err = f.Chmod(perm)
		}
		if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
			err = checkUnchanged(dir, a, name, was) // last, because a user may edit the file at any time
		}
		switch {
		case err != nil:
		case was == nil:
			err = publish(dir, a, staged, name, text)
		default:
			err = unix.Renameat(dir, staged, dir, name)
		}
		if err != nil {
			return errors.Join(err, unix.Unlinkat(dir, staged, 0))
		}
		return unix.Fsync(dir)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// publish gives a staged file its name, or returns ErrChanged if there is such a file. If two hosts make a key at the same time in a
// home that they share, only one succeeds: link(2) replaces nothing, even on NFS. NFS may lose the answer to a link that was made and
// send the request again, so an existing file is compared with the staged one (open(2), about O_EXCL). A file system without hard links
// cannot tell the two hosts apart.
func publish(dir int, a Account, staged, name string, text []byte) error {
	err := unix.Linkat(dir, staged, dir, name, 0)
	switch {
	case errors.Is(err, unix.EEXIST):
		if now, err := readLogin(dir, a, name); err != nil || now == nil || !bytes.Equal(now.Text, text) {
			return errors.Join(ErrChanged, err)
		}
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOTSUP), errors.Is(err, unix.ENOSYS):
		return unix.Renameat(dir, staged, dir, name)
	case err != nil:
		return err
	}
	return unix.Unlinkat(dir, staged, 0)
}

// checkUnchanged returns an error unless a file of an open ~/.ssh is as it was.
func checkUnchanged(dir int, a Account, name string, was *LoginFile) error {
	now, err := readLogin(dir, a, name)
	if err == nil && ((now == nil) != (was == nil) || now != nil && (now.Perm != was.Perm || !bytes.Equal(now.Text, was.Text))) {
		err = ErrChanged
	}
	return err
}

// stagedLogin begins the names of staged files, which a crash may leave.
func stagedLogin(name string) string { return "." + name + ".fabricform-new" }

func removeLoginFile(a Account, name string) error {
	err := inLogin(a, name, func(dir int) error {
		here, err := unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(here), filepath.Join(a.Home, ".ssh"))
		defer f.Close()
		names, err := f.Readdirnames(-1)
		if err != nil {
			return err
		}
		for _, n := range names {
			if n != name && !strings.HasPrefix(n, stagedLogin(name)) {
				continue
			}
			if err := unix.Unlinkat(dir, n, 0); err != nil && !errors.Is(err, unix.ENOENT) {
				return err
			}
		}
		return unix.Fsync(dir)
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", filepath.Join(a.Home, ".ssh", name), err)
	}
	return nil
}

// removeLoginFolder removes ~/.ssh if it is empty.
func removeLoginFolder(a Account) error {
	return asUser(a, func(home int) error {
		err := unix.Unlinkat(home, ".ssh", unix.AT_REMOVEDIR)
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("remove %s/.ssh: %w", a.Home, err)
		}
		return nil
	})
}

// localFilesystems are those whose homes no other machine has. Their device and inode numbers mean something on this
// machine alone, so the boot ID is part of the home's identity: containers of one machine can share a home.
var localFilesystems = []string{"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs", "jfs", "reiserfs",
	"tmpfs", "ramfs", "overlay", "rootfs"}

// homeID identifies the folder that is the home: two hosts with the same ID share it. On a file server, the source of the
// mount and the inode number are the same on all of its clients.
func homeID(a Account) (id string, err error) {
	err = asUser(a, func(home int) error {
		var x unix.Statx_t
		if err := unix.Statx(home, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID, &x); err != nil {
			return fmt.Errorf("read %s: %w", a.Home, err)
		}
		table, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return err
		}
		kind, source := mountOf(string(table), fmt.Sprint(x.Mnt_id))
		if kind != "" && !slices.Contains(localFilesystems, kind) {
			id = fmt.Sprintf("%s %s %d", kind, source, x.Ino)
			return nil
		}
		boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
		id = fmt.Sprintf("local %s %d:%d %d", strings.TrimSpace(string(boot)), x.Dev_major, x.Dev_minor, x.Ino)
		return err
	})
	return id, err
}

// mountOf returns the type and the source of a mount (proc_pid_mountinfo(5)).
func mountOf(table, mount string) (kind, source string) {
	for line := range strings.Lines(table) {
		before, after, found := strings.Cut(line, " - ")
		at, about := strings.Fields(before), strings.Fields(after)
		if found && len(at) > 0 && len(about) > 1 && at[0] == mount {
			return about[0], about[1]
		}
	}
	return "", ""
}
