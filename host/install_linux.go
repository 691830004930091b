package host

import (
	"context"
	"errors"
	"io"

	"github.com/fabricform/fabricform/host/process"
)

// errLabInstalls is the error of Run and Reboot in a namespace lab: packages, modules and units would be those of the
// lab's machine.
var errLabInstalls = errors.New(
	"a namespace lab shares the packages and the kernel of its machine and cannot change them: use `fabricform lab up -backend vm`")

// Run runs a program to its end. Its output also goes to log at once.
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
		return errors.New("cannot restart the host, because it does not run systemd: restart it by hand and apply again")
	}
	return process.Systemd(ctx, []string{"systemctl", "--no-block", "reboot"})
}
