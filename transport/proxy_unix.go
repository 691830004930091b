//go:build unix

package transport

import (
	"os"
	"os/exec"
	"syscall"
)

// inOwnSession makes a program the leader of a session, and so of a process group.
func inOwnSession(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// signalSession signals the leader of a session and what it started, which may be gone.
func signalSession(leader *os.Process, s syscall.Signal) { _ = syscall.Kill(-leader.Pid, s) }
