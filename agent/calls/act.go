package calls

import (
	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/resource"
)

var (
	// Act carries out one action of a plan.
	Act = agent.Method[ActParams, ActResult]("act")
	// Undo gives back what a fabric made.
	Undo = agent.Method[UndoParams, ActResult]("undo")
	// Enrol keeps a fabric's roster and history on the host.
	Enrol = agent.Method[EnrolParams, struct{}]("enrol")
)

// ActParams asks for one action of a plan.
type ActParams struct {
	Fabric   string            `json:"fabric"` // who will own what is made
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"` // what the plan showed
	// Disturbed is true if an earlier action of this plan changed something below this resource: the kernel may
	// have dropped more (routes of a bounced link), which is then restored and reported. Earlier builds wrote
	// it as "settling" into the steps that hosts keep.
	Disturbed bool `json:"settling,omitempty"`
	// Management allows that the operator's own path is touched, as the plan showed it.
	Management bool `json:"management,omitempty"`
	// Later are differences that another action of this plan takes care of.
	Later []resource.Change `json:"later,omitempty"`
	// Tx is the transaction that the change is part of; nothing is changed without one.
	Tx TxRef `json:"tx"`
}

// ActResult says what was changed: the plan's changes, and what an earlier action had disturbed.
type ActResult struct {
	Changes []resource.Change `json:"changes"`
	Also    []resource.Change `json:"also,omitempty"`
}

// UndoParams asks to give back what a fabric made: each change's value is still From, and becomes
// To. Forget names atoms that are no longer ours.
type UndoParams struct {
	Fabric  string            `json:"fabric"`
	Changes []resource.Change `json:"changes,omitempty"`
	Forget  []resource.Atom   `json:"forget,omitempty"`
	// Management allows that the operator's own path is touched, as the plan showed it.
	Management bool  `json:"management,omitempty"`
	Tx         TxRef `json:"tx"`
}

// EnrolParams tells the host which hosts its fabric has. An empty roster on a host where nothing is
// owned any more removes the record.
type EnrolParams struct {
	Fabric string            `json:"fabric"`
	Roster []resource.Member `json:"roster"`
	Entry  *resource.Entry   `json:"entry,omitempty"` // for the history; nil where nothing was changed
}
