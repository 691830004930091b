//go:build linux

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/host/lock"
	"github.com/fabricform/fabricform/resource"
)

// RestoreFunc restores a backup, as Backup.Restore does.
type RestoreFunc func(ctx context.Context, b *Backup) (left []string, err error)

// Revert rolls a transaction back, because of Revert, Expire or RollBack. Any number of processes may call it: one
// reverts, and the others wait for the result. An interrupted revert is repeated. It returns the resulting
// transaction: reverted, or revert_failed with the remaining differences. For Expire it may be in any
// state, if the lease was renewed or the transaction ended first. The error contains everything that failed.
func (s *Store) Revert(ctx context.Context, id string, e Event, why string, restore RestoreFunc) (*Transaction, error) {
	if e != Revert && e != Expire && e != RollBack {
		return nil, fmt.Errorf("revert transaction %s: the event %q does not revert", id, e)
	}
	unlock, err := lock.Acquire(s.revertLock())
	if err != nil {
		return nil, fmt.Errorf("revert transaction %s: %w", id, err)
	}
	defer unlock()
	t, written, err := s.beginRevert(id, e, why)
	if err != nil {
		return nil, fmt.Errorf("revert transaction %s: %w", id, err)
	}
	if t.State != Reverting {
		return t, nil
	}
	changes, left, failed := s.restore(ctx, t, restore)
	t, err = s.endRevert(t, changes, left, failed)
	return t, errors.Join(written, failed, err)
}

// beginRevert writes the state before anything is restored. If the write fails, the host still rolls back:
// written is that error, and the lock prevents commits.
func (s *Store) beginRevert(id string, e Event, why string) (t *Transaction, written, err error) {
	err = s.withLock(func(now Moment) error {
		all, err := s.recordReboots(now)
		if err != nil {
			return err
		}
		before, err := s.Read(id)
		if err != nil {
			return err
		}
		if e == Expire && before.State != Reverting && before.State.Open() && before.Remaining(now) > 0 {
			t = before
			return nil // renewed meanwhile
		}
		for _, other := range all {
			if err := other.above(id); err != nil && e == RollBack {
				return err
			}
		}
		if t, err = before.after(e, now); err != nil || t.State != Reverting {
			return err
		}
		if before.State != Reverting || t.Why == "" {
			t.Why, t.Unrestored, t.Kept, t.Overwritten = clip(why), nil, nil, nil
			t.Undecided = e == Expire && before.State == Persisting
		}
		if before.State == Committed && t.Rollback == nil {
			t.Rollback = &Rollback{}
		}
		written = s.write(t)
		return nil
	})
	return t, written, err
}

// restore restores the backup. changes is the number of its changes.
func (s *Store) restore(ctx context.Context, t *Transaction, restore RestoreFunc) (changes int, left []string, err error) {
	backup, err := s.ReadBackup(t)
	if err != nil {
		return 0, []string{"nothing was restored, because the backup cannot be read"}, err
	}
	if backup == nil {
		return 0, nil, nil
	}
	left, err = restore(ctx, backup)
	t.Kept, t.Overwritten = firstOf(backup.Reversal.Kept), firstOf(backup.Reversal.Overwritten)
	t.Why = clip(strings.Join(append([]string{t.Why}, backup.Reversal.Disturbed...), "; "))
	return len(backup.Reversal.Changes), left, err
}

// firstOf limits the changes in a transaction's file.
func firstOf(changes []resource.Change) []resource.Change {
	return changes[:min(len(changes), maxUnrestored)]
}

func (s *Store) endRevert(t *Transaction, changes int, left []string, failed error) (*Transaction, error) {
	e := RevertDone
	if failed != nil { // a guardian cannot report errors to anybody, so the file records them
		left = append(left, strings.Split(failed.Error(), "\n")...)
	}
	if len(left) > 0 {
		e = RevertStuck
	}
	err := s.withLock(func(now Moment) error {
		next, err := t.after(e, now)
		if err != nil {
			return err
		}
		t = next
		for _, l := range left[:min(len(left), maxUnrestored)] {
			t.Unrestored = append(t.Unrestored, clip(l))
		}
		if err := s.write(t); err != nil || t.Backup == "" {
			return err
		}
		s.enterRevert(t, changes, now)
		return nil
	})
	return t, err
}
