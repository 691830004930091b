//go:build linux

package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"sync"
	"time"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/resource"
)

// ErrNotYours means that a client cannot continue, because another client has taken over the transaction.
var ErrNotYours = errors.New("the transaction has been taken over by another client")

// transactionVersion is the version of the file format. A helper rejects other versions.
const transactionVersion = 1

// Transaction is one attempt to change a host, as stored in its file.
type Transaction struct {
	Version int     `json:"version"`
	ID      string  `json:"id"`
	State   State   `json:"state"`
	Fabric  string  `json:"fabric"`
	Plan    string  `json:"plan"` // ID of the plan
	Holder  Holder  `json:"holder"`
	Token   string  `json:"token"`  // proves that a client may continue; never shown
	Helper  *Helper `json:"helper"` // the process to stop before a revert; nil if there is none

	Since    time.Time     `json:"since"` // by the wall clock, for people
	Boot     string        `json:"boot"`  // boot ID at the last transition
	Lease    time.Duration `json:"lease_ns"`
	Deadline time.Duration `json:"deadline_ns"` // uptime in Boot (CLOCK_BOOTTIME), which nobody can set
	Rebooted bool          `json:"rebooted,omitempty"`
	Server   netip.Addr    `json:"server,omitzero"`   // the host's address that the opener connected to; a rollback restores it
	Run      string        `json:"run,omitempty"`     // names the apply on all of its hosts
	Hosts    []string      `json:"hosts,omitempty"`   // of the apply
	Partial  bool          `json:"partial,omitempty"` // the client stopped half-way on purpose, so the persist stage writes nothing

	Backup     string `json:"snapshot,omitempty"` // file name of the backup in the same directory; "" before the first change
	BackupHash string `json:"snapshot_sha256,omitempty"`
	Why        string `json:"why,omitempty"` // reason of the revert
	// Undecided is set if the lease expired when all hosts were ready to commit: others may have committed.
	Undecided  bool     `json:"undecided,omitempty"`
	Unrestored []string `json:"left,omitempty"` // differences that a revert could not restore

	PreparedHash  string    `json:"prepared_sha256,omitempty"`  // of the state when all changes were made; "" if it was not stored
	Unwritten     bool      `json:"unwritten,omitempty"`        // the persist stage has not begun; earlier builds did not store it
	CommittedHash string    `json:"committed_sha256,omitempty"` // of the state at the commit; "" if it was not stored
	Rollback      *Rollback `json:"undo,omitempty"`             // set when a committed transaction is rolled back
	// Kept and Overwritten are changes of others that a revert found (Reversal).
	Kept        []resource.Change `json:"kept,omitempty"`
	Overwritten []resource.Change `json:"overwritten,omitempty"`
}

// Rollback says how a committed transaction is rolled back.
type Rollback struct {
	By      string `json:"by,omitempty"` // user@machine of the operator
	Foreign bool   `json:"foreign,omitempty"`
}

// Helper is the process that executes the transaction.
type Helper struct {
	Process process.ID `json:"process"`
}

// stopPatience is how long a killed helper may take to exit.
const stopPatience = 2 * time.Second

// Stop kills the helper. The error is context.DeadlineExceeded if it has not exited within 2 s: it may hang in the kernel,
// for example in a file system that does not respond, and makes no further step when it wakes.
func (h *Helper) Stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	return h.Process.Stop(ctx)
}

// identifier matches a counter and a random part. It becomes the name of a file and of a unit.
var identifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9]{6}-[0-9a-f]{8}$`) })

// Limits of the values that a client may write into the file.
const (
	maxUnrestored = 200
	maxFile       = 1 << 20
)

// decodeTransaction decodes a file and validates its content.
func decodeTransaction(id string, raw []byte) (*Transaction, error) {
	var t Transaction
	if err := json.Unmarshal(raw, &t); err != nil {
		return nil, err
	}
	if t.Version != transactionVersion {
		return nil, fmt.Errorf("version %d, but this build supports %d: use the release that wrote the file", t.Version, transactionVersion)
	}
	return &t, t.check(id)
}

func (t *Transaction) check(id string) error {
	if t.ID != id || !identifier().MatchString(id) {
		return fmt.Errorf("the file belongs to transaction %q", t.ID)
	}
	if _, known := transitions[t.State]; !known {
		return fmt.Errorf("invalid state %q", t.State)
	}
	if t.Lease <= 0 || t.Lease > maxLease || t.Deadline < 0 || t.Boot == "" {
		return fmt.Errorf("invalid lease: %s, deadline %s after boot %q", t.Lease, t.Deadline, t.Boot)
	}
	if t.Backup != "" && t.Backup != backupName(id) {
		return fmt.Errorf("invalid backup %q", t.Backup)
	}
	for _, text := range append([]string{t.Fabric, t.Plan, t.Run, t.Holder.User, t.Holder.From, t.Holder.Client, t.Token}, t.Hosts...) {
		if len(text) > maxText {
			return errors.New("a value is longer than 256 bytes")
		}
	}
	if len(t.Hosts) > MaxHosts {
		return fmt.Errorf("more than %d hosts", MaxHosts)
	}
	return nil
}

// Remaining returns the time left on the lease at that moment, at least 0. A deadline further ahead than a
// whole lease counts as expired.
func (t *Transaction) Remaining(now Moment) time.Duration {
	left := t.Deadline - now.Uptime
	if now.Boot != t.Boot || left < 0 || left > t.Lease {
		return 0
	}
	return left
}

// HeldError means that a transaction cannot be opened, because another one is open.
type HeldError struct {
	ID        string
	State     State
	Fabric    string
	Holder    Holder
	Since     time.Time
	Remaining time.Duration // time left on the lease
}

func (e *HeldError) Error() string {
	text := fmt.Sprintf("another transaction is open: %s of fabric %q by %s from %s, since %s, %s",
		e.ID, e.Fabric, e.Holder.User, e.Holder.From, e.Since.Format(time.RFC3339), e.State)
	switch e.State {
	case RevertFailed:
		return text + "; an operator must intervene"
	case Reverting:
		return text
	}
	return text + fmt.Sprintf("; %s left", e.Remaining.Round(time.Second))
}

func newHeldError(t *Transaction, now Moment) *HeldError {
	return &HeldError{ID: t.ID, State: t.State, Fabric: t.Fabric, Holder: t.Holder, Since: t.Since, Remaining: t.Remaining(now)}
}
