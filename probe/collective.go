package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/collective"
)

var (
	// InspectCollective asks what a host has to run ranks of NCCL with.
	InspectCollective = agent.Method[CollectiveLook, CollectiveHas](agent.Busy + "collective.look")
	// RunCollective runs a host's ranks of a job to their ends.
	RunCollective = agent.Method[CollectiveSpec, []CollectiveRank](agent.Busy + "collective.run")
	// StopCollective ends a host's part of a job or of a launch, by its ID.
	StopCollective = agent.Method[string, struct{}](agent.Busy + "collective.stop")
)

// Ports at which ranks meet begin with torchrun's default, so that one rule of a firewall is enough.
const (
	firstMeetingPort = 29500
	meetingPorts     = 100
)

// CollectiveLook asks what this host has to run ranks with.
type CollectiveLook struct {
	Python string `json:"python,omitempty"` // path; "": the system's python3
}

// CollectiveHas is the answer.
type CollectiveHas struct {
	Look    collective.Look `json:"look"`
	Problem string          `json:"problem,omitempty"` // why ranks cannot run; "": they can
	Port    uint16          `json:"port,omitempty"`    // a free one to meet at
}

// CollectiveSpec asks for this host's ranks of a job.
type CollectiveSpec struct {
	ID     string            `json:"id"` // by which CollectiveStop names it
	Python string            `json:"python,omitempty"`
	Job    collective.Job    `json:"job"`
	First  int               `json:"first"` // number of the first rank here
	Ranks  int               `json:"ranks"` // one for each CUDA device, from 0 on
	Env    map[string]string `json:"env,omitempty"`
	Limit  time.Duration     `json:"limit"` // for everything
}

// CollectiveRank is how one rank ended.
type CollectiveRank struct {
	Rank     int    `json:"rank"`
	Out      []byte `json:"out,omitempty"` // what collective.Parse reads
	Log      []byte `json:"log,omitempty"` // NCCL's and Python's own
	Exit     int    `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Stopped  bool   `json:"stopped,omitempty"` // by CollectiveStop, because another rank had ended
}
