//go:build !linux

package clock

import (
	"context"
	"errors"
	"time"
)

// Uptime needs Linux.
func Uptime() (time.Duration, error) { return 0, errors.ErrUnsupported }

// BootID needs Linux.
func BootID() (string, error) { return "", errors.ErrUnsupported }

// SleepUntil needs Linux.
func SleepUntil(context.Context, time.Duration) error { return errors.ErrUnsupported }
