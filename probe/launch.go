package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

var (
	// InspectLaunch asks whether a host can run nccl-tests.
	InspectLaunch = agent.Method[LaunchLook, LaunchHas](agent.Busy + "launch.look")
	// Launch runs mpirun to its end. mpirun starts its daemons on other hosts through a remote shell:
	// AwaitShell waits for such a request, RunDaemon carries it out on the other host, and AnswerShell
	// answers mpirun.
	Launch = agent.Method[LaunchSpec, LaunchEnded](agent.Busy + "launch.run")
	// AwaitShell waits for a request of mpirun to another host, by the launch's ID.
	AwaitShell = agent.Method[string, LaunchAsk](agent.Busy + "launch.asked")
	// RunDaemon runs one of mpirun's daemons to its end.
	RunDaemon = agent.Method[DaemonSpec, LaunchEnded](agent.Busy + "launch.daemon")
	// AnswerShell answers mpirun.
	AnswerShell = agent.Method[LaunchTold, struct{}](agent.Busy + "launch.told")
)

// TestPrograms says where nccl-tests and MPI are on a host.
type TestPrograms struct {
	Folder string `json:"folder,omitempty"` // with the programs of nccl-tests; "": the system's
	MPIRun string `json:"mpirun,omitempty"` // path; "": the system's mpirun
}

// LaunchLook asks whether this host can run nccl-tests.
type LaunchLook struct {
	TestPrograms
	GPUs int `json:"gpus"` // number of GPUs that the driver lists
}

// LaunchHas is the answer.
type LaunchHas struct {
	MPI     mpi.Release `json:"mpi"`
	GPUs    int         `json:"gpus"`              // number of GPUs that CUDA_VISIBLE_DEVICES allows
	Problem string      `json:"problem,omitempty"` // why nccl-tests cannot run; "" if it can
}

// RankSettings are the settings of the ranks on one host.
type RankSettings struct {
	Netdev string            `json:"netdev"` // the interface over which ranks meet
	Env    map[string]string `json:"env,omitempty"`
}

// LaunchSpec asks the first host of a job to run mpirun.
type LaunchSpec struct {
	ID string `json:"id"` // chosen by the caller; all other calls use it
	TestPrograms
	RankSettings
	Launch mpi.Launch         `json:"launch"`
	Run    collective.TestRun `json:"run"`
	Limit  time.Duration      `json:"limit"`
}

// LaunchAsk is a command that mpirun gave to its remote shell.
type LaunchAsk struct {
	Over   bool     `json:"over,omitempty"` // mpirun has ended; there are no more requests
	Number int      `json:"number"`
	Host   string   `json:"host"` // the address by which mpirun knows the host
	Words  []string `json:"words"`
}

// LaunchTold is the answer to mpirun, sent when the daemon has ended.
type LaunchTold struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	Exit   int    `json:"exit"`
	Text   string `json:"text,omitempty"` // an error message
}

// DaemonSpec asks another host of the job to run the daemon that mpirun asked for.
type DaemonSpec struct {
	ID string `json:"id"`
	TestPrograms
	RankSettings
	Words []string      `json:"words"`
	Limit time.Duration `json:"limit"`
}

// GoneWithin is how long processes of a launch may take to end after SIGKILL: the driver takes seconds to tear
// down a process that uses many GPUs or much pinned memory.
const GoneWithin = 30 * time.Second

// LaunchEnded is the outcome of mpirun or one of its daemons.
type LaunchEnded struct {
	Out      []byte `json:"out,omitempty"` // for mpirun: the output of the program
	Err      []byte `json:"err,omitempty"`
	Log      []byte `json:"log,omitempty"` // the NCCL logs of this host
	Exit     int    `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Left     []int  `json:"left,omitempty"`    // processes still alive GoneWithin after SIGKILL
	Stopped  bool   `json:"stopped,omitempty"` // stopped because another host's part had ended
}
