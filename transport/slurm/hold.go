//go:build linux

package slurm

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hold is an allocation of one processor on some nodes. It lasts until this process closes its input or ends, for the holders on the nodes
// read that input; but no longer than its time limit, which is extended until then.
type hold struct {
	job       string
	nodes     []string
	exclusive bool // it has all of its nodes
	process   *process
	began     time.Time
	limit     time.Duration
	needed    context.Context // ends when it is not needed any more
	unneeded  context.CancelFunc
}

func (h *hold) alive() bool {
	select {
	case <-h.process.exited:
		return false
	default:
		return true
	}
}

func (h *hold) end() {
	h.unneeded()
	h.process.stop()
}

// defaultLimit is the time limit of jobs for hosts whose files, of an earlier release, say none.
const defaultLimit = 15 * time.Minute

// extensions is how often a time limit is extended while it lasts.
const extensions = 3

// watch extends the time limit until the hold ends. If its job ends before, it says so.
func (h *hold) watch(say func(string)) {
	tick := time.NewTicker(h.limit / extensions)
	defer tick.Stop()
	for {
		select {
		case <-h.needed.Done():
			return
		case <-h.process.exited:
			if h.needed.Err() == nil {
				say(h.lost())
			}
			return
		case <-tick.C: // without an answer, the next one may come in time; the job's end is said
			_, _ = ask(h.needed, "scontrol", "update", "JobId="+h.job, "TimeLimit="+minutes(time.Since(h.began)+h.limit))
		}
	}
}

// lost says how the job ended under us.
func (h *hold) lost() string {
	state := "COMPLETING"
	for end := time.Now().Add(stopPatience); state == "COMPLETING" && time.Now().Before(end) && h.needed.Err() == nil; time.Sleep(lookEvery / 4) {
		text, _ := ask(h.needed, "squeue", "--noheader", "--states=all", "--jobs="+h.job, "--format=%T") // an error: what srun said
		state = strings.TrimSpace(text)
	}
	switch {
	case state == "":
		state = neutral(h.process.said())
	case strings.HasPrefix(state, "TIMEOUT"):
		state += ": it was not extended, for which the user must be root, SlurmUser or an operator; set slurm.time_limit"
	}
	return fmt.Sprintf("job %s, by which this command holds %s, has ended (%s)", h.job, strings.Join(h.nodes, ", "), state)
}

// minutes returns a time limit as Slurm's programs read it, rounded up.
func minutes(d time.Duration) string { return strconv.Itoa(int((d + time.Minute - 1) / time.Minute)) }

// report is what a holder said of its node.
type report struct {
	job    string
	ready  bool   // the helper of this build is installed
	goarch string // as Go names it
}

// installDir is where helpers are installed on nodes. Only root has access.
const installDir = "/var/lib/fabricform/helpers"

// installed returns the path of an installed helper. The version is hexadecimal.
func installed(version string) string { return installDir + "/fabricform-" + version }

// versionID matches valid versions of a helper, which become part of the script below.
var versionID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[0-9a-f]{8,64}$`) })

// holder returns the script of a hold: fixed text, a checked version and a random word, by which its report is told from what prologs
// and plug-ins print. After the report it waits for the end of the input. Only sudo, which lists a program that exists and may be run, sees
// what is in root's folder.
func holder(version, word string, sudo bool) string {
	there := `[ -x ` + installed(version) + ` ]`
	if sudo {
		there = `sudo -n -l -- ` + installed(version) + ` agent ` + dialBackFlag + ` ` + nodeFlag + `"$SLURMD_NODENAME" >/dev/null 2>&1 </dev/null`
	}
	return `h=no; ` + there + ` && h=yes; echo "` + word + ` $SLURMD_NODENAME $SLURM_JOB_ID $h $(uname -m)"; exec cat >/dev/null`
}

// raise starts an installed helper by sudo, which drops the environment.
const raise = `exec sudo -n -- "$0" agent ` + dialBackFlag + ` ` + nodeFlag + `"$SLURMD_NODENAME"`

// How long Slurm may take to allocate processors: no plan waits for a job. Where none is free, only a partition that shares them can
// give one, and does so at once.
const (
	allocationPatience = 10 * time.Second
	sharePatience      = 3 * time.Second
)

// startHold allocates one processor on each call's node, for the run whose first job is given, "" if it has none yet. All nodes report, or
// it fails.
func startHold(rs []*request, version, first string) (*hold, map[string]report, error) {
	if !versionID().MatchString(version) {
		return nil, nil, fmt.Errorf("helper version %q is not hexadecimal", version)
	}
	names, shared := make([]string, len(rs)), rs[0].to.Slurm
	enough, patience := true, allocationPatience
	for i, r := range rs {
		if names[i] = r.node.name; r.node.busy() {
			patience = sharePatience
		}
		enough = enough && r.node.memory >= 1024
	}
	if len(rs) == 1 && rs[0].waits > 0 {
		patience = rs[0].waits
	}
	word, limit := rand.Text(), cmp.Or(shared.TimeLimit, defaultLimit)
	argv := append(srun(names), "--immediate="+strconv.Itoa(int(max(patience, time.Second)/time.Second)), "--job-name="+holdName, "--no-kill",
		"--time="+minutes(limit))
	if first != "" {
		argv = append(argv, "--comment="+runOf+first)
	}
	switch {
	case shared.Exclusive: // all processors and GPUs, but only as much memory as it asks for (srun(1)): 0 is all
		argv = append(argv, "--exclusive", "--mem=0")
	case enough: // nodes whose memory slurm.conf does not tell have 1 MiB for Slurm
		argv = append(argv, "--mem=256M") // without, a job asks for all of a node's memory where Slurm accounts for it
	}
	if os.Getuid() == root { // a small job does not wait behind large ones that wait for nodes; users may not ask for this
		argv = append(argv, "--priority=TOP")
	}
	if shared.Partition != "" {
		argv = append(argv, "--partition="+shared.Partition)
	}
	if shared.Reservation != "" {
		argv = append(argv, "--reservation="+shared.Reservation)
	}
	if shared.Account != "" {
		argv = append(argv, "--account="+shared.Account)
	}
	if shared.QOS != "" {
		argv = append(argv, "--qos="+shared.QOS)
	}
	said := make(chan struct {
		node string
		report
	}, len(rs))
	p, err := start(append(argv, "/bin/sh", "-c", holder(version, word, sudo(rs[0].to))), func(line string) {
		f := strings.Fields(line)
		if len(f) != 5 || f[0] != word || strings.Trim(f[2], "0123456789") != "" {
			return
		}
		r := struct {
			node string
			report
		}{f[1], report{job: f[2], ready: f[3] == "yes", goarch: goarch(f[4])}}
		select {
		case said <- r:
		default:
		}
	})
	if err != nil {
		return nil, nil, err
	}
	reports, late := map[string]report{}, time.After(patience+startPatience)
	for len(reports) < len(rs) {
		select {
		case r := <-said:
			reports[r.node] = r.report
			continue
		case <-p.exited:
			err = errors.New(p.said())
		case <-rs[0].ctx.Done():
			err = rs[0].ctx.Err()
			_ = p.cmd.Process.Signal(syscall.SIGTERM) // it may have ended; while it waits for processors, it does not read its input
		case <-late:
			err = fmt.Errorf("no report of its nodes within %s: %s", startPatience, p.errs.String())
		}
		p.stop()
		return nil, nil, err
	}
	h := &hold{job: reports[names[0]].job, nodes: names, exclusive: shared.Exclusive, process: p, began: time.Now(), limit: limit}
	h.needed, h.unneeded = context.WithCancel(context.Background())
	for _, name := range names {
		if reports[name].job != h.job {
			h.end()
			return nil, nil, fmt.Errorf("the report of node %s is missing", name)
		}
	}
	return h, reports, nil
}

// goarch returns Go's name for the architecture that uname -m says; the same name if Go has none.
func goarch(machine string) string {
	switch machine {
	case "x86_64":
		return "amd64"
	case "aarch64":
		return "arm64"
	}
	return machine
}

// srun returns the command that runs one task on each of the nodes, with none of our environment.
func srun(names []string) []string {
	n := strconv.Itoa(len(names))
	return []string{"srun", "--nodes=" + n, "--ntasks=" + n, "--ntasks-per-node=1", "--nodelist=" + strings.Join(names, ","), "--chdir=/",
		"--export=PATH=/usr/sbin:/usr/bin:/sbin:/bin", "--kill-on-bad-exit=0", "--mpi=none", "--input=all"}
}

// stepOf returns the command of a further step in an allocation. A step has no GPU that it does not ask for, whatever its job has, and its
// one task might be bound to one processor.
func stepOf(h *hold, names []string, gpus int) []string {
	argv := append(srun(names), "--jobid="+h.job, "--overlap")
	if h.exclusive {
		argv = append(argv, "--cpu-bind=none")
	}
	if h.exclusive && gpus > 0 {
		argv = append(argv, "--gpus-per-node="+strconv.Itoa(gpus))
	}
	return argv
}

// run starts a step of helpers in an allocation; they wait for their credential. If the program is not there, it is sent to the nodes,
// each of which then installs it.
func (c *Cluster) run(ctx context.Context, s step, names []string) (*process, error) {
	if s.goarch != "" {
		return c.send(ctx, s, names)
	}
	command := []string{installed(c.Helper.Version()), "agent", dialBackFlag}
	if s.sudo {
		command = []string{"/bin/sh", "-c", raise, command[0]}
	}
	return start(append(stepOf(s.hold, names, s.gpus), command...), nil)
}

// tell hands the credential to all helpers of a step.
func (p *process) tell(credential string) error {
	if _, err := io.WriteString(p.in, credential); err != nil {
		p.stop()
		return fmt.Errorf("send the credential: %s", p.said())
	}
	return p.in.Close()
}
