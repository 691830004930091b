package validators

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/nccl/launch"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
)

// launched is the outcome of a launch.
type launched struct {
	probe.LaunchEnded
	logs []log
	held []Result // processes that are still alive; also set with an error
}

// tendedLonger is how much longer the ranks are tended than their launcher may run.
const tendedLonger = time.Minute

// launch runs a program of nccl-tests on all hosts, by the script that `render nccl` prints. The launcher runs on the first host. It
// logs in to the others as the mesh's user, or has Slurm start the ranks.
func (j *job) launch(ctx context.Context, run collective.TestRun, limit time.Duration) (l launched, err error) {
	script, err := j.script()
	if err != nil {
		return l, err
	}
	id, ranks, first := rand.Text(), rand.Text(), j.hosts[0].Name
	stop := func(host, id string) { _, _ = probe.StopCollective.Call(ctx, j.fleet, host, id) } // a host that is lost stops by itself
	starting, giveUp := context.WithCancel(ctx)
	defer giveUp()

	var mu sync.Mutex // guards lost
	var lost error
	ended, waiting := make([]probe.RanksEnded, len(j.hosts)), make([]error, len(j.hosts))
	var all sync.WaitGroup
	for i, h := range j.hosts {
		all.Go(func() {
			var err error
			ended[i], err = probe.TendRanks.Call(ctx, j.fleet, h.Name,
				probe.RanksSpec{ID: ranks, User: j.programs().User, Limit: limit + tendedLonger})
			if err != nil {
				mu.Lock()
				lost = cmp.Or(lost, fmt.Errorf("host %s: %w", h.Name, err))
				mu.Unlock()
				giveUp()
				stop(first, id) // its launcher may not notice
			}
		})
	}
	j.each(func(i int, host string) { _, waiting[i] = probe.AwaitTended.Call(starting, j.fleet, host, ranks) })
	for i, h := range j.hosts {
		if waiting[i] != nil {
			err = cmp.Or(err, fmt.Errorf("host %s: %w", h.Name, waiting[i]))
		}
	}
	if err == nil {
		l.LaunchEnded, err = probe.Launch.Call(ctx, j.fleet, first,
			probe.LaunchSpec{ID: id, TestPrograms: j.programs(), Ranks: ranks, Script: script, Run: run, Limit: limit, Nodes: j.nodes, PerNode: j.gpus[0]})
		if err != nil {
			err = fmt.Errorf("host %s: %w", first, err)
		}
	}
	j.each(func(_ int, host string) { stop(host, ranks) })
	all.Wait()
	left := slices.Clone(l.Alive)
	for i, h := range j.hosts {
		l.logs = append(l.logs, log{host: h.Name, text: string(ended[i].Log)})
		left = append(left, ended[i].Alive...)
		slices.Sort(left)
		l.held = append(l.held, warnHeld(h.Name, slices.Compact(left))...)
		left = nil
	}
	return l, cmp.Or(lost, err)
}

// warnHeld returns a warning about processes of a launch that are still alive on a host.
func warnHeld(host string, pids []int) []Result {
	if len(pids) == 0 {
		return nil
	}
	shown := pids[:min(len(pids), 10)]
	text := strings.Trim(fmt.Sprint(shown), "[]")
	if others := len(pids) - len(shown); others > 0 {
		text += fmt.Sprintf(" and %d more", others)
	}
	return []Result{{Check: CheckNCCL, Item: Leftovers, Subject: onHost(host), Host: host, Verdict: Warn,
		Values: []Measurement{{Name: MetricProcesses, Value: float64(len(pids)), Threshold: exactly(0)}},
		Cause:  fmt.Sprintf("processes of nccl-tests still alive %s after SIGKILL: %s; they may hold GPUs", probe.GoneWithin, text),
		Cure:   "check again with ps; if the processes are still there, look for the reason in dmesg, and reboot the host"}}
}

// script returns what `render nccl` prints for the hosts of the job and their MPI.
func (j *job) script() ([]byte, error) {
	format := "mpirun"
	switch j.mpi.Kind {
	case mpi.MPICH:
		format = "hydra"
	case mpi.Slurm:
		format = "slurm"
	}
	rendered := launch.Of(j.fabric, j.hosts)
	rendered.MPIRun = j.check.MPIRun
	files, err := launch.Render(format, rendered)
	if err != nil {
		return nil, err
	}
	return files[0].Text, nil // one for the whole job
}

func (j *job) programs() probe.TestPrograms {
	if j.loginMesh == nil {
		return probe.TestPrograms{Folder: j.check.NCCLTests, Slurm: true}
	}
	return probe.TestPrograms{User: j.loginMesh.User, Folder: j.check.NCCLTests, MPIRun: j.check.MPIRun}
}

// canLogIn returns results if the first host cannot log in to one of the others: a launcher would only say that its daemon did
// not start.
func (j *job) canLogIn(ctx context.Context) []Result {
	first, others := j.hosts[0].Name, j.names()[1:]
	var peers []probe.LoginPeer
	at := j.loginAddresses()
	for _, h := range launch.Of(j.fabric, j.hosts).Hosts[1:] { // as the script names them
		p := probe.LoginPeer{Name: h.At(), Addrs: []netip.Addr{h.Login}, Port: j.snapshots[h.Name].Management.Port}
		if j.mpi.Kind == mpi.MPICH {
			p.Name = h.HydraAt()
		}
		if p.Name != h.Login.String() {
			p.Addrs = onlyAddresses(at[h.Name])
		}
		peers = append(peers, p)
	}
	got, err := j.tryPeers(ctx, j.loginMesh, first, peers)
	if err != nil {
		return j.unmeasured(err.Error(), "")
	}
	for i, to := range others {
		switch state := got[i].State; state {
		case probe.LoginWorks, probe.LoginPrints:
		default:
			at := to
			if slices.Contains(atHome, state) {
				at = first
			}
			cause, cure := j.whyLogin(j.loginMesh, at, state)
			if got[i].Said != "" {
				cause += fmt.Sprintf(" (%q)", got[i].Said)
			}
			return j.unmeasured(fmt.Sprintf("%s cannot log in to %s as %s: %s", first, to, j.loginMesh.User, cause), cure)
		}
	}
	return nil
}

// ipv4 matches the addresses in a launcher's output, which knows the hosts only by their addresses.
var ipv4 = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\d+(?:\.\d+){3}`) })

// why returns why a launch failed, or "" if it did not. Wrong values are a result, not a failure.
func (l launched) why(j *job, t collective.Table) string {
	all := make([]int, j.world())
	for i := range all {
		all[i] = i
	}
	said := ipv4().ReplaceAllStringFunc(mpi.Reason(l.Out, l.Err, 600), func(text string) string {
		address, _ := netip.ParseAddr(text)
		if i := slices.IndexFunc(j.hosts, func(h launch.Host) bool { return h.Login == address || h.Address == text }); i >= 0 {
			return j.hosts[i].Name
		}
		return text
	})
	launcher, build := "mpirun", "against the MPI that this mpirun belongs to"
	if j.mpi.Kind == mpi.Slurm {
		launcher, build = "srun", "against an MPI whose ranks find each other by PMIx"
	}
	failures := slices.Concat(t.Failures, collective.ParseTable(l.Err).Failures) // the dynamic loader writes its errors there
	switch {
	case len(t.Ranks) > 0 && t.Ranks[len(t.Ranks)-1] == 0 && len(all) > 1:
		return "the ranks do not find each other: build nccl-tests with MPI=1, " + build
	case l.TimedOut:
		return fmt.Sprintf("timed out after %s", collectiveLimit)
	case t.OutOfBounds != nil && (l.Exit == 0 || *t.OutOfBounds > 0) && slices.Equal(t.Ranks, all):
		return ""
	case len(failures) > 0:
		return failures[0]
	case l.Signal != "":
		return launcher + " was ended by a signal (" + l.Signal + ")"
	case said != "":
		return said
	case t.OutOfBounds != nil:
		return fmt.Sprintf("only %d of %d ranks reported", len(t.Ranks), len(all))
	}
	return fmt.Sprintf("%s exited with status %d and gave no reason", launcher, l.Exit)
}
