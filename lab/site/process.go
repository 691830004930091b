package site

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fabricform/fabricform/retry"
)

// Process identifies a process of a lab. The PID alone is not enough, because it may be reused.
type Process struct {
	PID   int    `json:"pid"`
	Start string `json:"start"` // field 22 of /proc/PID/stat: ticks since boot
}

// Identify returns the identity of a running process.
func Identify(pid int) (Process, error) {
	start, err := startTime(pid)
	return Process{PID: pid, Start: start}, err
}

// Alive reports whether the process that the lab started is still running.
func (p Process) Alive() bool {
	start, err := startTime(p.PID)
	return p.PID > 1 && err == nil && start == p.Start
}

// End kills processes of a lab with SIGKILL, and waits until they have exited.
func End(all ...Process) error {
	var errs []error
	for _, p := range all {
		if p.Alive() {
			running, err := os.FindProcess(p.PID)
			if err == nil {
				err = running.Kill()
			}
			if err != nil && !errors.Is(err, os.ErrProcessDone) {
				errs = append(errs, fmt.Errorf("end lab process %d: %w", p.PID, err))
			}
		}
	}
	for _, p := range all {
		errs = append(errs, p.awaitEnd())
	}
	return errors.Join(errs...)
}

func (p Process) awaitEnd() error {
	return retry.Until(context.Background(), 10*time.Millisecond, 5*time.Second, func() (bool, error) {
		if p.Alive() {
			return false, fmt.Errorf("lab process %d does not exit after SIGKILL", p.PID)
		}
		return true, nil
	})
}

func startTime(pid int) (string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name of the command is in parentheses and may contain anything; the fields after it are plain.
	f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
	if len(f) < 20 {
		return "", errors.New("short /proc/PID/stat")
	}
	if f[0] == "Z" {
		return "", errors.New("the process is a zombie")
	}
	return f[19], nil
}
