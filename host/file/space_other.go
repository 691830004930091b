//go:build !linux

package file

import "errors"

// FreeSpace needs Linux.
func FreeSpace(string) (int64, error) { return 0, errors.ErrUnsupported }
