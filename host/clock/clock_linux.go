// Package clock reads the time since boot, which includes sleep and which nobody can set.
package clock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Uptime is the time since boot, including sleep (CLOCK_BOOTTIME). Setting the wall clock does not change it.
func Uptime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0, fmt.Errorf("read the time since boot: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// BootID identifies this boot. Uptimes of different boots cannot be compared.
func BootID() (string, error) {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

// SleepUntil returns at that uptime, or when ctx ends. Unlike Go's own timers, it also counts the time during which
// the machine sleeps.
func SleepUntil(ctx context.Context, uptime time.Duration) error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return fmt.Errorf("make a timer: %w", err)
	}
	// A time in the past fires at once. Zero would disarm the timer.
	at := unix.NsecToTimespec(max(int64(uptime), 1))
	if err := unix.TimerfdSettime(fd, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: at}, nil); err != nil {
		return errors.Join(fmt.Errorf("set a timer: %w", err), unix.Close(fd))
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { _ = f.SetReadDeadline(time.Unix(1, 0)) }) // wakes the read below
	defer stop()
	if _, err := f.Read(make([]byte, 8)); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return fmt.Errorf("wait for a timer: %w", err)
	}
	return nil
}
