//go:build linux

package checkpoint

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/fabricform/fabricform/host/lock"
)

func (s *Store) withLock(do func(now Moment) error) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	unlock, err := lock.Acquire(filepath.Join(s.dir, "lock"))
	if err != nil {
		return err
	}
	defer unlock()
	now, err := s.clock()
	if err != nil {
		return err
	}
	return do(now)
}

// recordReboots returns all transactions, after it has applied the Reboot event to open ones from an earlier boot.
func (s *Store) recordReboots(now Moment) ([]*Transaction, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	for i, t := range all {
		if t.State.Open() && t.Boot != now.Boot {
			if all[i], err = t.after(Reboot, now); err != nil {
				return nil, err
			}
			if err := s.write(all[i]); err != nil {
				return nil, err
			}
			if all[i].State == Reverted && all[i].Backup != "" {
				s.enterRevert(all[i], 0, now)
			}
		}
	}
	return all, nil
}

func (s *Store) write(t *Transaction) error {
	raw, err := json.MarshalIndent(t, "", " ")
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, t.ID+".json")
	// A full disk must not prevent a rollback, or a commit that other hosts may have made already. The reserve
	// is only for these two and their history, and not for continuing.
	if ends := t.State == Committed || t.State == Reverting || t.State == Reverted || t.State == RevertFailed; ends {
		return s.replaceWithReserve(path, raw)
	}
	return s.replace(path, raw, 0o600)
}

// replaceWithReserve replaces a file, and gives up the reserve if the disk is full.
func (s *Store) replaceWithReserve(path string, raw []byte) error {
	err := s.replace(path, raw, 0o600)
	full := errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
	if full && os.Remove(s.reservePath()) == nil {
		err = s.replace(path, raw, 0o600)
	}
	return err
}

func (s *Store) reservePath() string { return filepath.Join(s.dir, "reserve") }

// reserve reserves space for the rest of a transaction, and detects a full or read-only disk before any
// change.
func (s *Store) reserve() error {
	text := make([]byte, 256<<10)
	_, _ = rand.Read(text) // a compressing file system would not reserve space for zeros
	return s.replace(s.reservePath(), text, 0o600)
}

// prune removes finished transactions, except the latest n.
func (s *Store) prune(all []*Transaction, n int) error {
	for _, t := range all[:max(len(all)-n, 0)] {
		for _, name := range []string{backupName(t.ID), preparedName(t.ID), committedName(t.ID), t.ID + ".json"} {
			if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
