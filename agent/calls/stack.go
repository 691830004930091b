package calls

import (
	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

var (
	// StartStack starts the installation of a driver stack.
	StartStack = agent.Method[StackOrder, StackState]("stack.start")
	// ReadStack reads how far an installation is.
	ReadStack = agent.Method[struct{}, StackState]("stack.state")
	// Reboot restarts the host.
	Reboot = agent.Method[StackOrder, StackState]("stack.reboot")
)

// StackLog has all that programs printed in the last installation.
const StackLog = host.StackDir + "/log"

// StackOrder asks for the stack stage of a plan on this host, or for the restart that is its last part.
type StackOrder struct {
	ID       string            `json:"id"` // of this order alone: a plan may be carried out twice
	Fabric   string            `json:"fabric"`
	Who      string            `json:"who"` // user@machine of the operator
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"`          // what the plan showed
	Bundle   *Bundle           `json:"bundle,omitempty"` // that is installed, and was sent before; nil: none
	// Boot is the id of the boot that a restart is to end: one that is over by then is not ended again.
	Boot string `json:"boot,omitempty"`
}

// StackState is how far an installation is.
type StackState struct {
	Job  *resource.Job `json:"job,omitempty"` // nil: there never was one
	Boot string        `json:"boot"`          // this boot's id
	Tail string        `json:"tail,omitempty"`
}

// Of says whether the journal is of that order.
func (st StackState) Of(id string) bool { return st.Job != nil && st.Job.ID == id }
