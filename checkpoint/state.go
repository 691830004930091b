// Package checkpoint is how a host gets back: a transaction in one file, which is the lock too; a
// lease that a client must keep renewing; a guardian outside the client's session that reverts when
// it does not; and the snapshot that it reverts to.
package checkpoint

import (
	"errors"
	"fmt"
	"time"
)

// DefaultLease is how long a host waits for a client that has fallen silent.
const DefaultLease = 60 * time.Second

// Holder is who opened a transaction or took it over.
type Holder struct {
	User   string `json:"user"`   // of the client's machine, user@machine
	From   string `json:"from"`   // the client's address, as the host sees it
	Client string `json:"client"` // names one run of the client
}

// State is how far a transaction is.
type State string

// The states. Armed may change the running system; persisting writes what lasts.
const (
	Armed        State = "armed"
	Prepared     State = "prepared"   // changed and checked
	Persisting   State = "persisting" // proven, being written
	Committed    State = "committed"
	Reverting    State = "reverting"
	Reverted     State = "reverted"      // and proven equal to the snapshot
	RevertFailed State = "revert-failed" // a person is needed
	Released     State = "released"      // a person took over what a revert left
)

// Open says whether the transaction holds the lock.
func (s State) Open() bool { return s != Committed && s != Reverted && s != Released }

// Event is what happens to a transaction.
type Event string

// The events.
const (
	Beat        Event = "beat"    // the client is alive
	Prepare     Event = "prepare" // from here on the client's steps, in their order
	Persist     Event = "persist"
	Commit      Event = "commit"
	Revert      Event = "revert"      // the client wants to go back
	Expire      Event = "expire"      // nobody renewed the lease
	Undo        Event = "undo"        // a committed transaction is taken back
	RevertDone  Event = "revert-done" // by whoever reverts
	RevertStuck Event = "revert-stuck"
	Reboot      Event = "reboot"  // the host has started anew
	Release     Event = "release" // a person has put in order what a revert could not
)

// transitions is the whole machine; what is not here is refused. A reset before persisting boots the
// old state; within it, the proven state is rolled forward; a revert is done again.
var transitions = map[State]map[Event]State{
	Armed:        {Beat: Armed, Prepare: Prepared, Revert: Reverting, Expire: Reverting, Reboot: Reverted},
	Prepared:     {Beat: Prepared, Persist: Persisting, Revert: Reverting, Expire: Reverting, Reboot: Reverted},
	Persisting:   {Beat: Persisting, Commit: Committed, Revert: Reverting, Expire: Reverting, Reboot: Persisting},
	Committed:    {Expire: Committed, Undo: Reverting, Reboot: Committed},
	Reverting:    {Revert: Reverting, Expire: Reverting, Undo: Reverting, RevertDone: Reverted, RevertStuck: RevertFailed, Reboot: Reverting},
	Reverted:     {Revert: Reverted, Expire: Reverted, Undo: Reverted, Reboot: Reverted},
	RevertFailed: {Revert: Reverting, Undo: Reverting, Expire: RevertFailed, Release: Released, Reboot: RevertFailed},
	Released:     {Expire: Released, Reboot: Released},
}

// ErrTooLate is why a client cannot go on: the host has gone back, or is about to. Callers decide by it.
var ErrTooLate = errors.New("too late: the host is going back to its old state")

// Next is the state after an event. The error is a *Refusal; it is ErrTooLate where a client goes
// on with what is being or has been reverted.
func Next(s State, e Event) (State, error) {
	if next, ok := transitions[s][e]; ok {
		return next, nil
	}
	return s, &Refusal{State: s, Event: e}
}

// Refusal is an event that does not fit the state.
type Refusal struct {
	State State
	Event Event
}

func (r *Refusal) Error() string {
	if r.tooLate() {
		return fmt.Sprintf("too late to %s: the transaction is %s", r.Event, r.State)
	}
	return fmt.Sprintf("cannot %s a transaction that is %s", r.Event, r.State)
}

// Is makes a refusal ErrTooLate where it is that.
func (r *Refusal) Is(target error) bool { return target == ErrTooLate && r.tooLate() }

func (r *Refusal) tooLate() bool {
	goesOn := r.Event == Beat || r.Event == Prepare || r.Event == Persist || r.Event == Commit
	return goesOn && (r.State == Reverting || r.State == Reverted || r.State == RevertFailed || r.State == Released)
}
