package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/perftest"
)

var (
	// ServeVerbs starts the server of a perftest program.
	ServeVerbs = agent.Method[VerbsServeSpec, VerbsServeResult](agent.Busy + "verbs.serve")
	// RunVerbs runs the client.
	RunVerbs = agent.Method[VerbsRunSpec, VerbsOutcome](agent.Busy + "verbs.run")
	// CollectVerbs waits for a server to end, by its ID.
	CollectVerbs = agent.Method[string, VerbsOutcome](agent.Busy + "verbs.collect")
	// VerbsVersion asks for perftest's version. The zero version means that perftest is missing or does not report it.
	VerbsVersion = agent.Method[perftest.Test, perftest.Version](agent.Busy + "verbs.version")
	// ReadRDMACounters reads the counters of a port of an RDMA device.
	ReadRDMACounters = agent.Method[RDMAPort, RDMACounters]("counters.rdma")
)

// RDMAPort names a port of an RDMA device.
type RDMAPort struct {
	Device string `json:"device"`
	Port   int    `json:"port"`
}

// The control port is one of this range, which begins with perftest's default, so that one firewall rule is enough.
const (
	FirstControlPort = 18515
	controlPorts     = 100
)

// VerbsServeSpec asks for the server of a perftest program. The host chooses the control port.
type VerbsServeSpec struct {
	Test  perftest.Spec `json:"test"`
	End   perftest.End  `json:"end"`
	Limit time.Duration `json:"limit"` // for the whole test, from the start of this program
}

// VerbsServeResult names a listening server.
type VerbsServeResult struct {
	ID   string `json:"id"`
	Port uint16 `json:"port"` // TCP, of the control connection
}

// VerbsRunSpec asks for the client. Test is the server's, with the control port.
type VerbsRunSpec = VerbsServeSpec

// VerbsOutcome is the outcome of one program, with its JSON report if its release writes correct JSON.
type VerbsOutcome struct {
	perftest.ProgramRun
	JSON []byte `json:"json,omitempty"`
}

// RDMACounters are the counters of one port of an RDMA device, by their names in sysfs.
type RDMACounters map[string]uint64
