//go:build !linux

package host

import "errors"

// Open needs Linux: hosts are Linux machines, laptops may be anything.
func Open() (Host, error) { return nil, errors.New("a fabric's host runs Linux") }
