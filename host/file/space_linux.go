package file

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// FreeSpace returns the number of bytes that a user may still write to the file system of a folder.
func FreeSpace(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("read the free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * s.Bsize, nil
}
