package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/host/process"
)

func (kernel) Stat(ctx context.Context, path string) (FileStat, error) {
	return within(ctx, path, fileStat)
}

func fileStat(path string) (FileStat, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return FileStat{}, err
	}
	s := FileStat{Mode: info.Mode()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.UID, s.GID = int(sys.Uid), int(sys.Gid)
	}
	return s, nil
}

// errLabFiles is the error for files of managers in a namespace lab, which does not boot.
var errLabFiles = errors.New("a namespace lab does not boot, so it has no persistent files: use `fabricform lab up -backend vm`")

// errNotLabs is the error for files in namespaces whose /etc belongs to the machine.
var errNotLabs = errors.New("this helper runs in namespaces, but /etc belongs to the machine")

// labRefuses returns an error for a file that cannot be written in a namespace lab. Files of managers have no effect
// there, because a lab does not boot. Files directly in /etc, such as NCCL's settings, and those of SSH take effect without
// a boot, and can be written if /etc belongs to the lab.
func labRefuses(path string) error {
	if !process.InLab() {
		return nil
	}
	if !slices.Contains([]string{"/etc", "/etc/ssh", "/etc/ssh/ssh_config.d"}, filepath.Dir(path)) {
		return errLabFiles
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("find the owner of /etc: %w", err)
	}
	if !ownEtc(string(table)) {
		return errNotLabs
	}
	return nil
}

// labEtc is the folder in which a host of a namespace lab stores its changes to /etc (lab/netns).
const labEtc = "/mnt/etc-upper"

// ownEtc reports whether /etc is the overlay that a lab mounts over the machine's, by the table of mounts
// (proc_pid_mountinfo(5)). If there are several mounts on /etc, the last one is visible.
func ownEtc(mountinfo string) (own bool) {
	for line := range strings.Lines(mountinfo) {
		before, after, found := strings.Cut(line, " - ")
		at, kind := strings.Fields(before), strings.Fields(after)
		if !found || len(at) < 5 || len(kind) < 3 || at[4] != "/etc" {
			continue
		}
		own = kind[0] == "overlay" && slices.Contains(strings.Split(kind[2], ","), "upperdir="+labEtc)
	}
	return own
}

func (kernel) PutFile(path string, text []byte, perm fs.FileMode) error {
	if err := labRefuses(path); err != nil {
		return err
	}
	return putFile("/", path, text, perm)
}

func (kernel) PutFolder(path string) error {
	if process.InLab() {
		return errLabFiles
	}
	return putFolder("/", path)
}

func (kernel) RemoveFile(path string) error {
	if err := labRefuses(path); err != nil {
		return err
	}
	return removeFile("/", path)
}

func (kernel) Stage(files map[string][]byte) (string, func() error, error) { return stage(files) }

func (kernel) Ask(ctx context.Context, stdin []byte, name string, args ...string) (Answer, error) {
	return ask(ctx, stdin, name, args...)
}

func ask(ctx context.Context, stdin []byte, name string, args ...string) (Answer, error) {
	return answer(ctx, name, process.Program{Name: name, Args: args, Stdin: stdin}.Start(ctx)())
}

// answer returns the output of a program that exited, and an error for one that did not start or was killed.
func answer(ctx context.Context, name string, e process.Ended) (Answer, error) {
	switch {
	case e.Missing:
		return Answer{}, fmt.Errorf("run %s: %w", name, ErrNoProgram)
	case ctx.Err() != nil && len(e.Alive) > 0:
		return Answer{}, fmt.Errorf("run %s: %w; process %d does not end after SIGKILL and was abandoned", name, ctx.Err(), e.Alive[0])
	case ctx.Err() != nil:
		return Answer{}, fmt.Errorf("run %s: %w", name, ctx.Err())
	case e.Signal != "":
		return Answer{}, fmt.Errorf("run %s: killed by signal %s", name, e.Signal)
	}
	return Answer{Stdout: string(e.Stdout), Stderr: string(e.Stderr), Exit: e.Exit}, nil
}

func putFile(root, path string, text []byte, perm fs.FileMode) error {
	if err := OwnFile(path); err != nil {
		return err
	}
	if err := file.Replace(filepath.Join(root, path), text, perm); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func putFolder(root, path string) error {
	if err := ownFolder(path); err != nil {
		return err
	}
	err := os.Mkdir(filepath.Join(root, path), 0o755)
	if err == nil {
		err = file.SyncFolder(filepath.Dir(filepath.Join(root, path)))
	} else if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("make folder %s: %w", path, err)
	}
	return nil
}

func removeFile(root, path string) error {
	full := filepath.Join(root, path)
	info, err := os.Lstat(full)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = nil
	case err == nil && !info.IsDir():
		err = OwnFile(path)
	case err == nil:
		err = ownFolder(path)
	}
	if err == nil {
		err = file.Remove(full)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// stage writes files below a new folder. discard removes all of them, so they are not synced.
func stage(files map[string][]byte) (root string, discard func() error, err error) {
	root, discard, err = process.MakeTemporary()
	if err != nil {
		return "", nil, fmt.Errorf("stage files: %w", err)
	}
	for path, text := range files {
		full := filepath.Join(root, filepath.Clean("/"+path))
		err := os.MkdirAll(filepath.Dir(full), 0o755)
		if err == nil {
			err = os.WriteFile(full, text, 0o600)
		}
		if err != nil {
			return "", nil, errors.Join(fmt.Errorf("stage files: %w", err), discard())
		}
	}
	return root, discard, nil
}
