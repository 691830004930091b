// Package lock provides exclusive file locks between processes.
package lock

import "errors"

// ErrHeld is the error of Try if another process holds the lock.
var ErrHeld = errors.New("another process holds the lock")
