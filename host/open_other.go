//go:build !linux

package host

import (
	"context"
	"errors"
	"os"
	"time"
)

var errNoLinux = errors.New("a fabric's host runs Linux")

// ErrLocked is why TryLock failed when somebody holds the lock.
var ErrLocked = errors.New("somebody holds the lock")

// ErrNoProgram is why Ask failed where the machine has no such program.
var ErrNoProgram = errors.New("there is no such program")

// Process is one run of a program.
type Process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// Open needs Linux: hosts are Linux machines, laptops may be anything.
func Open() (Host, error) { return nil, errNoLinux }

// InLab is false where there are no namespaces.
func InLab() bool { return false }

// HasSystemd is false where there is none.
func HasSystemd() bool { return false }

// Uptime needs Linux.
func Uptime() (time.Duration, error) { return 0, errNoLinux }

// BootID needs Linux.
func BootID() (string, error) { return "", errNoLinux }

// SleepUntil needs Linux.
func SleepUntil(context.Context, time.Duration) error { return errNoLinux }

// Lock needs Linux.
func Lock(string) (func(), error) { return nil, errNoLinux }

// TryLock needs Linux.
func TryLock(string) (func(), error) { return nil, errNoLinux }

// Self needs Linux.
func Self() (Process, error) { return Process{}, errNoLinux }

// Stop needs Linux.
func (Process) Stop(context.Context) error { return errNoLinux }

// Detach needs Linux.
func Detach([]string) (*os.Process, error) { return nil, errNoLinux }

// DetachUnit needs Linux.
func DetachUnit(string, []string, *os.File) (*os.Process, error) { return nil, errNoLinux }

// StartTimer needs Linux.
func StartTimer(context.Context, string, time.Duration, []string) error { return errNoLinux }

// StopTimer needs Linux.
func StopTimer(context.Context, string) error { return errNoLinux }

// Session is 0 where there are none.
func Session() int { return 0 }

// SpareMe does nothing.
func SpareMe() {}

// FreeSpace needs Linux.
func FreeSpace(string) (int64, error) { return 0, errNoLinux }
