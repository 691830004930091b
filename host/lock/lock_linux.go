package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Acquire waits for the exclusive lock on a file, which it creates if needed. The kernel releases the lock when its
// process ends. unlock must be called once.
func Acquire(path string) (unlock func(), err error) { return acquire(path, unix.LOCK_EX) }

// Try is Acquire without waiting: it fails with ErrHeld.
func Try(path string) (unlock func(), err error) { return acquire(path, unix.LOCK_EX|unix.LOCK_NB) }

func acquire(path string, how int) (func(), error) {
	// Open read-only: a rollback must work on a read-only file system. A named pipe in the way must not block.
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, ErrHeld
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
