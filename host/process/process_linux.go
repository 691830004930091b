package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/retry"
)

// Self returns the ID of this process.
func Self() (ID, error) { return Find(os.Getpid()) }

// Find returns the ID of the process with that PID.
func Find(pid int) (ID, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ID{}, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	// The second field is the program's name in brackets, and the name may contain spaces and brackets.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 20 {
		return ID{}, fmt.Errorf("read state of process %d: its stat has %d fields after the name", pid, len(fields))
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	return ID{PID: pid, Start: start}, nil
}

// Stop kills the process (SIGKILL) and waits until it ends, or until ctx ends. It does nothing if the process has ended
// already, even if another one has its PID now.
func (p ID) Stop(ctx context.Context) error {
	if p.PID <= 1 || p.PID == os.Getpid() {
		return fmt.Errorf("stop process %d: the process is not a helper", p.PID)
	}
	fd, err := unix.PidfdOpen(p.PID, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
		return p.stopByNumber(ctx)
	}
	if err != nil {
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}
	defer func() { _ = unix.Close(fd) }()
	// Compare the start time only now that the descriptor refers to one process.
	if now, err := Find(p.PID); err != nil || now != p {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}
	return p.awaitEnd(ctx, func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	})
}

func (p ID) stopByNumber(ctx context.Context) error {
	if now, err := Find(p.PID); err != nil || now != p {
		return nil
	}
	if err := unix.Kill(p.PID, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("stop process %d: %w", p.PID, err)
	}
	return p.awaitEnd(ctx, func() bool {
		now, err := Find(p.PID)
		threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.PID))
		return err != nil || now != p || len(threads) <= 1
	})
}

// awaitEnd polls until done. A descriptor reports the end of a process only after all its threads have ended, whereas a
// zombie in /proc may still have running threads.
func (p ID) awaitEnd(ctx context.Context, done func() bool) error {
	for !done() {
		if err := retry.Pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("stop process %d: still alive after SIGKILL: %w", p.PID, err)
		}
	}
	return nil
}

// Session returns the session of this process (getsid(2)).
func Session() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return 0 // cannot fail for the calling process
	}
	return sid
}

// SpareMe asks the kernel to kill other processes first when memory runs out. Without the permission it has no effect.
func SpareMe() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0o644) }
