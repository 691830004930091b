package host

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// ErrLocked is why TryLock failed when somebody holds the lock.
var ErrLocked = errors.New("somebody holds the lock")

// Lock waits for the exclusive lock on a file, which it makes where there is none. The kernel gives
// the lock back when its holder dies. unlock must be called once.
func Lock(path string) (unlock func(), err error) { return lock(path, unix.LOCK_EX) }

// TryLock is Lock that does not wait: it fails with ErrLocked.
func TryLock(path string) (unlock func(), err error) { return lock(path, unix.LOCK_EX|unix.LOCK_NB) }

func lock(path string, how int) (func(), error) {
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
			return nil, ErrLocked
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}
