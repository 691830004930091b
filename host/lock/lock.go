// Package lock has exclusive locks between processes, on files.
package lock

import "errors"

// ErrHeld is why Try failed when somebody holds the lock.
var ErrHeld = errors.New("somebody holds the lock")
