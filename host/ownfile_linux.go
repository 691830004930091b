package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// ErrNoProgram is why Ask failed where the machine has no such program.
var ErrNoProgram = errors.New("there is no such program")

func (kernel) Stat(path string) (FileStat, error) { return fileStat(path) }

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

// errLabKeeps is why a lab of namespaces has no files of managers: it does not boot.
var errLabKeeps = errors.New("a lab of namespaces does not boot, and keeps nothing: `fabricform lab up -backend vm` does")

func (kernel) PutFile(path string, text []byte, perm fs.FileMode) error {
	if InLab() {
		return errLabKeeps
	}
	return putFile("/", path, text, perm)
}

func (kernel) PutFolder(path string) error {
	if InLab() {
		return errLabKeeps
	}
	return putFolder("/", path)
}

func (kernel) RemoveFile(path string) error {
	if InLab() {
		return errLabKeeps
	}
	return removeFile("/", path)
}

func (kernel) Stage(files map[string][]byte) (string, func() error, error) { return stage(files) }

func (kernel) Ask(ctx context.Context, stdin []byte, name string, args ...string) (Answer, error) {
	return ask(ctx, stdin, name, args...)
}

func ask(ctx context.Context, stdin []byte, name string, args ...string) (Answer, error) {
	e := Program{Name: name, Args: args, Stdin: stdin}.Start(ctx)()
	switch {
	case e.Missing:
		return Answer{}, fmt.Errorf("run %s: %w", name, ErrNoProgram)
	case ctx.Err() != nil:
		return Answer{}, fmt.Errorf("run %s: %w", name, ctx.Err())
	case e.Signal != "":
		return Answer{}, fmt.Errorf("run %s: it was ended by %s", name, e.Signal)
	}
	return Answer{Stdout: string(e.Stdout), Stderr: string(e.Stderr), Exit: e.Exit}, nil
}
