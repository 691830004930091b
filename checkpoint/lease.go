//go:build linux

package checkpoint

import (
	"fmt"
	"time"

	"github.com/fabricform/fabricform/host/clock"
)

// maxLease limits mistakes; a manual confirmation may take a day.
const maxLease = 24 * time.Hour

// Moment is a point in time that nobody can set: the uptime of one boot. Wall is only shown to people.
type Moment struct {
	Boot   string
	Uptime time.Duration
	Wall   time.Time
}

// Clock returns the current moment.
type Clock func() (Moment, error)

// Now reads this machine's clock.
func Now() (Moment, error) {
	boot, err := clock.BootID()
	if err != nil {
		return Moment{}, err
	}
	up, err := clock.Uptime()
	return Moment{Boot: boot, Uptime: up, Wall: time.Now()}, err
}

// after returns the transaction after an event at a moment, and does not change t. It is the whole logic of
// a transaction, and does no I/O.
func (t Transaction) after(e Event, now Moment) (*Transaction, error) {
	client := e == Beat || e == Prepare || e == Persist || e == Commit
	rolledForward := t.Rebooted && t.State == Persisting
	if client && !rolledForward && t.State.Open() && t.Remaining(now) == 0 {
		return nil, fmt.Errorf("the lease of %s has expired: %w", t.Lease, ErrTooLate)
	}
	if e == Expire && rolledForward {
		return &t, nil // it was proven before the reset and waits for a client to complete it
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

// Decisions of a guardian.
const (
	Wait Decision = iota
	GoBack
	Leave // the transaction is over, or not the guardian's business
)

// judge decides what a guardian does with a transaction: Wait for at most the returned time, GoBack or Leave.
func judge(t *Transaction, now Moment) (Decision, time.Duration) {
	switch {
	case !t.State.Open() || t.State == RevertFailed:
		return Leave, 0
	case t.Rebooted && t.State == Persisting:
		return Leave, 0
	case t.Boot != now.Boot:
		return Leave, 0 // the store handles transactions from before a reboot at the next contact
	case t.Remaining(now) > 0:
		return Wait, t.Remaining(now)
	}
	return GoBack, 0
}

func expired(t *Transaction, now Moment) bool {
	d, _ := judge(t, now)
	return d == GoBack
}
