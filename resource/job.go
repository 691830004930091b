package resource

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/host/process"
)

// JobFile is the journal of the last installation of a stack on a host.
const JobFile = host.StackDir + "/job.json"

// The states of an installation.
const (
	JobRunning  = "running"
	JobChecking = "checking" // all programs succeeded, and the host is read again
	JobFailed   = "failed"
	JobDone     = "done"
)

// StuckAfter is how long an installation or a transfer may go on without output, bytes or processor time. It may take
// any time in all, so only progress shows that it works.
const StuckAfter = 10 * time.Minute

// Installation is an installation, as recorded in its journal. If the state is "running" but the process no longer exists, the
// installation was interrupted: by a power failure, or because it was killed.
type Installation struct {
	ID      string     `json:"id"`
	Fabric  string     `json:"fabric"`
	Who     string     `json:"who"`
	Stack   string     `json:"stack,omitempty"` // inbox, mlnx_ofed or doca_ofed; "" if unknown
	State   string     `json:"state"`
	Step    string     `json:"step,omitempty"`  // the running or last step
	Why     string     `json:"why,omitempty"`   // why it failed
	Stuck   bool       `json:"stuck,omitempty"` // for StuckAfter, its programs have only waited
	Boot    string     `json:"boot"`
	Process process.ID `json:"process"`
	// Alive means that the process is running. ReadJob sets it; it is not stored.
	Alive bool `json:"alive,omitempty"`
}

// Interrupted returns the step at which the installation was interrupted, or "" if it was not.
func (j *Installation) Interrupted() string {
	if j == nil || j.State == JobDone || j.State == JobChecking || j.Alive {
		return ""
	}
	return j.Step
}

// InterruptedFor is Interrupted for an installation of one stack. An unknown stack counts as this one.
func (j *Installation) InterruptedFor(stack string) string {
	if j == nil || j.Stack != stack && j.Stack != "" {
		return ""
	}
	return j.Interrupted()
}

// ReadJob reads the journal; nil if there is none. boot is the ID of the current boot. An unreadable journal counts as
// an interrupted installation.
func ReadJob(ctx context.Context, r host.Reader, boot string) *Installation {
	raw, err := r.ReadFile(ctx, JobFile)
	if err != nil {
		return nil
	}
	j := &Installation{}
	if json.Unmarshal(raw, j) != nil {
		return &Installation{State: JobFailed, Step: "unknown", Why: "cannot read its journal " + JobFile}
	}
	j.Alive = (j.State == JobRunning || j.State == JobChecking) && j.Boot == boot && runs(ctx, r, j.Process)
	return j
}

// runs reports whether a process is running: its PID and start time identify it (proc_pid_stat(5)).
func runs(ctx context.Context, r host.Reader, p process.ID) bool {
	stat := host.Text(ctx, r, "/proc/"+strconv.Itoa(p.PID)+"/stat")
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) >= 20 && f[0] != "Z" && f[19] == strconv.FormatUint(p.Start, 10)
}
