package calls

import (
	"net/netip"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/resource"
)

// The steps of a transaction.
var (
	// Ready rehearses the timer, and says whether a transaction is open.
	Ready = agent.Method[struct{}, TxReady]("tx.ready")
	// Open keeps the way back and starts the lease.
	Open = agent.Method[TxOpen, TxInfo]("tx.open")
	// Beat renews the lease.
	Beat = agent.Method[TxRef, TxInfo]("tx.beat")
	// Prepare says that the runtime stage was made and checked.
	Prepare = agent.Method[TxRef, TxInfo]("tx.prepare")
	// Persist runs the persist stage.
	Persist = agent.Method[TxPersist, TxPersisted]("tx.persist")
	// Commit ends a transaction and keeps its changes.
	Commit = agent.Method[TxRef, TxInfo]("tx.commit")
	// Revert ends a transaction and takes its changes back.
	Revert = agent.Method[TxRevert, TxInfo]("tx.revert")
	// TakeOver moves a transaction to another client.
	TakeOver = agent.Method[TxTakeOver, TxInfo]("tx.takeover")
	// Release ends a transaction whose revert failed.
	Release = agent.Method[TxTakeOver, TxInfo]("tx.release")
	// Settle ends what a reset left.
	Settle = agent.Method[struct{}, TxSettled]("tx.settle")
	// Transactions lists those that the host keeps, the latest last.
	Transactions = agent.Method[struct{}, []TxInfo]("tx.list")
)

// TxRef is a client's hold on a transaction: the token is known to nobody else.
type TxRef struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// TxInfo is a transaction as a host tells of it.
type TxInfo struct {
	TxRef
	State  checkpoint.State  `json:"state"`
	Fabric string            `json:"fabric"`
	Plan   string            `json:"plan"`
	Holder checkpoint.Holder `json:"holder"`
	Since  time.Time         `json:"since"`
	Left   time.Duration     `json:"left"` // of the lease
	Why    string            `json:"why,omitempty"`
	Remain []string          `json:"remain,omitempty"` // what a revert could not bring back
	// Former is the host's address that the opener came in by, where this connection came in by another.
	Former netip.Addr `json:"former,omitzero"`
}

// TxOpen asks for a transaction over all that a plan can reach on this host.
type TxOpen struct {
	Fabric string          `json:"fabric"`
	Plan   string          `json:"plan"`
	User   string          `json:"user"`   // user@machine of the operator
	Client string          `json:"client"` // names this run
	Lease  time.Duration   `json:"lease"`
	Atoms  []resource.Atom `json:"atoms"`
	Steps  []TxStep        `json:"steps,omitempty"` // of the persist stage, in their order
}

// TxStep is one action of the persist stage, of which one is not nil. The host keeps all of them
// before its first change, so that it can end the stage without its client.
type TxStep struct {
	Act  *ActParams  `json:"act,omitempty"`
	Undo *UndoParams `json:"undo,omitempty"`
}

// TxReady is whether a transaction can be opened here.
type TxReady struct {
	Held *TxInfo `json:"held,omitempty"` // by whom it is not
}

// TxPersist asks for the persist stage. Partial: the runtime stage stopped half-way and is kept as it
// is; nothing is written.
type TxPersist struct {
	TxRef
	Partial bool `json:"partial,omitempty"`
}

// TxPersisted is how far the persist stage came: the answers of the steps that were done, in their
// order, and why the next one failed.
type TxPersisted struct {
	TxInfo
	Done   []ActResult  `json:"done"`
	Failed *agent.Error `json:"failed,omitempty"`
}

// TxSettled is what the first contact after a reset ended.
type TxSettled struct {
	Ended *TxInfo `json:"ended,omitempty"`
}

// TxRevert asks to go back. An open transaction whose lease still runs is its holder's, who shows the
// token; nobody need show one where the lease has run out. Undo is of a committed transaction.
type TxRevert struct {
	TxRef
	Why  string `json:"why"`
	Undo bool   `json:"undo,omitempty"`
}

// TxTakeOver asks to go on with another client's transaction.
type TxTakeOver struct {
	TxRef
	User   string `json:"user"`
	Client string `json:"client"`
}
