package resource

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
)

// JobFile is the journal of the last installation of a stack on a host.
const JobFile = host.StackDir + "/job.json"

// The states of an installation.
const (
	JobRunning  = "running"
	JobChecking = "checking" // all programs ended well, and the host is read again
	JobFailed   = "failed"
	JobDone     = "done"
)

// Job is an installation, as its journal says. One that says "running" and has no process any
// more was interrupted: by a power cut, or by who killed it.
type Job struct {
	ID      string     `json:"id"`
	Fabric  string     `json:"fabric"`
	Who     string     `json:"who"`
	Stack   string     `json:"stack,omitempty"` // inbox, mlnx_ofed or doca_ofed; "": not known
	State   string     `json:"state"`
	Step    string     `json:"step,omitempty"` // the one that runs, or was the last
	Why     string     `json:"why,omitempty"`  // it failed
	Boot    string     `json:"boot"`
	Process process.ID `json:"process"`
	// Alive: its process runs now. Set by who reads the journal, never written.
	Alive bool `json:"alive,omitempty"`
}

// Interrupted is where the installation broke off; "": it did not.
func (j *Job) Interrupted() string {
	if j == nil || j.State == JobDone || j.State == JobChecking || j.Alive {
		return ""
	}
	return j.Step
}

// InterruptedFor is Interrupted where it was that stack's installation, or where nobody knows.
func (j *Job) InterruptedFor(stack string) string {
	if j == nil || j.Stack != stack && j.Stack != "" {
		return ""
	}
	return j.Interrupted()
}

// ReadJob reads the journal in the boot of that id; nil where there is none. What cannot be read is
// taken as interrupted.
func ReadJob(ctx context.Context, r host.Reader, boot string) *Job {
	raw, err := r.ReadFile(ctx, JobFile)
	if err != nil {
		return nil
	}
	j := &Job{}
	if json.Unmarshal(raw, j) != nil {
		return &Job{State: JobFailed, Step: "unknown", Why: "its journal " + JobFile + " cannot be read"}
	}
	j.Alive = (j.State == JobRunning || j.State == JobChecking) && j.Boot == boot && runs(ctx, r, j.Process)
	return j
}

// runs says whether a process lives: number and start together name one (proc_pid_stat(5)).
func runs(ctx context.Context, r host.Reader, p process.ID) bool {
	stat := host.Text(ctx, r, "/proc/"+strconv.Itoa(p.PID)+"/stat")
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) >= 20 && f[0] != "Z" && f[19] == strconv.FormatUint(p.Start, 10)
}
