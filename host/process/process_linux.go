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

// Self is the process that asks.
func Self() (ID, error) { return Find(os.Getpid()) }

// Find reads when a process started.
func Find(pid int) (ID, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ID{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	// The second field is the program's name in brackets, and may hold spaces and brackets itself.
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 20 {
		return ID{}, fmt.Errorf("look at process %d: its stat has %d fields after the name", pid, len(fields))
	}
	start, err := strconv.ParseUint(string(fields[19]), 10, 64)
	if err != nil {
		return ID{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	return ID{PID: pid, Start: start}, nil
}

// Stop kills the process (SIGKILL) and waits until it is gone, until ctx ends. A process that is
// gone already is none to stop, and so is another one that has its number now.
func (p ID) Stop(ctx context.Context) error {
	if p.PID <= 1 || p.PID == os.Getpid() {
		return fmt.Errorf("stop process %d: that is no helper", p.PID)
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
	// The descriptor holds on to one process; only then is the start worth comparing.
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

// awaitEnd polls until done. The descriptor of a process tells its end only once all its threads are
// gone; a zombie's /proc entry may still have threads that work.
func (p ID) awaitEnd(ctx context.Context, done func() bool) error {
	for !done() {
		if err := retry.Pause(ctx, 2*time.Millisecond); err != nil {
			return fmt.Errorf("stop process %d: it was killed and has not ended: %w", p.PID, err)
		}
	}
	return nil
}

// Session is the session that this process belongs to (getsid(2)).
func Session() int {
	sid, err := unix.Getsid(0)
	if err != nil {
		return 0 // cannot fail for oneself
	}
	return sid
}

// SpareMe asks the kernel to kill other programs before this one where memory runs out. It is a
// wish: one who may not utter it is no worse off.
func SpareMe() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("-900"), 0o644) }
