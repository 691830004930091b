//go:build linux

package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host/process"
)

// ErrNotYours is why a client cannot go on: another one has taken the transaction over.
var ErrNotYours = errors.New("the transaction has been taken over by another client")

// transactionVersion is the form of the file; a helper refuses what it does not know.
const transactionVersion = 1

// Transaction is one attempt to change a host, as its file says.
type Transaction struct {
	Version int     `json:"version"`
	ID      string  `json:"id"`
	State   State   `json:"state"`
	Fabric  string  `json:"fabric"`
	Plan    string  `json:"plan"` // the plan's id
	Holder  Holder  `json:"holder"`
	Token   string  `json:"token"`  // who shows it may go on; shown to no one else
	Helper  *Helper `json:"helper"` // stopped before a revert; nil: none

	Since    time.Time     `json:"since"` // by the wall clock, for people
	Boot     string        `json:"boot"`  // of the last transition
	Lease    time.Duration `json:"lease_ns"`
	Deadline time.Duration `json:"deadline_ns"` // uptime of Boot (CLOCK_BOOTTIME); no clock that can be set
	Rebooted bool          `json:"rebooted,omitempty"`
	Server   netip.Addr    `json:"server,omitzero"`   // the host's address that the opener came in by: it is there again after a way back
	Partial  bool          `json:"partial,omitempty"` // stopped half-way as the client wished: the persist stage writes nothing

	Snapshot     string   `json:"snapshot,omitempty"` // the file's name beside this one; "": nothing was changed yet
	SnapshotHash string   `json:"snapshot_sha256,omitempty"`
	Why          string   `json:"why,omitempty"`  // of the revert
	Left         []string `json:"left,omitempty"` // what a revert could not bring back
}

// Helper is the process that carries the transaction out.
type Helper struct {
	Process process.ID `json:"process"`
}

// identifier is a counter and a random part; it becomes a file's and a unit's name.
var identifier = regexp.MustCompile(`^[0-9]{6}-[0-9a-f]{8}$`)

// Bounds of what a client may write into the file.
const (
	maxText = 256
	maxLeft = 200
	maxFile = 1 << 20
)

// decodeTransaction reads a file; its bytes are not believed.
func decodeTransaction(id string, raw []byte) (*Transaction, error) {
	var t Transaction
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	if t.Version != transactionVersion {
		return nil, fmt.Errorf("it has version %d, this build knows %d: use the release that wrote it", t.Version, transactionVersion)
	}
	return &t, t.check(id)
}

func (t *Transaction) check(id string) error {
	if t.ID != id || !identifier.MatchString(id) {
		return fmt.Errorf("it is of transaction %q", t.ID)
	}
	if _, known := transitions[t.State]; !known {
		return fmt.Errorf("it has the state %q", t.State)
	}
	if t.Lease <= 0 || t.Lease > maxLease || t.Deadline < 0 || t.Boot == "" {
		return fmt.Errorf("its lease of %s until %s after boot %q cannot be", t.Lease, t.Deadline, t.Boot)
	}
	if t.Snapshot != "" && t.Snapshot != snapshotName(id) {
		return fmt.Errorf("its snapshot is %q", t.Snapshot)
	}
	for _, text := range []string{t.Fabric, t.Plan, t.Holder.User, t.Holder.From, t.Holder.Client, t.Token} {
		if len(text) > maxText {
			return errors.New("it has a text of more than 256 bytes")
		}
	}
	return nil
}

// Remaining is how long the lease still lasts at that moment; never below 0. A deadline further
// ahead than a lease can be is none.
func (t *Transaction) Remaining(now Moment) time.Duration {
	left := t.Deadline - now.Uptime
	if now.Boot != t.Boot || left < 0 || left > t.Lease {
		return 0
	}
	return left
}

// HeldError is why a transaction cannot be opened: another one is open.
type HeldError struct {
	ID     string
	State  State
	Fabric string
	Holder Holder
	Since  time.Time
	Left   time.Duration // of the lease
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("another transaction is open: %s of fabric %q by %s from %s, since %s, %s",
		e.ID, e.Fabric, e.Holder.User, e.Holder.From, e.Since.Format(time.RFC3339), e.State)
	switch e.State {
	case RevertFailed:
		return text + "; a person is needed"
	case Reverting:
		return text
	}
	return text + fmt.Sprintf("; %s left", e.Left.Round(time.Second))
}

func held(t *Transaction, now Moment) *HeldError {
	return &HeldError{ID: t.ID, State: t.State, Fabric: t.Fabric, Holder: t.Holder, Since: t.Since, Left: t.Remaining(now)}
}

// clip bounds a text that is only told.
func clip(s string) string {
	if len(s) > maxText {
		return strings.ToValidUTF8(s[:maxText], "") + "…"
	}
	return s
}
