package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Detach starts a program in a session of its own, without a terminal or open files, in the root folder. The program
// outlives this process and its login. The caller must wait for the process or release it.
func Detach(argv []string) (*os.Process, error) { return detach(argv, nil) }

// DetachUnit is Detach for a program that must survive the end of a login. systemd kills the processes of a login's
// scope (logind.conf(5), KillUserProcesses=), so the program gets a scope of its own if systemd runs. Its stderr
// goes to the file.
func DetachUnit(unit string, argv []string, stderr *os.File) (*os.Process, error) {
	if HasSystemd() {
		argv = scopeArguments(unit, argv)
	}
	return detach(argv, stderr)
}

// scopeArguments returns a command line with which systemd-run moves itself into a new scope and then executes the
// program.
func scopeArguments(unit string, argv []string) []string {
	return append([]string{"systemd-run", "--quiet", "--collect", "--scope", "--unit=" + unit, "--"}, argv...)
}

func detach(argv []string, stderr *os.File) (*os.Process, error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	if stderr != nil { // a nil *os.File in the interface would not be nil
		cmd.Stderr = stderr
	}
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil { // nil stdin, stdout and stderr become /dev/null
		return nil, fmt.Errorf("start %s: %w", strings.Join(argv, " "), err)
	}
	return cmd.Process, nil
}

// HasSystemd reports whether systemd is process 1 of this machine (by the folder that sd_booted(3) checks) and this
// program is not in a lab. Units started from a lab would run in the machine's own systemd.
func HasSystemd() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir() && !InLab()
}

// systemdPatience is how long systemd may take to answer.
const systemdPatience = 10 * time.Second

// StartTimer makes systemd start a program once, after that time, even if this process ends. unit has no suffix.
func StartTimer(ctx context.Context, unit string, after time.Duration, argv []string) error {
	return Systemd(ctx, timerArguments(unit, after, argv))
}

func timerArguments(unit string, after time.Duration, argv []string) []string {
	return append([]string{"systemd-run", "--quiet", "--collect", "--unit=" + unit,
		"--on-active=" + fmt.Sprintf("%dus", after.Microseconds()),
		"--timer-property=AccuracySec=50ms", // a minute by default (systemd.timer(5))
		"--property=Restart=on-failure", "--property=RestartSec=1", "--property=StartLimitIntervalSec=0",
		"--"}, argv...)
}

// StopTimer removes a timer that StartTimer set. It is not an error if the timer has fired or was never set.
func StopTimer(ctx context.Context, unit string) error {
	if _, err := os.Lstat(filepath.Join("/run/systemd/transient", unit+".timer")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return Systemd(ctx, []string{"systemctl", "--quiet", "stop", unit + ".timer"})
}

// Systemd runs a client program of systemd and waits for it.
func Systemd(ctx context.Context, argv []string) error {
	if !HasSystemd() {
		return errors.New(argv[0] + ": this host does not run systemd")
	}
	ctx, cancel := context.WithTimeout(ctx, systemdPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", argv[0], err, strings.TrimSpace(string(out)))
	}
	return nil
}
