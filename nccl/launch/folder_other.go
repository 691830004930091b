//go:build !unix

package launch

import (
	"io/fs"
	"os"
)

// ownFolder trusts the folder: on Windows, fs.FileInfo has neither an owner nor permissions.
func ownFolder(fs.FileInfo) bool { return true }

// makeFolder makes a folder, and the missing ones above it.
func makeFolder(dir string) error { return os.MkdirAll(dir, 0o755) }
