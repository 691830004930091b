package calls

import (
	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/resource"
)

var (
	// Act carries out one action of a plan.
	Act = agent.Method[ActParams, ActResult]("act")
	// Undo restores the values that a fabric changed.
	Undo = agent.Method[UndoParams, ActResult]("undo")
	// Enrol stores a fabric's list of hosts, history and adopted values on the host.
	Enrol = agent.Method[EnrolParams, struct{}]("enrol")
)

// ActParams asks for one action of a plan.
type ActParams struct {
	Fabric   string            `json:"fabric"` // the fabric that will own the changes
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"` // what the plan showed
	// Disturbed means that an earlier action of this plan changed something below this resource. The kernel may
	// have dropped more, such as the routes of a bounced link; Act restores that and reports it in Also. The
	// JSON name is that of earlier builds, whose steps hosts may still have.
	Disturbed bool `json:"settling,omitempty"`
	// Management allows changes to the operator's own path, as shown in the plan.
	Management bool `json:"management,omitempty"`
	// Later are the differences that another action of this plan removes.
	Later []resource.Change `json:"later,omitempty"`
	// Tx is the transaction of the change. Nothing is changed without one.
	Tx TxRef `json:"tx"`
}

// ActResult has the changes that were made: the plan's, and in Also those that restored what an earlier action had disturbed.
type ActResult struct {
	Changes []resource.Change `json:"changes"`
	Also    []resource.Change `json:"also,omitempty"`
}

// UndoParams asks to restore the values that a fabric changed. Each atom in Changes must still have the value From, and
// gets the value To. The atoms in Forget stay as they are, and are removed from the ownership record.
type UndoParams struct {
	Fabric  string            `json:"fabric"`
	Changes []resource.Change `json:"changes,omitempty"`
	Forget  []resource.Atom   `json:"forget,omitempty"`
	// Management allows changes to the operator's own path, as shown in the plan.
	Management bool  `json:"management,omitempty"`
	Tx         TxRef `json:"tx"`
}

// EnrolParams has the hosts of the host's fabric. A host on which the fabric owns nothing removes its record, unless
// hosts have vanished.
type EnrolParams struct {
	Fabric string            `json:"fabric"`
	Roster []resource.Member `json:"roster"`
	// Vanished has the hosts of the roster that the files no longer name. They stay in the record of a host on which the
	// fabric owns nothing.
	Vanished []resource.Member      `json:"vanished,omitempty"`
	Entry    *resource.HistoryEntry `json:"entry,omitempty"` // for the history; nil if nothing was changed
	// Adopt has values that the fabric owns from now on as they are: they were there before its first apply.
	Adopt map[resource.Atom]string `json:"adopt,omitempty"`
	// Applied is what the host is; nil leaves what the host keeps.
	Applied *resource.Applied `json:"applied,omitempty"`
}
