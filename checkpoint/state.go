// Package checkpoint lets a host roll back automatically. A transaction is one file, which is also the lock. The
// client must keep renewing its lease. If it does not, a guardian outside the client's session reverts the
// host to a backup.
package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// DefaultLease is how long a host waits for a client that stopped renewing.
const DefaultLease = 60 * time.Second

// RestorePatience is how long a revert may take, including the host's own programs.
const RestorePatience = 3 * time.Minute

// MaxHosts limits the hosts that a transaction names: its file is written again with each heartbeat.
const MaxHosts = 64

// Holder identifies the client that opened a transaction or took it over.
type Holder struct {
	User   string `json:"user"`   // user@machine of the client
	From   string `json:"from"`   // the client's address, as the host sees it
	Client string `json:"client"` // ID of one run of the client
}

// State is the state of a transaction.
type State string

// States of a transaction. Armed may change the running system; persisting writes files.
const (
	Armed        State = "armed"
	Prepared     State = "prepared"   // changed and checked
	Persisting   State = "persisting" // proven, being written
	Committed    State = "committed"
	Reverting    State = "reverting"
	Reverted     State = "reverted"      // and checked: as in the backup, but for changes of others that it kept
	RevertFailed State = "revert_failed" // an operator must intervene
	Released     State = "released"      // a person repaired the host after a failed revert
)

// String returns the state for people.
func (s State) String() string { return strings.ReplaceAll(string(s), "_", " ") }

// UnmarshalText reads a state. Earlier builds wrote "revert-failed".
func (s *State) UnmarshalText(text []byte) error {
	*s = State(strings.ReplaceAll(string(text), "-", "_"))
	return nil
}

// Open reports whether the transaction holds the lock.
func (s State) Open() bool { return s != Committed && s != Reverted && s != Released }

// Event is what happens to a transaction.
type Event string

// Events of a transaction.
const (
	Beat        Event = "beat"    // the client is alive
	Prepare     Event = "prepare" // Prepare, Persist and Commit are the client's steps, in this order
	Persist     Event = "persist"
	Commit      Event = "commit"
	Revert      Event = "revert"      // the client requests a rollback
	Expire      Event = "expire"      // the lease expired
	RollBack    Event = "undo"        // a committed transaction is rolled back
	RevertDone  Event = "revert-done" // sent by the process that reverts
	RevertStuck Event = "revert-stuck"
	Reboot      Event = "reboot"  // the host has rebooted
	Release     Event = "release" // a person has repaired the host
)

// transitions is the whole state machine; all other events are refused. A reset before persisting boots the
// old state. A reset during persisting is rolled forward, because the state was proven. An interrupted revert
// is repeated.
var transitions = map[State]map[Event]State{
	Armed:      {Beat: Armed, Prepare: Prepared, Revert: Reverting, Expire: Reverting, Reboot: Reverted},
	Prepared:   {Beat: Prepared, Persist: Persisting, Revert: Reverting, Expire: Reverting, Reboot: Reverted},
	Persisting: {Beat: Persisting, Commit: Committed, Revert: Reverting, Expire: Reverting, Reboot: Persisting},
	Committed:  {Expire: Committed, RollBack: Reverting, Reboot: Committed},
	Reverting: {Revert: Reverting, Expire: Reverting, RollBack: Reverting, RevertDone: Reverted,
		RevertStuck: RevertFailed, Reboot: Reverting},
	Reverted:     {Revert: Reverted, Expire: Reverted, RollBack: Reverted, Reboot: Reverted},
	RevertFailed: {Revert: Reverting, RollBack: Reverting, Expire: RevertFailed, Release: Released, Reboot: RevertFailed},
	Released:     {Expire: Released, Reboot: Released},
}

// ErrTooLate means that a client cannot continue, because the host has rolled back or is about to. Callers
// decide by it.
var ErrTooLate = errors.New("too late: the host is rolling back")

// Next returns the state after an event. The error is a *Refusal; it matches ErrTooLate if a client tries to
// continue a transaction that is being or has been reverted.
func Next(s State, e Event) (State, error) {
	if next, ok := transitions[s][e]; ok {
		return next, nil
	}
	return s, &Refusal{State: s, Event: e}
}

// Refusal reports an event that is not allowed in the current state.
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

// Is reports whether the refusal matches ErrTooLate.
func (r *Refusal) Is(target error) bool { return target == ErrTooLate && r.tooLate() }

func (r *Refusal) tooLate() bool {
	goesOn := r.Event == Beat || r.Event == Prepare || r.Event == Persist || r.Event == Commit
	return goesOn && (r.State == Reverting || r.State == Reverted || r.State == RevertFailed || r.State == Released)
}

// maxText limits a text of a transaction's file that is only shown, in bytes.
const maxText = 256

// Records reports whether recorded, the Why of a transaction, is what Revert writes for a reason: it limits the reason's length, and
// adds what the revert disturbed.
func Records(recorded, reason string) bool {
	return strings.HasPrefix(recorded, strings.TrimSuffix(clip(reason), "…"))
}

// clip limits the length of a text that is only shown.
func clip(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
