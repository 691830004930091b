//go:build linux

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/host/lock"
)

// Restorer brings a snapshot back; Snapshot.Restore is one.
type Restorer func(ctx context.Context, s *Snapshot) (left []string, err error)

// Revert takes a transaction back: because of Revert, Expire or Undo. Any number of processes may
// try; one does it, and the others wait and see it done. Whoever finds a revert that was cut short
// does it again. The answer is the transaction as it is then: reverted; revert-failed, with what is
// left; or, for Expire, whatever it is where the lease was renewed or the end came first. The error
// tells what failed on the way.
func (s *Store) Revert(ctx context.Context, id string, e Event, why string, restore Restorer) (*Transaction, error) {
	if e != Revert && e != Expire && e != Undo {
		return nil, fmt.Errorf("revert transaction %s: %q is no reason", id, e)
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

// beginRevert writes the state down before anything is brought back. A disk that refuses that does
// not keep the host from going back: written is the error, and the lock keeps commits out.
func (s *Store) beginRevert(id string, e Event, why string) (t *Transaction, written, err error) {
	err = s.locked(func(now Moment) error {
		all, err := s.settled(now)
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
				return fmt.Errorf("transaction %s came after it, and is %s", other.ID, other.State)
			}
		}
		if t, err = before.after(e, now); err != nil || t.State != Reverting {
			return err
		}
		if before.State != Reverting || t.Why == "" {
			t.Why, t.Left = clip(why), nil
		}
		written = s.write(t)
		return nil
	})
	return t, written, err
}

func (s *Store) restore(ctx context.Context, t *Transaction, restore Restorer) ([]string, error) {
	snap, err := s.Snapshot(t)
	if err != nil {
		return []string{"nothing was brought back, because the snapshot cannot be read"}, err
	}
	if snap == nil {
		return nil, nil
	}
	return restore(ctx, snap)
}

func (s *Store) endRevert(t *Transaction, left []string, failed error) (*Transaction, error) {
	e := RevertDone
	if failed != nil { // nobody listens to a guardian: the file tells
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
