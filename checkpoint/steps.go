//go:build linux

package checkpoint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/fabricform/fabricform/host/lock"
)

// step applies one event to a transaction. If token is not "", it must match.
func (s *Store) step(id, token string, e Event, edit func(*Transaction)) (*Transaction, error) {
	var t *Transaction
	err := s.withLock(func(now Moment) error {
		var err error
		t, err = s.stepLocked(id, token, e, edit, now)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e, err)
	}
	return t, nil
}

func (s *Store) stepLocked(id, token string, e Event, edit func(*Transaction), now Moment) (*Transaction, error) {
	if _, err := s.recordReboots(now); err != nil {
		return nil, err
	}
	t, err := s.Read(id)
	if err != nil {
		return nil, err
	}
	if token != "" && token != t.Token {
		return nil, t.notYours()
	}
	if e == Beat || e == Prepare || e == Persist || e == Commit {
		// A full disk may have prevented writing the state of a revert, but its lock is always visible.
		unlock, err := lock.Try(s.revertLock())
		if errors.Is(err, lock.ErrHeld) {
			return nil, ErrTooLate
		}
		if err != nil {
			return nil, err
		}
		defer unlock()
	}
	next, err := t.after(e, now)
	if err != nil {
		return nil, t.because(err)
	}
	if edit != nil {
		edit(next)
	}
	return next, s.write(next)
}

func (s *Store) revertLock() string { return filepath.Join(s.dir, "revert.lock") }

// client applies an event of a client, which must present its token.
func (s *Store) client(id, token string, e Event, edit func(*Transaction)) (*Transaction, error) {
	if token == "" {
		return nil, ErrNotYours
	}
	return s.step(id, token, e, edit)
}

// Beat renews the lease: the deadline is one lease from now. As with the other steps, the error is ErrTooLate
// if the host is rolling back, and ErrNotYours if another client has taken over.
func (s *Store) Beat(id, token string) (*Transaction, error) {
	return s.client(id, token, Beat, nil)
}

// Prepare records that all changes of this host are made and checked. now is the state of the host, which tells a revert
// what others changed since; nil if it cannot be read.
func (s *Store) Prepare(id, token string, now *Backup) (*Transaction, error) {
	hash := s.saveState(preparedName(id), now)
	return s.client(id, token, Prepare, func(t *Transaction) { t.PreparedHash = hash })
}

// Persist records that all hosts are prepared and that files may be written.
func (s *Store) Persist(id, token string) (*Transaction, error) {
	return s.client(id, token, Persist, func(t *Transaction) { t.Unwritten = false })
}

// PersistNothing is Persist for a partial transaction.
func (s *Store) PersistNothing(id, token string) (*Transaction, error) {
	return s.client(id, token, Persist, func(t *Transaction) { t.Partial = true })
}

// Commit ends the transaction and keeps its changes. now is the state of the host; nil if it cannot be read. A state that
// cannot be stored does not prevent the commit, because the other hosts commit too.
func (s *Store) Commit(id, token string, now *Backup) (*Transaction, error) {
	hash := s.saveState(committedName(id), now)
	return s.client(id, token, Commit, func(t *Transaction) { t.CommittedHash = hash })
}

// saveState writes the state of the host to a file, and returns its hash; "" if there is none.
func (s *Store) saveState(name string, now *Backup) string {
	if now == nil {
		return ""
	}
	raw, err := json.Marshal(now)
	if err != nil || len(raw) > maxBackup || !s.hasSpace(len(raw)) || s.replace(filepath.Join(s.dir, name), raw, 0o600) != nil {
		return ""
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Undoable returns nil if the transaction is committed and the latest that is. The error says why it cannot be rolled back.
func (s *Store) Undoable(id string) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	for _, t := range all {
		if t.ID == id && t.State != Committed {
			return &Refusal{State: t.State, Event: RollBack}
		}
		if err := t.above(id); err != nil {
			return err
		}
	}
	return nil
}

// above returns an error if the transaction must be rolled back before the one with the given ID.
func (t *Transaction) above(id string) error {
	if t.ID != id && (t.State.Open() || t.ID > id && t.State == Committed) {
		return fmt.Errorf("transaction %s of fabric %q is newer, and is %s", t.ID, t.Fabric, t.State)
	}
	return nil
}

// spare is the space on the disk that the state at a commit must leave: the record and the history are written after it.
const spare = 256 << 10

func (s *Store) hasSpace(n int) bool {
	var disk syscall.Statfs_t
	return syscall.Statfs(s.dir, &disk) != nil || disk.Bavail*uint64(disk.Bsize) >= uint64(n+spare)
}

// WillRollBack records how a committed transaction is going to be rolled back, so that an interrupted rollback continues in
// the same way.
func (s *Store) WillRollBack(id string, how Rollback) error {
	return s.withLock(func(Moment) error {
		t, err := s.Read(id)
		if err != nil || t.State != Committed {
			return err
		}
		how.By = clip(how.By)
		t.Rollback = &how
		return s.write(t)
	})
}

// Ends returns nil if the owner of the token may end the transaction. It returns a *HeldError while another
// client may still renew the lease without knowing that the transaction has ended.
func (s *Store) Ends(id, token string) error {
	t, now, err := s.readNow(id)
	if err != nil {
		return err
	}
	clients := t.State == Armed || t.State == Prepared || t.State == Persisting
	if clients && token != t.Token && t.Remaining(now) > 0 {
		return newHeldError(t, now)
	}
	return nil
}

// Live returns nil while the owner of the token may change the host: the lease is valid and the backup is
// on disk. Each action calls it just before it acts.
func (s *Store) Live(id, token string) error {
	t, now, err := s.readNow(id)
	switch {
	case err != nil:
		return err
	case token != t.Token:
		return t.notYours()
	case t.State == Reverting || t.State == Reverted || t.State == RevertFailed || t.State.Open() && !t.Rebooted && t.Remaining(now) == 0:
		return t.because(ErrTooLate)
	case t.State != Armed && t.State != Persisting:
		return fmt.Errorf("change the host: the transaction is %s", t.State)
	case t.Backup == "":
		return errors.New("change the host: no backup was taken")
	}
	return nil
}

// notYours is ErrNotYours with the client that holds the transaction now.
func (t *Transaction) notYours() error {
	return fmt.Errorf("%w: %s from %s", ErrNotYours, t.Holder.User, t.Holder.From)
}

// because adds the reason of a revert to the error of a step that comes too late.
func (t *Transaction) because(err error) error {
	if errors.Is(err, ErrTooLate) && t.Why != "" {
		return fmt.Errorf("%w: %s", err, t.Why)
	}
	return err
}

// TakeOver makes another client the holder. The client presents the transaction's token and gets a new one;
// steps of the earlier client fail with ErrNotYours. The lease is renewed. helper replaces the process to
// stop before a revert; nil if there is none.
func (s *Store) TakeOver(id, token string, by Holder, helper *Helper) (*Transaction, error) {
	return s.client(id, token, Beat, func(t *Transaction) {
		t.Holder = Holder{clip(by.User), clip(by.From), clip(by.Client)}
		t.Token, t.Helper = random(16), helper
	})
}

// Release ends a transaction whose revert failed, after a person has repaired the host.
func (s *Store) Release(id string, by Holder) (*Transaction, error) {
	return s.step(id, "", Release, func(t *Transaction) {
		t.Why = fmt.Sprintf("%s; released by %s from %s at %s", t.Why, clip(by.User), clip(by.From), time.Now().Format(time.RFC3339))
	})
}

// FinishInterrupted runs at the first contact with a host and ends transactions that a reboot interrupted. It rolls a
// proven state forward: finish, which must be idempotent, writes the remaining files, and reads the state for Commit. It returns the
// transaction that is still open, or nil. If that one is reverting, call Revert.
func (s *Store) FinishInterrupted(finish func(*Transaction) (now *Backup, err error)) (*Transaction, error) {
	if err := s.withLock(func(now Moment) error { _, err := s.recordReboots(now); return err }); err != nil {
		return nil, fmt.Errorf("finish interrupted transactions: %w", err)
	}
	t, _, err := s.Pending()
	if err != nil || t == nil || t.State != Persisting || !t.Rebooted {
		return t, err
	}
	now, err := finish(t)
	if err != nil {
		return t, err
	}
	hash := s.saveState(committedName(t.ID), now)
	_, err = s.step(t.ID, "", Commit, func(t *Transaction) { t.CommittedHash = hash })
	return nil, err
}
