//go:build linux

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/fabricform/fabricform/host/file"
	"github.com/fabricform/fabricform/resource"
)

// keptEntries bounds the history of a fabric on a host. Nothing but age removes an entry.
const keptEntries = 200

// historySuffix ends the names of the files with histories, which are beside the transactions: they must outlive the
// ownership records, which a rollback restores and a destroy removes.
const historySuffix = ".history"

// Enter adds an entry to the history of a fabric.
func (s *Store) Enter(fabric string, e resource.HistoryEntry) error {
	return wrap("write the history", s.withLock(func(Moment) error { return s.enterLocked(fabric, e) }))
}

// AdoptHistory starts the history of a fabric with the entries that an earlier build kept in the ownership record.
func (s *Store) AdoptHistory(fabric string, before []resource.HistoryEntry) error {
	return wrap("write the history", s.withLock(func(Moment) error {
		if _, err := s.history(fabric); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if len(before) == 0 {
			return nil
		}
		return s.writeHistory(fabric, before)
	}))
}

func (s *Store) enterLocked(fabric string, e resource.HistoryEntry) error {
	all, err := s.history(fabric)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return s.writeHistory(fabric, append(all, e))
}

func (s *Store) writeHistory(fabric string, all []resource.HistoryEntry) error {
	if fabric == "" || filepath.Base(fabric) != fabric || strings.HasPrefix(fabric, ".") {
		return fmt.Errorf("%q is not a valid name of a fabric", fabric)
	}
	raw, err := json.Marshal(all[max(len(all)-keptEntries, 0):])
	if err != nil {
		return err
	}
	return s.replaceWithReserve(filepath.Join(s.dir, fabric+historySuffix), raw)
}

func (s *Store) history(fabric string) (all []resource.HistoryEntry, err error) {
	raw, err := file.Read(filepath.Join(s.dir, fabric+historySuffix))
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	return all, err
}

// Histories returns the histories of all fabrics, the oldest entries first.
func (s *Store) Histories() (map[string][]resource.HistoryEntry, error) {
	files, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	out := map[string][]resource.HistoryEntry{}
	for _, f := range files {
		fabric, is := strings.CutSuffix(f.Name(), historySuffix)
		if !is {
			continue
		}
		if out[fabric], err = s.history(fabric); err != nil {
			return nil, fmt.Errorf("read the history of fabric %q: %w", fabric, err)
		}
	}
	return out, nil
}

// enterRevert adds a revert that ended to the history. A host whose disk is full reverts all the same.
func (s *Store) enterRevert(t *Transaction, changes int, now Moment) {
	e := resource.HistoryEntry{Time: now.Wall.UTC(), Command: resource.RevertCommand, Who: t.Holder.User, Plan: t.Plan,
		Boot: now.Boot, Changes: changes,
		Why: t.Why, Kept: t.Kept, Overwritten: t.Overwritten}
	if t.Rollback != nil {
		e.Command, e.Who = resource.RollbackCommand, t.Rollback.By
	}
	if t.State == RevertFailed {
		e.Failed = strings.Join(t.Unrestored, "; ")
	}
	_ = s.enterLocked(t.Fabric, e)
}
