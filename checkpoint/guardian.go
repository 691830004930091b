//go:build linux

package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/fabricform/fabricform/host/clock"
	"github.com/fabricform/fabricform/host/lock"
)

// Guardian waits until a transaction's lease expires, outside the session of the client, and then rolls the
// host back. The detached process and the systemd timer both run it; only one of them reverts.
type Guardian struct {
	Store   *Store
	Restore RestoreFunc
}

// lookEvery is how often a guardian looks at its transaction, so that it ends soon after the transaction.
const lookEvery = time.Second

// patience is how many looks in a row may fail, for about an hour: a disk may recover.
const patience = 3600

// Watch returns when the transaction is over or was rolled back. It returns an error if an operator must intervene.
func (g Guardian) Watch(ctx context.Context, id string) error {
	for failures := 0; ; {
		t, now, err := g.Store.readNow(id)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // finished and pruned
		}
		if err == nil {
			switch v, left := judge(t, now); v {
			case Leave:
				return nil
			case Wait:
				failures = 0
				if err := clock.SleepUntil(ctx, now.Uptime+min(left, lookEvery)); err != nil {
					return err
				}
				continue
			case GoBack:
				var done bool
				if done, err = g.goBack(ctx, t); done {
					return err
				}
			}
		}
		if failures++; failures > patience {
			return err
		}
		if err := clock.SleepUntil(ctx, now.Uptime+lookEvery); err != nil {
			return err
		}
	}
}

// Expired returns the open transaction whose lease has expired, or nil. Its guardians are reverting it, or they died:
// the caller must call RevertExpired. A reset ends a lease, too, unless the state was proven before.
func (g Guardian) Expired() (*Transaction, error) {
	t, _, err := g.Store.Pending()
	if err != nil || t == nil {
		return nil, err
	}
	now, err := g.Store.clock()
	if err == nil && t.Boot != now.Boot {
		err = g.Store.withLock(func(now Moment) error { _, err := g.Store.recordReboots(now); return err })
		if err == nil {
			t, err = g.Store.Read(t.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	if expired(t, now) || !t.State.Open() {
		return t, nil
	}
	return nil, nil
}

// RevertExpired does a guardian's work once, for a transaction that Expired returned, and returns it as it is then. The
// error says why its end could not be recorded.
func (g Guardian) RevertExpired(ctx context.Context, t *Transaction) (*Transaction, error) {
	done, err := g.goBack(ctx, t)
	if !done {
		return nil, err
	}
	return g.Store.Read(t.ID)
}

// goBack stops the helper, so that it makes no more changes, and reverts. done is false if the result could
// not be written to disk, or if the lease was renewed at the last moment.
func (g Guardian) goBack(ctx context.Context, t *Transaction) (done bool, err error) {
	if t.Helper != nil && !t.Rebooted && t.Helper.Process.PID != os.Getpid() {
		g.awaitRevert(ctx, t)
		again, now, unread := g.Store.readNow(t.ID)
		if unread != nil || expired(again, now) {
			err = t.Helper.Stop(ctx)
		}
	}
	after, reverted := g.Store.Revert(ctx, t.ID, Expire, fmt.Sprintf("the lease of %s expired", t.Lease), g.Restore)
	if errors.Is(reverted, fs.ErrNotExist) {
		return true, nil
	}
	if after != nil && after.State == RevertFailed {
		err = errors.Join(err, fmt.Errorf("transaction %s could not be reverted completely; an operator must intervene", t.ID))
	}
	written, unread := g.Store.Read(t.ID) // the state on disk decides, because writing the last state may have failed
	done = unread == nil && (!written.State.Open() || written.State == RevertFailed)
	return done, errors.Join(err, reverted)
}

// awaitRevert waits while another process reverts, which may go on when the lease ends. A helper that is killed meanwhile may have taken
// files away that a network manager has not read again. It waits until RestorePatience after the end of the lease, because that process may hang.
func (g Guardian) awaitRevert(ctx context.Context, t *Transaction) {
	for {
		unlock, err := lock.Try(g.Store.revertLock())
		if err == nil {
			unlock()
		}
		now, unread := g.Store.clock()
		if !errors.Is(err, lock.ErrHeld) || unread != nil || now.Boot != t.Boot || now.Uptime > t.Deadline+RestorePatience {
			return
		}
		if clock.SleepUntil(ctx, now.Uptime+lookEvery) != nil {
			return
		}
	}
}
