//go:build !linux

package lock

import "errors"

// Acquire needs Linux.
func Acquire(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }

// Try needs Linux.
func Try(string) (unlock func(), err error) { return nil, errors.ErrUnsupported }
