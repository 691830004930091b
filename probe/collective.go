package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/collective"
)

var (
	// InspectCollective asks whether a host can run ranks of NCCL.
	InspectCollective = agent.Method[CollectiveLook, CollectiveHas](agent.Busy + "collective.look")
	// RunCollective runs a host's ranks of a job to their end.
	RunCollective = agent.Method[CollectiveSpec, []CollectiveRank](agent.Busy + "collective.run")
	// StopCollective stops a host's part of a job or a launch, by its ID.
	StopCollective = agent.Method[string, struct{}](agent.Busy + "collective.stop")
)

// Ranks meet at a port of this range, which begins with torchrun's default, so that one firewall rule is enough.
const (
	firstMeetingPort = 29500
	meetingPorts     = 100
)

// CollectiveLook asks whether this host can run ranks.
type CollectiveLook struct {
	Python string `json:"python,omitempty"` // path; "": the system's python3
}

// CollectiveHas is the answer.
type CollectiveHas struct {
	Look    collective.Software `json:"look"`
	Problem string              `json:"problem,omitempty"` // why ranks cannot run; "" if they can
	Port    uint16              `json:"port,omitempty"`    // a free port for the ranks to meet at
}

// CollectiveSpec asks for this host's ranks of a job.
type CollectiveSpec struct {
	ID     string            `json:"id"` // for StopCollective
	Python string            `json:"python,omitempty"`
	Job    collective.Job    `json:"job"`
	First  int               `json:"first"` // number of the first rank here
	Ranks  int               `json:"ranks"` // one per CUDA device, from device 0 on
	Env    map[string]string `json:"env,omitempty"`
	Limit  time.Duration     `json:"limit"` // for everything
}

// CollectiveRank is the outcome of one rank.
type CollectiveRank struct {
	Rank     int    `json:"rank"`
	Out      []byte `json:"out,omitempty"` // for collective.Parse
	Log      []byte `json:"log,omitempty"` // the logs of NCCL and Python
	Exit     int    `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Stopped  bool   `json:"stopped,omitempty"` // stopped because another rank had ended
}
