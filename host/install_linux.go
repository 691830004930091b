package host

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/fabricform/fabricform/host/process"
)

// errLabInstalls is why a lab of namespaces installs nothing and does not restart: packages, modules
// and units would be those of the machine that carries it.
var errLabInstalls = errors.New("a lab of namespaces shares its machine's packages and kernel, and changes neither: `fabricform lab up -backend vm` has its own")

// Run runs a program to its end; what it prints goes to log, too, as it comes.
func (kernel) Run(ctx context.Context, c Command, log io.Writer) (Answer, error) {
	if process.InLab() {
		return Answer{}, errLabInstalls
	}
	e := process.Program{Name: c.Name, Args: c.Args, Env: c.Env, Stdin: []byte(c.Stdin), Log: log}.Start(ctx)()
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
	if process.InLab() {
		return errLabInstalls
	}
	if !process.HasSystemd() {
		return errors.New("restart the host: it does not run systemd; restart it by hand and apply again")
	}
	return process.Systemd(ctx, []string{"systemctl", "--no-block", "reboot"})
}
