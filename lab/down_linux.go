package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Down ends every holder, and with it its namespaces and all in them, and removes the folder. It
// also works on what a crash has left.
func (l *Lab) Down() error {
	var errs []error
	all := []process{l.state.Net}
	if l.state.Router != nil {
		all = append(all, *l.state.Router)
	}
	for _, h := range l.state.Hosts {
		all = append(all, h.Process)
	}
	for _, p := range all {
		if p.alive() {
			if err := syscall.Kill(p.PID, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				errs = append(errs, fmt.Errorf("end lab process %d: %w", p.PID, err))
			}
		}
	}
	for _, p := range all {
		if err := awaitEnd(p); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		errs = append(errs, os.RemoveAll(l.dir))
	}
	return errors.Join(errs...)
}

func awaitEnd(p process) error {
	for deadline := time.Now().Add(5 * time.Second); p.alive(); time.Sleep(10 * time.Millisecond) {
		if state, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID)); err == nil && zombie(state) {
			return nil // ended; whoever started it has not asked yet
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("lab process %d does not end", p.PID)
		}
	}
	return nil
}

// zombie reads /proc/PID/status.
func zombie(status []byte) bool { return bytes.Contains(status, []byte("State:\tZ")) }
