//go:build linux

package helper

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/file"
)

// A bundle arrives in a folder of the login user's, because SFTP runs as that user, and is moved to
// one of root's once its hash was checked.
const arrivals = file.StateDir + "/bundles"

func (f stackFolder) bundles() string { return f.file(filepath.Base(host.BundleDir)) }

// has is an error where a bundle is not there any more, or another one under its name.
func (f stackFolder) has(b calls.Bundle) error {
	if err := b.Check(); err != nil {
		return err
	}
	if whole, err := hashed(filepath.Join(f.bundles(), b.Name), b); err != nil || !whole {
		return errors.Join(err, fmt.Errorf("the bundle %s is not there any more: somebody sent another one, or installed it; plan again", b.Name))
	}
	return nil
}

// removeBut removes the files of a folder, but those of these names.
func removeBut(dir string, but ...string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if !slices.Contains(but, e.Name()) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove bundles that nobody needs any more: %w", err)
	}
	return nil
}

// torn is how much of a broken upload's end is sent again: writes are under way side by side (16 of
// 32 KiB), and the last ones may have left holes.
const torn = 2 << 20

// unpackedTimes is the space that a bundle takes beside itself until it is installed, in its own
// sizes: unpacked, and its packages installed.
const unpackedTimes = 3

// bundleRoom says where to upload to, and from where on. Other bundles go, and what broken uploads
// left: a host has one stack. Too little space is an error before the first byte.
func (s *server) bundleRoom(_ context.Context, b calls.Bundle) (calls.BundleRoom, error) {
	if err := b.Check(); err != nil {
		return calls.BundleRoom{}, err
	}
	for _, dir := range []string{string(s.stack), s.stack.bundles(), s.arrivals} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return calls.BundleRoom{}, fmt.Errorf("make room for %s: %w", b.Name, err)
		}
	}
	unlock, err := s.lockStack() // an installation may read the other one
	if err != nil {
		return calls.BundleRoom{}, err
	}
	err = errors.Join(giveToLogin(s.arrivals), removeBut(s.stack.bundles(), b.Name, b.Part()), removeBut(s.arrivals, b.Part()))
	unlock()
	if err != nil {
		return calls.BundleRoom{}, err
	}
	final := filepath.Join(s.stack.bundles(), b.Name)
	looked, lost := os.Lstat(final)
	if whole, err := hashed(final, b); err != nil || whole {
		return calls.BundleRoom{Whole: whole}, err
	}
	if lost == nil {
		if err := s.removeOther(final, looked); err != nil {
			return calls.BundleRoom{}, fmt.Errorf("make room for %s: %w", b.Name, err)
		}
	}
	room := calls.BundleRoom{Path: filepath.Join(s.arrivals, b.Part())}
	if info, err := os.Lstat(room.Path); err == nil && info.Mode().IsRegular() {
		room.Have = max(0, min(info.Size(), b.Size)-torn)
	} else if err == nil {
		return calls.BundleRoom{}, fmt.Errorf("%s is not a regular file: remove it", room.Path)
	}
	free, err := file.FreeSpace(s.arrivals)
	if err != nil {
		return calls.BundleRoom{}, err
	}
	there := room.Have
	if info, err := os.Lstat(filepath.Join(s.stack.bundles(), b.Part())); err == nil { // from a relay
		there = max(there, info.Size())
	}
	if need := b.Size - there + unpackedTimes*b.Size; free < need {
		return calls.BundleRoom{}, fmt.Errorf("there are %d MB free below %s, and %s takes %d MB until it is installed: make space", free/1e6, file.StateDir, b.Name, need/1e6)
	}
	return room, nil
}

// removeOther removes a file that has a bundle's name and is another one, or what a loss of power left
// of it, unless somebody put another there since it was looked at.
func (s *server) removeOther(path string, looked fs.FileInfo) error {
	unlock, err := s.lockStack()
	if err != nil {
		return err
	}
	defer unlock()
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, looked) {
		return nil //nolint:nilerr // it is gone
	}
	return os.Remove(path)
}

// giveToLogin makes a folder the login user's own, whom sudo names (sudo(8), SUDO_UID).
func giveToLogin(dir string) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || uid < 0 {
		return nil //nolint:nilerr // the login is root's
	}
	if err := os.Lchown(dir, uid, -1); err != nil {
		return fmt.Errorf("let the login user write to %s: %w", dir, err)
	}
	return os.Chmod(filepath.Dir(dir), 0o755) // it is passed through only; what is secret in it has modes of its own
}

// bundleCheck hashes what arrived, and keeps it where it is right. What is wrong is removed.
func (s *server) bundleCheck(_ context.Context, b calls.Bundle) (calls.BundleRoom, error) {
	if err := b.Check(); err != nil {
		return calls.BundleRoom{}, err
	}
	part := filepath.Join(s.arrivals, b.Part())
	whole, err := s.keepBundle(part, b)
	if err != nil || !whole {
		return calls.BundleRoom{Path: part}, err
	}
	return calls.BundleRoom{Whole: true, Have: b.Size}, nil
}

// keepBundle hashes a file, and puts it where bundles are where it is the right one. Else it is removed.
func (s *server) keepBundle(part string, b calls.Bundle) (whole bool, err error) {
	if whole, err := hashed(part, b); err != nil || !whole {
		return false, errors.Join(err, os.Remove(part))
	}
	unlock, err := s.lockStack() // an installation may read one of the same name, and removes all at its end
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := errors.Join(os.Lchown(part, 0, 0), os.Chmod(part, 0o600), os.Rename(part, filepath.Join(s.stack.bundles(), b.Name))); err != nil {
		return false, fmt.Errorf("keep %s: %w", b.Name, err)
	}
	return true, removeBut(s.stack.bundles(), b.Name) // what came from a relay, and was sent in the end
}

// hashed says whether a file is the bundle; false where it is not there or another one.
func hashed(path string, b calls.Bundle) (bool, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!info.Mode().IsRegular() || info.Size() != b.Size) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return false, fmt.Errorf("hash %s: %w", b.Name, err)
	}
	return hex.EncodeToString(h.Sum(nil)) == b.SHA256, nil
}
