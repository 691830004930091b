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

// errLabKeeps is the error for files of managers in a namespace lab, which does not boot.
var errLabKeeps = errors.New("a namespace lab does not boot, so it has no persistent files: use `fabricform lab up -backend vm`")

// errNotLabs is the error for files in namespaces whose /etc belongs to the machine.
var errNotLabs = errors.New("this helper runs in namespaces, but /etc belongs to the machine")

// labRefuses says why a file is not written in a lab of namespaces; nil: it is. What managers
// read means nothing without a boot; what stands right in /etc, as NCCL's settings do, is read without
// one, and is written where /etc is the lab's own.
func labRefuses(path string) error {
	if !process.InLab() {
		return nil
	}
	if filepath.Dir(path) != "/etc" {
		return errLabKeeps
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

// labEtc is where a namespace lab's host keeps what it writes to /etc (lab/netns).
const labEtc = "/mnt/etc-upper"

// ownEtc reads the table of mounts (proc_pid_mountinfo(5)): whether /etc is the overlay that a lab lays
// over the machine's. The last mount on a place is the one that is seen.
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
		return errLabKeeps
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

// answer is what a program printed, if it ended by itself.
func answer(ctx context.Context, name string, e process.Ended) (Answer, error) {
	switch {
	case e.Missing:
		return Answer{}, fmt.Errorf("run %s: %w", name, ErrNoProgram)
	case ctx.Err() != nil:
		return Answer{}, fmt.Errorf("run %s: %w", name, ctx.Err())
	case e.Signal != "":
		return Answer{}, fmt.Errorf("run %s: killed by signal %s", name, e.Signal)
	}
	return Answer{Stdout: string(e.Stdout), Stderr: string(e.Stderr), Exit: e.Exit}, nil
}
