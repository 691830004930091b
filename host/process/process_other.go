//go:build !linux

package process

import (
	"context"
	"errors"
	"os"
	"time"
)

// Self needs Linux.
func Self() (ID, error) { return ID{}, errors.ErrUnsupported }

// Stop needs Linux.
func (ID) Stop(context.Context) error { return errors.ErrUnsupported }

// InLab is false where there are no namespaces.
func InLab() bool { return false }

// HasSystemd is false where there is none.
func HasSystemd() bool { return false }

// Detach needs Linux.
func Detach([]string) (*os.Process, error) { return nil, errors.ErrUnsupported }

// DetachUnit needs Linux.
func DetachUnit(string, []string, *os.File) (*os.Process, error) { return nil, errors.ErrUnsupported }

// StartTimer needs Linux.
func StartTimer(context.Context, string, time.Duration, []string) error { return errors.ErrUnsupported }

// StopTimer needs Linux.
func StopTimer(context.Context, string) error { return errors.ErrUnsupported }

// Session is 0 where there are none.
func Session() int { return 0 }

// SpareMe does nothing.
func SpareMe() {}
