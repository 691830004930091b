//go:build linux

package checkpoint

import (
	"fmt"
	"time"

	"github.com/fabricform/fabricform/host/clock"
)

// maxLease bounds a mistake; a confirmation by hand may take a day.
const maxLease = 24 * time.Hour

// Moment is a point in time that no one can set: the uptime of one boot. Wall is told to people and
// decides nothing.
type Moment struct {
	Boot   string
	Uptime time.Duration
	Wall   time.Time
}

// Clock tells the moment.
type Clock func() (Moment, error)

// Now is this machine's clock.
func Now() (Moment, error) {
	boot, err := clock.BootID()
	if err != nil {
		return Moment{}, err
	}
	up, err := clock.Uptime()
	return Moment{Boot: boot, Uptime: up, Wall: time.Now()}, err
}

// after is the transaction after an event at a moment; t itself stays. It is the whole logic of a
// transaction, and touches nothing.
func (t Transaction) after(e Event, now Moment) (*Transaction, error) {
	client := e == Beat || e == Prepare || e == Persist || e == Commit
	rolledForward := t.Rebooted && t.State == Persisting
	if client && !rolledForward && t.State.Open() && t.Remaining(now) == 0 {
		return nil, fmt.Errorf("the lease of %s has run out: %w", t.Lease, ErrTooLate)
	}
	if e == Expire && rolledForward {
		return &t, nil // proven before the reset; it waits for a client, not against one
	}
	next, err := Next(t.State, e)
	if err != nil {
		return nil, err
	}
	if client && !rolledForward {
		t.Deadline = now.Uptime + t.Lease
	}
	if e == Reboot {
		t.Rebooted, t.Deadline = true, 0
	}
	t.State, t.Boot = next, now.Boot
	return &t, nil
}

// Decision is what a guardian does next.
type Decision int

// The decisions.
const (
	Wait Decision = iota
	GoBack
	Leave // the transaction is over, or not the guardian's
)

// Judge looks at a transaction: Wait for so long, at most; or GoBack; or Leave.
func Judge(t *Transaction, now Moment) (Decision, time.Duration) {
	switch {
	case !t.State.Open() || t.State == RevertFailed:
		return Leave, 0
	case t.Rebooted && t.State == Persisting:
		return Leave, 0
	case t.Boot != now.Boot:
		return Leave, 0 // the store settles what a reboot left, at the next contact
	case t.Remaining(now) > 0:
		return Wait, t.Remaining(now)
	}
	return GoBack, 0
}
