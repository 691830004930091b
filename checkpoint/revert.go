//go:build linux

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/host/lock"
)

// Restorer restores a backup, as Backup.Restore does.
type Restorer func(ctx context.Context, b *Backup) (left []string, err error)

// Revert rolls a transaction back, because of Revert, Expire or Undo. Any number of processes may call it: one
// reverts, and the others wait for the result. An interrupted revert is repeated. It returns the resulting
// transaction: reverted, or revert_failed with the remaining differences. For Expire it may be in any
// state, if the lease was renewed or the transaction ended first. The error contains everything that failed.
func (s *Store) Revert(ctx context.Context, id string, e Event, why string, restore Restorer) (*Transaction, error) {
	if e != Revert && e != Expire && e != Undo {
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
	left, failed := s.restore(ctx, t, restore)
	t, err = s.endRevert(t, left, failed)
	return t, errors.Join(written, failed, err)
}

// beginRevert writes the state before anything is restored. If the write fails, the host still rolls back:
// written is that error, and the lock prevents commits.
func (s *Store) beginRevert(id string, e Event, why string) (t *Transaction, written, err error) {
	err = s.locked(func(now Moment) error {
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
			if e == Undo && other.ID != id && (other.State.Open() || other.ID > id) {
				return fmt.Errorf("transaction %s is newer, and is %s", other.ID, other.State)
			}
		}
		if t, err = before.after(e, now); err != nil || t.State != Reverting {
			return err
		}
		if before.State != Reverting || t.Why == "" {
			t.Why, t.Left = clip(why), nil
			t.Undecided = e == Expire && before.State == Persisting
		}
		written = s.write(t)
		return nil
	})
	return t, written, err
}

func (s *Store) restore(ctx context.Context, t *Transaction, restore Restorer) ([]string, error) {
	backup, err := s.ReadBackup(t)
	if err != nil {
		return []string{"nothing was restored, because the backup cannot be read"}, err
	}
	if backup == nil {
		return nil, nil
	}
	return restore(ctx, backup)
}

func (s *Store) endRevert(t *Transaction, left []string, failed error) (*Transaction, error) {
	e := RevertDone
	if failed != nil { // a guardian cannot report errors to anybody, so the file records them
		left = append(left, strings.Split(failed.Error(), "\n")...)
	}
	if len(left) > 0 {
		e = RevertStuck
	}
	err := s.locked(func(now Moment) error {
		next, err := t.after(e, now)
		if err != nil {
			return err
		}
		t = next
		for _, l := range left[:min(len(left), maxLeft)] {
			t.Left = append(t.Left, clip(l))
		}
		return s.write(t)
	})
	return t, err
}
