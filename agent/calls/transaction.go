package calls

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// The steps of a transaction.
var (
	// Ready tests the timer, and says whether a transaction is open.
	Ready = agent.Method[struct{}, TxReady]("tx.ready")
	// Open stores the host's state and starts the lease.
	Open = agent.Method[TxOpen, TxInfo]("tx.open")
	// Beat renews the lease.
	Beat = agent.Method[TxRef, TxInfo]("tx.beat")
	// Prepare records that the runtime stage was done and checked.
	Prepare = agent.Method[TxRef, TxInfo]("tx.prepare")
	// Persist runs the persist stage.
	Persist = agent.Method[TxPersist, TxPersisted]("tx.persist")
	// Commit ends a transaction and keeps its changes.
	Commit = agent.Method[TxRef, TxInfo]("tx.commit")
	// Reversal says what a revert would do.
	Reversal = agent.Method[TxReversal, TxReversed]("tx.reversal")
	// Revert ends a transaction and reverts its changes.
	Revert = agent.Method[TxRevert, TxInfo]("tx.revert")
	// TakeOver moves a transaction to another client.
	TakeOver = agent.Method[TxTakeOver, TxInfo]("tx.takeover")
	// Release ends a transaction whose revert failed.
	Release = agent.Method[TxTakeOver, TxInfo]("tx.release")
	// FinishInterrupted finishes a transaction that a reset interrupted.
	FinishInterrupted = agent.Method[struct{}, TxFinished]("tx.finish")
	// Transactions lists those that the host keeps, the latest last.
	Transactions = agent.Method[struct{}, []TxInfo]("tx.list")
)

// TxRef identifies a transaction and authorises its client: only the client knows the token.
type TxRef struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// TxInfo is a transaction as a host reports it.
type TxInfo struct {
	TxRef
	State      checkpoint.State  `json:"state"`
	Fabric     string            `json:"fabric"`
	Plan       string            `json:"plan"`
	Holder     checkpoint.Holder `json:"holder"`
	Since      time.Time         `json:"since"`
	Remaining  time.Duration     `json:"left"` // of the lease
	Why        string            `json:"why,omitempty"`
	Unrestored []string          `json:"remain,omitempty"` // what a revert could not restore
	Run        string            `json:"run,omitempty"`    // names the apply on all of its hosts
	Hosts      []string          `json:"hosts,omitempty"`  // of the apply
	// Undecided is set if the lease expired when all hosts were ready to commit: others may have committed.
	Undecided bool `json:"undecided,omitempty"`
	// Kept and Overwritten are what a revert did with the changes of others.
	Kept        []resource.Change `json:"kept,omitempty"`
	Overwritten []resource.Change `json:"overwritten,omitempty"`
	// Former is the host's address over which the transaction was opened, if this connection uses another.
	Former   netip.Addr `json:"former,omitzero"`
	EndedNow bool       `json:"settled,omitempty"`  // this call ended it: its lease had expired, or the host was reset
	Rebooted bool       `json:"rebooted,omitempty"` // the host was reset during it
}

// Shows returns an error unless the answer names this transaction and one of these states. A host that answers {} has
// therefore not confirmed the step.
func (i TxInfo) Shows(ref TxRef, states ...checkpoint.State) error {
	if i.ID != ref.ID || !slices.Contains(states, i.State) {
		return fmt.Errorf("its answer is about transaction %.40q in state %.40q, and not about %q in state %q", i.ID, i.State, ref.ID,
			states)
	}
	return nil
}

// Grants returns an error unless the answer makes its client the holder of a transaction.
func (i TxInfo) Grants() error {
	if i.ID == "" || i.Token == "" {
		return errors.New("its answer grants no transaction")
	}
	return nil
}

// TxOpen asks for a transaction that covers everything a plan can change on this host.
type TxOpen struct {
	Fabric string          `json:"fabric"`
	Plan   string          `json:"plan"`
	User   string          `json:"user"`   // user@machine of the operator
	Client string          `json:"client"` // names this run
	Hosts  []string        `json:"hosts"`  // of the run, checkpoint.MaxHosts at most
	Lease  time.Duration   `json:"lease"`
	Atoms  []resource.Atom `json:"atoms"`
	Stays  []resource.Atom `json:"stays,omitempty"` // of Atoms, those whose values stay: the record only forgets them, such as adopted ones
	Steps  []TxStep        `json:"steps,omitempty"` // of the persist stage, in their order
	// Applied is what the host is once the transaction is committed; nil leaves what the host keeps.
	Applied *resource.Applied `json:"applied,omitempty"`
}

// TxStep is one action of the persist stage: exactly one field is set. The host stores all steps before
// its first change, so that it can finish the stage without its client.
type TxStep struct {
	Act  *ActParams  `json:"act,omitempty"`
	Undo *UndoParams `json:"undo,omitempty"`
}

// TxReady says whether a transaction can be opened on this host.
type TxReady struct {
	Held *TxInfo `json:"held,omitempty"` // the open transaction that prevents it
}

// TxPersist asks for the persist stage. With Partial, the runtime stage stopped half-way: it is kept, and
// nothing is written.
type TxPersist struct {
	TxRef
	Partial bool `json:"partial,omitempty"`
}

// TxPersisted is the result of the persist stage: the results of the completed steps, in order, and the
// error of the next one.
type TxPersisted struct {
	TxInfo
	Done   []ActResult  `json:"done"`
	Failed *agent.Error `json:"failed,omitempty"`
}

// TxFinished is the transaction that the first contact after a reset finished, if any.
type TxFinished struct {
	Ended *TxInfo `json:"ended,omitempty"`
}

// TxReversal asks what the rollback of a committed transaction would do now. With Foreign, it also reverts what others
// changed since the commit.
type TxReversal struct {
	ID      string `json:"id"`
	Foreign bool   `json:"foreign,omitempty"`
}

// TxReversed is what a rollback would do. Digest identifies it.
type TxReversed struct {
	checkpoint.Reversal
	Digest string `json:"digest"`
	// Blind means that the state at the commit was not stored, so that changes of others are not known as such.
	Blind bool `json:"blind,omitempty"`
	// Management is the path of the operator's connection.
	Management facts.Management `json:"management"`
}

// TxRevert asks for a revert. To revert an open transaction before its lease expires, the token is needed.
// With RollBack, a committed transaction is reverted.
type TxRevert struct {
	TxRef
	Why      string `json:"why"`
	User     string `json:"user,omitempty"` // user@machine of an operator who rolls back; the host records from where and when
	RollBack bool   `json:"undo,omitempty"`
	Foreign  bool   `json:"foreign,omitempty"` // see TxReversal
	// Digest is that of the reversal that was shown; "" if none was. If the host changed since, nothing is reverted.
	Digest string `json:"digest,omitempty"`
}

// TxTakeOver asks to continue another client's transaction.
type TxTakeOver struct {
	TxRef
	User   string `json:"user"`
	Client string `json:"client"`
}
