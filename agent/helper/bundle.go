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
	if whole, err := isBundle(filepath.Join(f.bundles(), b.Name), b, hashOf(b)); err != nil || !whole {
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

// torn is how many bytes at the end of an interrupted upload are sent again: SFTP has 512 KiB of writes in flight,
// so the end may have holes.
const torn = 2 << 20

// unpackedTimes is the additional space that the installation of a bundle needs, as a multiple of its size: for the
// unpacked files and the installed packages.
const unpackedTimes = 3

// prepareUpload returns where to upload a bundle, and from which byte on. It removes other bundles and interrupted uploads,
// because a host has only one stack. It returns an error if the space is too small.
func (s *server) prepareUpload(_ context.Context, b calls.Bundle) (calls.BundleUpload, error) {
	if err := b.Check(); err != nil {
		return calls.BundleUpload{}, err
	}
	for _, dir := range []string{string(s.stack), s.stack.bundles(), s.arrivals} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return calls.BundleUpload{}, fmt.Errorf("make room for %s: %w", b.Name, err)
		}
	}
	unlock, err := s.lockStack() // an installation may be reading another bundle
	if err != nil {
		return calls.BundleUpload{}, err
	}
	err = errors.Join(giveToLogin(s.arrivals), removeBut(s.stack.bundles(), b.Name, b.Part()), removeBut(s.arrivals, b.Part()))
	unlock()
	if err != nil {
		return calls.BundleUpload{}, err
	}
	final := filepath.Join(s.stack.bundles(), b.Name)
	looked, lost := os.Lstat(final)
	if whole, err := isBundle(final, b, hashOf(b)); err != nil || whole {
		return calls.BundleUpload{Whole: whole}, err
	}
	if lost == nil {
		if err := s.removeOther(final, looked); err != nil {
			return calls.BundleUpload{}, fmt.Errorf("make room for %s: %w", b.Name, err)
		}
	}
	to := calls.BundleUpload{Path: filepath.Join(s.arrivals, b.Part())}
	if info, err := os.Lstat(to.Path); err == nil && info.Mode().IsRegular() {
		to.Have = max(0, min(info.Size(), b.Size)-torn)
	} else if err == nil {
		return calls.BundleUpload{}, fmt.Errorf("%s is not a regular file: remove it", to.Path)
	}
	free, err := file.FreeSpace(s.arrivals)
	if err != nil {
		return calls.BundleUpload{}, err
	}
	there := to.Have
	if info, err := os.Lstat(filepath.Join(s.stack.bundles(), b.Part())); err == nil { // from a relay
		there = max(there, info.Size())
	}
	if need := b.Size - there + unpackedTimes*b.Size; free < need {
		return calls.BundleUpload{}, fmt.Errorf("only %d MB are free below %s, but the installation of %s needs %d MB: make space",
			free/1e6, file.StateDir, b.Name, need/1e6)
	}
	return to, nil
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

// bundleCheck checks an uploaded bundle by its seal: all hosts would pay for a hash at the same time, and the installer checks the
// SHA-256 again before it uses the file. It keeps a correct bundle and removes a wrong one.
func (s *server) bundleCheck(_ context.Context, p calls.UploadedBundle) (calls.BundleUpload, error) {
	b := p.Bundle
	if err := b.Check(); err != nil {
		return calls.BundleUpload{}, err
	}
	part := filepath.Join(s.arrivals, b.Part())
	whole, err := s.storeBundle(part, b, p.Seal.Matches)
	if err != nil || !whole {
		return calls.BundleUpload{Path: part}, err
	}
	return calls.BundleUpload{Whole: true, Have: b.Size}, nil
}

// storeBundle moves a file to the bundles if its content is correct. Otherwise it removes the file.
func (s *server) storeBundle(part string, b calls.Bundle, correct check) (whole bool, err error) {
	if whole, err := isBundle(part, b, correct); err != nil || !whole {
		return false, errors.Join(err, os.Remove(part))
	}
	unlock, err := s.lockStack() // an installation may be reading a bundle with the same name, and removes all bundles at its end
	if err != nil {
		return false, err
	}
	defer unlock()
	if err := errors.Join(os.Lchown(part, 0, 0), os.Chmod(part, 0o600),
		os.Rename(part, filepath.Join(s.stack.bundles(), b.Name))); err != nil {
		return false, fmt.Errorf("keep %s: %w", b.Name, err)
	}
	return true, removeBut(s.stack.bundles(), b.Name) // the partial file from a relay, if the bundle was uploaded instead
}

// check reports whether content, which it reads to its end, is that of a bundle.
type check func(content io.Reader) (bool, error)

// hashOf checks the SHA-256 of a bundle.
func hashOf(b calls.Bundle) check {
	return func(content io.Reader) (bool, error) {
		h := sha256.New()
		_, err := io.Copy(h, content)
		return err == nil && hex.EncodeToString(h.Sum(nil)) == b.SHA256, err
	}
}

// isBundle reports whether a file exists and is the bundle.
func isBundle(path string, b calls.Bundle, correct check) (bool, error) {
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
	whole, err := correct(f)
	if err != nil {
		return false, fmt.Errorf("check %s: %w", b.Name, err)
	}
	return whole, nil
}
