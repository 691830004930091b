package lock

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Acquire waits for the exclusive lock on a file, which it makes where there is none. The kernel gives
// the lock back when its holder dies. unlock must be called once.
func Acquire(path string) (unlock func(), err error) { return acquire(path, unix.LOCK_EX) }

// Try is Acquire that does not wait: it fails with ErrHeld.
func Try(path string) (unlock func(), err error) { return acquire(path, unix.LOCK_EX|unix.LOCK_NB) }

func acquire(path string, how int) (func(), error) {
	// Read only: a disk that has become that must still be locked by who goes back.
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
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
