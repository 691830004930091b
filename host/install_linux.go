package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// errLabInstalls is why a lab of namespaces installs nothing and does not restart: packages, modules
// and units would be those of the machine that carries it.
var errLabInstalls = errors.New("a lab of namespaces shares its machine's packages and kernel, and changes neither: `fabricform lab up -backend vm` has its own")

// Run runs a program to its end; what it prints goes to log, too, as it comes.
func (kernel) Run(ctx context.Context, c Command, log io.Writer) (Answer, error) {
	if InLab() {
		return Answer{}, errLabInstalls
	}
	e := Program{Name: c.Name, Args: c.Args, Env: c.Env, Stdin: []byte(c.Stdin), Log: log}.Start(ctx)()
	switch {
	case e.Missing:
		return Answer{}, fmt.Errorf("run %s: %w", c.Name, ErrNoProgram)
	case ctx.Err() != nil:
		return Answer{}, fmt.Errorf("run %s: %w", c.Name, ctx.Err())
	case e.Signal != "":
		return Answer{}, fmt.Errorf("run %s: it was ended by %s", c.Name, e.Signal)
	}
	return Answer{Stdout: string(e.Stdout), Stderr: string(e.Stderr), Exit: e.Exit}, nil
}

// Reboot asks systemd to restart the machine, and returns at once.
func (kernel) Reboot(ctx context.Context) error {
	if InLab() {
		return errLabInstalls
	}
	if !HasSystemd() {
		return errors.New("restart the host: it does not run systemd; restart it by hand and apply again")
	}
	return systemd(ctx, []string{"systemctl", "--no-block", "reboot"})
}

// ownProgram is a program that we unpacked: below our own folder, with nothing that leads out of it.
func ownProgram(path string) (string, error) {
	if filepath.Clean(path) != path || !strings.HasPrefix(path, StateDir+"/") {
		return "", fmt.Errorf("%s is no program of the machine", path)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !strings.HasPrefix(real, StateDir+"/") || !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is no program below %s", path, StateDir)
	}
	return real, nil
}
