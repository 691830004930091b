package probe

import (
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

var (
	// InspectLaunch asks what a host has to run nccl-tests with.
	InspectLaunch = agent.Method[LaunchLook, LaunchHas](agent.Busy + "launch.look")
	// Launch runs mpirun to its end. What mpirun wants a remote shell to do on other hosts, AwaitShell
	// waits for, RunDaemon does there, and AnswerShell answers.
	Launch = agent.Method[LaunchSpec, LaunchEnded](agent.Busy + "launch.run")
	// AwaitShell waits for what mpirun wants of another host, by the launch's ID.
	AwaitShell = agent.Method[string, LaunchAsk](agent.Busy + "launch.asked")
	// RunDaemon runs a daemon of mpirun's to its end.
	RunDaemon = agent.Method[DaemonSpec, LaunchEnded](agent.Busy + "launch.daemon")
	// AnswerShell answers mpirun.
	AnswerShell = agent.Method[LaunchTold, struct{}](agent.Busy + "launch.told")
)

// TestPrograms say where nccl-tests and MPI lie on a host.
type TestPrograms struct {
	Folder string `json:"folder,omitempty"` // of nccl-tests' programs; "": the system's
	MPIRun string `json:"mpirun,omitempty"` // path; "": the system's mpirun
}

// LaunchLook asks what this host has to run nccl-tests with.
type LaunchLook struct {
	TestPrograms
	GPUs int `json:"gpus"` // that its driver runs
}

// LaunchHas is the answer.
type LaunchHas struct {
	MPI     mpi.Release `json:"mpi"`
	GPUs    int         `json:"gpus"`              // that CUDA_VISIBLE_DEVICES leaves
	Problem string      `json:"problem,omitempty"` // why nccl-tests cannot run; "": they can
}

// RankSettings are what one host's ranks of a launch are given.
type RankSettings struct {
	Netdev string            `json:"netdev"` // over which ranks meet
	Env    map[string]string `json:"env,omitempty"`
}

// LaunchSpec asks the first host of a job to run mpirun.
type LaunchSpec struct {
	ID string `json:"id"` // by which all else names it
	TestPrograms
	RankSettings
	Launch mpi.Launch         `json:"launch"`
	Run    collective.TestRun `json:"run"`
	Limit  time.Duration      `json:"limit"`
}

// LaunchAsk is what mpirun would have a remote shell do.
type LaunchAsk struct {
	Over   bool     `json:"over,omitempty"` // mpirun has ended, and asks no more
	Number int      `json:"number"`
	Host   string   `json:"host"` // as mpirun was told it
	Words  []string `json:"words"`
}

// LaunchTold answers it, once the daemon has ended.
type LaunchTold struct {
	ID     string `json:"id"`
	Number int    `json:"number"`
	Exit   int    `json:"exit"`
	Text   string `json:"text,omitempty"` // what a person is to read
}

// DaemonSpec asks another host of the job for what mpirun asked for.
type DaemonSpec struct {
	ID string `json:"id"`
	TestPrograms
	RankSettings
	Words []string      `json:"words"`
	Limit time.Duration `json:"limit"`
}

// GoneWithin is how long a launch's processes may take to go once they are killed: the driver takes seconds to tear
// down one that has many GPUs or much pinned memory.
const GoneWithin = 30 * time.Second

// LaunchEnded is how mpirun, or a daemon of its, ended.
type LaunchEnded struct {
	Out      []byte `json:"out,omitempty"` // mpirun's has what the program printed
	Err      []byte `json:"err,omitempty"`
	Log      []byte `json:"log,omitempty"` // of the NCCLs on this host
	Exit     int    `json:"exit,omitempty"`
	Signal   string `json:"signal,omitempty"`
	TimedOut bool   `json:"timed_out,omitempty"`
	Left     []int  `json:"left,omitempty"`    // processes that were to be killed and have not gone within GoneWithin
	Stopped  bool   `json:"stopped,omitempty"` // by Stop, because another host's part had ended
}
