package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

var (
	// InspectLaunch asks whether a user of a host can run nccl-tests.
	InspectLaunch = agent.Method[TestPrograms, LaunchHas](agent.Busy + "launch.look")
	// Launch runs a launcher of MPI to its end. It starts ranks on this host, and over SSH or by Slurm on the others. Each of the hosts
	// must tend the ranks before.
	Launch = agent.Method[LaunchSpec, LaunchEnded](agent.Busy + "launch.run")
	// TendRanks looks after the ranks of a launch on one host until StopCollective, its limit, or the end of the caller's stream.
	// Then it kills those that are left, and removes their files. No rank survives its client this way, whatever its launcher does.
	TendRanks = agent.Method[RanksSpec, RanksEnded](agent.Busy + "launch.tend")
	// AwaitTended returns when TendRanks with that ID is ready for ranks.
	AwaitTended = agent.Method[string, struct{}](agent.Busy + "launch.await")
)

// TestPrograms says where nccl-tests and MPI are on a host, and who runs them.
type TestPrograms struct {
	User   string `json:"user,omitempty"`   // "": the helper's
	Folder string `json:"folder,omitempty"` // with the programs of nccl-tests; "": the system's
	MPIRun string `json:"mpirun,omitempty"` // path; "": the system's mpirun
	// Slurm starts the ranks by srun, in the allocation of the helper's own job step, and by no mpirun.
	Slurm bool `json:"slurm,omitempty"`
}

// LaunchHas is the answer to InspectLaunch.
type LaunchHas struct {
	MPI     mpi.Release `json:"mpi"`
	Job     string      `json:"job,omitempty"`     // of Slurm, in which the helper runs
	Node    string      `json:"node,omitempty"`    // as that job names the host
	Problem string      `json:"problem,omitempty"` // why nccl-tests cannot run; "" if it can
}

// LaunchSpec asks the first host of a job to run the launcher.
type LaunchSpec struct {
	ID string `json:"id"` // chosen by the caller, for StopCollective
	TestPrograms
	Ranks  string             `json:"ranks"`  // the ID of TendRanks
	Script []byte             `json:"script"` // for sh, as `render nccl` prints it; its arguments are the program of the ranks
	Run    collective.TestRun `json:"run"`
	Limit  time.Duration      `json:"limit"`
	// Nodes of Slurm get PerNode ranks each, in this order.
	Nodes   []string `json:"nodes,omitempty"`
	PerNode int      `json:"per_node,omitempty"`
}

// RanksSpec asks a host to tend its ranks of a launch.
type RanksSpec struct {
	ID    string        `json:"id"`             // 26 letters and digits, as rand.Text returns them
	User  string        `json:"user,omitempty"` // of the ranks; "": the helper's
	Limit time.Duration `json:"limit"`
}

// RanksEnded holds the logs of a host's ranks, and the ranks that did not end.
type RanksEnded struct {
	Log   []byte `json:"log,omitempty"`  // NCCL's logs of this host
	Alive []int  `json:"left,omitempty"` // ranks still alive GoneWithin after SIGKILL
}

// GoneWithin is how long processes of a launch may take to end after SIGKILL: the driver takes seconds to tear
// down a process that uses many GPUs or much pinned memory.
const GoneWithin = 30 * time.Second

// LaunchEnded is the outcome of the launcher.
type LaunchEnded struct {
	Out      []byte `json:"out,omitempty"` // of the ranks
	Err      []byte `json:"err,omitempty"`
	Exit     int    `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Alive    []int  `json:"left,omitempty"`    // processes still alive GoneWithin after SIGKILL
	Stopped  bool   `json:"stopped,omitempty"` // by StopCollective
}
