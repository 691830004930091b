//go:build linux

package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/resource"
)

// appliedSuffix ends the names of the files with what was applied last, one for each fabric, beside the transactions.
const appliedSuffix = ".applied"

// appliedHead begins the first line of such a file, before the SHA-256 of the rest. The digest detects damage. It does not protect against
// forgery: only root can write the file.
const appliedHead = "fabricform applied 1 "

// AppliedPath returns the path of the file with what a fabric applied last, for callers that keep a copy of it.
func (s *Store) AppliedPath(fabric string) (string, error) {
	if fabric == "" || filepath.Base(fabric) != fabric || strings.HasPrefix(fabric, ".") {
		return "", fmt.Errorf("%q is not a valid name of a fabric", fabric)
	}
	return filepath.Join(s.dir, fabric+appliedSuffix), nil
}

// KeepApplied stores what was applied; nothing to compare removes the file. What is larger than a file that a transaction can back up
// is not kept either.
func (s *Store) KeepApplied(a *resource.Applied) error {
	path, err := s.AppliedPath(a.Fabric)
	if err != nil {
		return fmt.Errorf("keep what was applied: %w", err)
	}
	raw, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("keep what was applied: %w", err)
	}
	text := append(fmt.Appendf(nil, "%s%x\n", appliedHead, sha256.Sum256(raw)), raw...)
	return wrap("keep what was applied", s.withLock(func(Moment) error {
		if len(a.Resources) == 0 || len(text) > maxSavedFile {
			return file.Remove(path)
		}
		if err := s.replaceWithReserve(path, text); err != nil {
			return errors.Join(err, file.Remove(path)) // what was applied before is not what the host is now
		}
		return nil
	}))
}

// Applied returns what each fabric applied last on this host, sorted by fabric. It waits for no lock. The error of a file that is
// damaged, or that somebody else could have written, says how to replace it.
func (s *Store) Applied() (out []*resource.Applied, err error) {
	entries, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was applied: %w", err)
	}
	for _, e := range entries {
		fabric, is := strings.CutSuffix(e.Name(), appliedSuffix)
		if !is {
			continue
		}
		a, err := readApplied(filepath.Join(s.dir, e.Name()), fabric)
		if err != nil {
			return nil, fmt.Errorf("read what was applied: %w; remove the file, and apply the fabric again", err)
		}
		out = append(out, a)
	}
	return out, nil
}

func readApplied(path, fabric string) (*resource.Applied, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	owner, _ := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular() || info.Size() > maxSavedFile:
		return nil, fmt.Errorf("%s is not a regular file of at most 1 MiB", path)
	case owner == nil || int(owner.Uid) != os.Geteuid() || info.Mode().Perm()&0o077 != 0:
		return nil, fmt.Errorf("%s can be read or written by others than its owner", path)
	}
	text, err := file.Read(path)
	if err != nil {
		return nil, err
	}
	head, raw, _ := bytes.Cut(text, []byte("\n"))
	if string(head) != fmt.Sprintf("%s%x", appliedHead, sha256.Sum256(raw)) {
		return nil, fmt.Errorf("%s is damaged, or another release wrote it", path)
	}
	var a resource.Applied
	if err := json.Unmarshal(raw, &a); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if a.Fabric != fabric {
		return nil, fmt.Errorf("%s belongs to fabric %q", path, a.Fabric)
	}
	return &a, nil
}
