package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/perftest"
)

var (
	// ServeVerbs starts the serving end of a perftest program.
	ServeVerbs = agent.Method[VerbsServeSpec, VerbsServeResult](agent.Busy + "verbs.serve")
	// RunVerbs runs the client's end.
	RunVerbs = agent.Method[VerbsRunSpec, VerbsOutcome](agent.Busy + "verbs.run")
	// CollectVerbs waits for the end of a serving end, by its ID.
	CollectVerbs = agent.Method[string, VerbsOutcome](agent.Busy + "verbs.collect")
	// VerbsVersion asks for perftest's release; the zero one where it is missing or does not say.
	VerbsVersion = agent.Method[perftest.Test, perftest.Version](agent.Busy + "verbs.version")
	// ReadRDMACounters reads the counters of a port of an RDMA device.
	ReadRDMACounters = agent.Method[RDMAPort, RDMACounters]("counters.rdma")
)

// RDMAPort names a port of an RDMA device.
type RDMAPort struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
}

// Control ports are those from perftest's own default on, so that one rule of a firewall is enough.
const (
	FirstControlPort = 18515
	controlPorts     = 100
)

// VerbsServeSpec asks for the serving end of a perftest program. The control port is chosen on the
// host.
type VerbsServeSpec struct {
	Test  perftest.Spec `json:"test"`
	End   perftest.End  `json:"end"`
	Limit time.Duration `json:"limit"` // for the whole test, from the start of this end
}

// VerbsServeResult names an end that listens.
type VerbsServeResult struct {
	ID   string `json:"id"`
	Port uint16 `json:"port"` // TCP, of the control connection
}

// VerbsRunSpec asks for the client's end. Test is what the server was asked for, with its port.
type VerbsRunSpec = VerbsServeSpec

// VerbsOutcome is how one end ended, with what it wrote as JSON, if its release does that well.
type VerbsOutcome struct {
	perftest.Outcome
	JSON []byte `json:"json,omitempty"`
}

// RDMACounters are the counters of one port of an RDMA device, by their names in sysfs.
type RDMACounters map[string]uint64
