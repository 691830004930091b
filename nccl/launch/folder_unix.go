//go:build unix

package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// ownFolder reports whether the folder belongs to this user or to root, and no other user may write to it.
func ownFolder(info fs.FileInfo) bool { return owned(info) && info.Mode().Perm()&0o022 == 0 }

// owned reports whether the file belongs to this user or to root.
func owned(info fs.FileInfo) bool {
	of, is := info.Sys().(*syscall.Stat_t)
	return is && (of.Uid == 0 || int(of.Uid) == os.Geteuid())
}

// privateGroup reports whether only this user is in the group of the folder, by the convention that such a group has the user's number
// (USERGROUPS_ENAB in login.defs(5)): there, new folders are writable by the group.
func privateGroup(info fs.FileInfo) bool {
	of, is := info.Sys().(*syscall.Stat_t)
	return is && int(of.Gid) == os.Getegid() && os.Getegid() == os.Geteuid()
}

// maxLinks is the number of symbolic links in a path that Linux follows (MAXSYMLINKS in include/linux/namei.h).
const maxLinks = 40

// makeFolder makes a folder, and the missing ones above it. No other user may be able to put something else in their place: each
// folder above must be one that ownFolder accepts, be writable by this user's private group only, or be sticky as /tmp is; and each
// link on the way must belong to this user or to root. They are looked at from the top, so that what was looked at cannot change any more.
func makeFolder(dir string) error {
	if !filepath.IsAbs(dir) {
		now, err := os.Getwd()
		if err != nil {
			return err
		}
		dir = now + "/" + dir
	}
	at, rest := "/", parts(dir)
	for links := 0; len(rest) > 0; {
		above, err := os.Lstat(at)
		if err != nil {
			return err
		}
		ours := ownFolder(above) || above.Mode()&fs.ModeSticky != 0 || above.Mode().Perm()&0o002 == 0 && privateGroup(above)
		if !owned(above) || !ours {
			return fmt.Errorf(sharedFolder, at)
		}
		next := filepath.Join(at, rest[0]) // ".." leads to a folder above, because at has no links
		rest = rest[1:]
		if err := os.Mkdir(next, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			if _, there := os.Lstat(next); there != nil {
				return err
			}
		}
		switch info, err := os.Lstat(next); {
		case err != nil:
			return err
		case info.IsDir() || len(rest) == 0: // the caller looks at the folder itself
			at = next
		case info.Mode()&fs.ModeSymlink == 0:
			return fmt.Errorf("%s is not a folder: name another one", next)
		case !owned(info):
			return fmt.Errorf(sharedFolder, next)
		case links == maxLinks:
			return fmt.Errorf("%s: %w", dir, syscall.ELOOP)
		default:
			target, err := os.Readlink(next)
			if err != nil {
				return err
			}
			if filepath.IsAbs(target) {
				at = "/"
			}
			links++
			rest = append(parts(target), rest...)
		}
	}
	return nil
}

// parts returns the names in a path; "." and empty ones are left out.
func parts(path string) []string {
	return slices.DeleteFunc(strings.Split(path, "/"), func(name string) bool { return name == "" || name == "." })
}
