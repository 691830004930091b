package host

import (
	"context"
	"errors"
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
	p := process.Program{Name: c.Name, Args: c.Args, Env: c.Env, Stdin: []byte(c.Stdin), Log: log}
	return answer(ctx, c.Name, p.Start(ctx)())
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
