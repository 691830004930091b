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

// arrivals is where bundles are uploaded. It belongs to the login user, because SFTP runs as that user. After the check
// of its hash, a bundle is moved to a folder of root.
const arrivals = file.StateDir + "/bundles"

func (f stackFolder) bundles() string { return f.file(filepath.Base(host.BundleDir)) }

// has returns an error if the bundle is missing, or if its file has another content.
func (f stackFolder) has(b calls.Bundle) error {
	if err := b.Check(); err != nil {
		return err
	}
	if whole, err := isBundle(filepath.Join(f.bundles(), b.Name), b); err != nil || !whole {
		return errors.Join(err, fmt.Errorf("the bundle %s is missing on the host, or its content has changed; plan again", b.Name))
	}
	return nil
}

// removeBut removes all files of a folder, except those with these names.
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
		return fmt.Errorf("remove old bundles: %w", err)
	}
	return nil
}

// torn is how many bytes at the end of an interrupted upload are sent again: SFTP has 16 writes of 32 KiB in flight,
// so the end may have holes.
const torn = 2 << 20

// unpackedTimes is the additional space that the installation of a bundle needs, as a multiple of its size: for the
// unpacked files and the installed packages.
const unpackedTimes = 3

// bundleRoom returns where to upload a bundle, and from which byte on. It removes other bundles and interrupted uploads,
// because a host has only one stack. It returns an error if the space is too small.
func (s *server) bundleRoom(_ context.Context, b calls.Bundle) (calls.BundleRoom, error) {
	if err := b.Check(); err != nil {
		return calls.BundleRoom{}, err
	}
	for _, dir := range []string{string(s.stack), s.stack.bundles(), s.arrivals} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return calls.BundleRoom{}, fmt.Errorf("make room for %s: %w", b.Name, err)
		}
	}
	unlock, err := s.lockStack() // an installation may be reading another bundle
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
	if whole, err := isBundle(final, b); err != nil || whole {
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
		return calls.BundleRoom{}, fmt.Errorf("only %d MB are free below %s, but the installation of %s needs %d MB: make space", free/1e6, file.StateDir, b.Name, need/1e6)
	}
	return room, nil
}

// removeOther removes a file with a bundle's name but another content, or one that a power failure damaged. It does
// nothing if the file was replaced since it was checked.
func (s *server) removeOther(path string, looked fs.FileInfo) error {
	unlock, err := s.lockStack()
	if err != nil {
		return err
	}
	defer unlock()
	if now, err := os.Lstat(path); err != nil || !os.SameFile(now, looked) {
		return nil //nolint:nilerr // it was removed or replaced
	}
	return os.Remove(path)
}

// giveToLogin changes the owner of a folder to the login user, whose ID sudo sets in SUDO_UID (sudo(8)).
func giveToLogin(dir string) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	if err != nil || uid < 0 {
		return nil //nolint:nilerr // the login user is root
	}
	if err := os.Lchown(dir, uid, -1); err != nil {
		return fmt.Errorf("let the login user write to %s: %w", dir, err)
	}
	return os.Chmod(filepath.Dir(dir), 0o755) // only for access to the folder below; secret files have their own modes
}

// bundleCheck checks the hash of an uploaded bundle. It keeps a correct bundle and removes a wrong one.
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

// keepBundle moves a file to the bundles if its hash is correct. Otherwise it removes the file.
func (s *server) keepBundle(part string, b calls.Bundle) (whole bool, err error) {
	if whole, err := isBundle(part, b); err != nil || !whole {
		return false, errors.Join(err, os.Remove(part))
	}
	unlock, err := s.lockStack() // an installation may be reading a bundle with the same name, and removes all bundles at its end
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := errors.Join(os.Lchown(part, 0, 0), os.Chmod(part, 0o600), os.Rename(part, filepath.Join(s.stack.bundles(), b.Name))); err != nil {
		return false, fmt.Errorf("keep %s: %w", b.Name, err)
	}
	return true, removeBut(s.stack.bundles(), b.Name) // the partial file from a relay, if the bundle was uploaded instead
}

// isBundle reports whether a file exists and is the bundle.
func isBundle(path string, b calls.Bundle) (bool, error) {
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
