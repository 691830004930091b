package calls

import (
	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

var (
	// StartStack starts the installation of a driver stack.
	StartStack = agent.Method[StackOrder, StackState]("stack.start")
	// ReadStack reads the progress of an installation.
	ReadStack = agent.Method[struct{}, StackState]("stack.state")
	// Reboot restarts the host.
	Reboot = agent.Method[StackOrder, StackState]("stack.reboot")
)

// StackLog has the output of all programs of the last installation.
const StackLog = host.StackDir + "/log"

// StackOrder asks for the stack stage of a plan on this host, or for the reboot at its end.
type StackOrder struct {
	ID       string            `json:"id"` // unique for this order: a plan may be applied twice
	Fabric   string            `json:"fabric"`
	Who      string            `json:"who"` // user@machine of the operator
	Resource resource.Resource `json:"resource"`
	Changes  []resource.Change `json:"changes"`          // what the plan showed
	Bundle   *Bundle           `json:"bundle,omitempty"` // to install; it was uploaded before; nil if there is none
	// Boot is the ID of the boot that a reboot must end. If the host has rebooted since, it does not reboot again.
	Boot string `json:"boot,omitempty"`
}

// StackState is the progress of an installation.
type StackState struct {
	Job  *resource.Installation `json:"job,omitempty"` // nil if there never was one
	Boot string                 `json:"boot"`          // ID of the current boot
	Tail string                 `json:"tail,omitempty"`
}

// Of reports whether the journal belongs to the order.
func (st StackState) Of(id string) bool { return st.Job != nil && st.Job.ID == id }
