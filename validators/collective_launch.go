package validators

import (
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

// launching is one mpirun on a job's first host, with its daemons on the others.
type launching struct {
	*job
	id    string
	limit time.Duration

	mu      sync.Mutex
	began   map[int]bool // hosts whose daemon was requested
	refused []string     // why daemons did not start
	broken  []string     // how daemons failed
	late    *lateStop    // begins once one part has ended
	logs    []log
	held    []Result
}

// launched is the outcome of a launch.
type launched struct {
	probe.LaunchEnded
	refused, broken []string
	logs            []log
	held            []Result // processes that are still alive; also set with an error
}

// launch runs a program of nccl-tests on all hosts with mpirun. mpirun starts its daemons on the other hosts
// through a remote shell. Here that shell is the helper on the first host: it passes each request to this
// process, which has the helper on the daemon's own host start the daemon.
func (j *job) launch(ctx context.Context, run collective.TestRun, limit time.Duration) (launched, error) {
	id := rand.Text()
	l := &launching{job: j, id: id, limit: limit, began: map[int]bool{}, late: j.lateStop(ctx, id)}
	first := j.hosts[0]
	asking, stopAsking := context.WithCancel(ctx)
	defer stopAsking()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			ask, err := probe.AwaitShell.Call(asking, j.fleet, first.Name, l.id)
			if err != nil || ask.Over {
				return // if the host was lost, Launch returns the error
			}
			all.Go(func() { l.answer(ctx, ask) })
		}
	})
	e, err := probe.Launch.Call(ctx, j.fleet, first.Name, probe.LaunchSpec{ID: l.id, TestPrograms: j.programs(), RankSettings: j.rankSettings(first), Launch: j.mpiJob(), Run: run, Limit: limit})
	stopAsking()
	l.late.begin() // the daemons end soon after mpirun
	all.Wait()
	l.late.end()
	l.held = append(held(first.Name, e.Left), l.held...)
	if err != nil {
		return launched{held: l.held}, fmt.Errorf("host %s: %w", first.Name, err)
	}
	logs := append([]log{{host: first.Name, text: string(e.Log)}}, l.logs...)
	return launched{LaunchEnded: e, refused: l.refused, broken: l.broken, logs: logs, held: l.held}, nil
}

// held returns a warning about processes of a launch that are still alive on a host.
func held(host string, pids []int) []Result {
	if len(pids) == 0 {
		return nil
	}
	return []Result{{Check: CheckNCCL, Item: Leftovers, Subject: onHost(host), Host: host, Verdict: Warn,
		Values: []Measurement{{Name: MetricProcesses, Value: float64(len(pids)), Threshold: exactly(0)}},
		Cause:  fmt.Sprintf("mpirun processes still alive %s after SIGKILL: %s; they may hold GPUs", probe.GoneWithin, strings.Trim(fmt.Sprint(pids), "[]")),
		Cure:   "check again with ps; if the processes are still there, look for the reason in dmesg, and reboot the host"}}
}

// answer starts the daemon that mpirun asks for. It refuses hosts outside the job, and a second daemon on a host.
func (l *launching) answer(ctx context.Context, ask probe.LaunchAsk) {
	told := probe.LaunchTold{ID: l.id, Number: ask.Number, Exit: 1}
	i := slices.IndexFunc(l.hosts, func(h launch.Host) bool { return h.SocketAddr.String() == ask.Host })
	l.mu.Lock()
	again := l.began[i]
	l.began[i] = true
	l.mu.Unlock()
	if i < 1 || again {
		told.Text = fmt.Sprintf("refused: %.80q is not a host of this job, or its daemon was already started", ask.Host)
	} else {
		h := l.hosts[i]
		e, err := probe.RunDaemon.Call(ctx, l.fleet, h.Name, probe.DaemonSpec{ID: l.id, TestPrograms: l.programs(), RankSettings: l.rankSettings(h), Words: ask.Words, Limit: l.limit})
		switch {
		case err != nil:
			told.Text = "host " + h.Name + ": " + err.Error()
		case e.Exit != 0 && !e.Stopped:
			told.Exit, told.Text = max(e.Exit, 1), "host "+h.Name+": mpirun's daemon "+how(e)
		default:
			told.Exit = 0
		}
		l.mu.Lock()
		if err != nil {
			l.refused = append(l.refused, told.Text)
		} else if told.Text != "" {
			l.broken = append(l.broken, told.Text)
		}
		l.logs = append(l.logs, log{host: h.Name, text: string(e.Log)})
		l.held = append(l.held, held(h.Name, e.Left)...)
		l.mu.Unlock()
	}
	if told.Text != "" {
		l.late.begin() // otherwise Hydra's mpirun would wait forever for this daemon
	}
	_, _ = probe.AnswerShell.Call(ctx, l.fleet, l.hosts[0].Name, told) // an error here means only that mpirun has ended
}

// how describes how a failed daemon ended.
func how(e probe.LaunchEnded) string {
	text := fmt.Sprintf("exited with status %d", e.Exit)
	switch {
	case e.TimedOut:
		text = "timed out"
	case e.Signal != "":
		text = "was ended by a signal (" + e.Signal + ")"
	}
	if reason := mpi.Reason(nil, e.Err, 400); reason != "" {
		text += ": " + reason
	}
	return text
}

func (j *job) programs() probe.TestPrograms {
	return probe.TestPrograms{Folder: j.check.NCCLTests, MPIRun: j.check.MPIRun}
}

func (j *job) rankSettings(h launch.Host) probe.RankSettings {
	return probe.RankSettings{Netdev: h.Socket, Env: j.settings(h)}
}

// mpiJob returns the job in MPI's terms. MPI uses the networks on which NCCL's ranks meet.
func (j *job) mpiJob() mpi.Launch {
	l := mpi.Launch{Release: j.mpi}
	for i, h := range j.hosts {
		l.Hosts = append(l.Hosts, mpi.Host{Address: h.SocketAddr, Ranks: j.gpus[i]})
		network := netip.PrefixFrom(h.SocketAddr, h.SocketAddr.BitLen())
		for _, a := range j.snapshots[h.Name].Addrs {
			if a.Prefix.Addr() == h.SocketAddr {
				network = a.Prefix.Masked()
			}
		}
		if !slices.Contains(l.Networks, network) {
			l.Networks = append(l.Networks, network)
		}
	}
	return l
}

// ipv4 matches the addresses in mpirun's output, which knows the hosts only by their addresses.
var ipv4 = regexp.MustCompile(`\d+(?:\.\d+){3}`)

// why returns why a launch failed, or "" if it did not. Wrong values are a result, not a failure.
func (l launched) why(j *job, t collective.Table) string {
	all := make([]int, j.world())
	for i := range all {
		all[i] = i
	}
	said := ipv4.ReplaceAllStringFunc(mpi.Reason(l.Out, l.Err, 600), func(address string) string {
		if i := slices.IndexFunc(j.hosts, func(h launch.Host) bool { return h.SocketAddr.String() == address }); i >= 0 {
			return j.hosts[i].Name
		}
		return address
	})
	failures := slices.Concat(t.Failures, collective.ParseTable(l.Err).Failures) // the dynamic loader writes its errors there
	switch {
	case len(l.refused) > 0:
		return strings.Join(l.refused, "; ")
	case len(t.Ranks) > 0 && t.Ranks[len(t.Ranks)-1] == 0 && len(all) > 1:
		return "the ranks do not find each other: build nccl-tests with MPI=1, against the MPI that this mpirun belongs to"
	case l.TimedOut:
		return fmt.Sprintf("timed out after %s", collectiveLimit)
	case t.OutOfBounds != nil && (l.Exit == 0 || *t.OutOfBounds > 0) && slices.Equal(t.Ranks, all):
		return ""
	case l.Stopped && len(l.broken) > 0:
		return strings.Join(l.broken, "; ")
	case len(failures) > 0:
		return failures[0]
	case l.Signal != "":
		return "mpirun was ended by a signal (" + l.Signal + ")"
	case said != "":
		return said
	case t.OutOfBounds != nil:
		return fmt.Sprintf("only %d of %d ranks reported", len(t.Ranks), len(all))
	}
	return fmt.Sprintf("mpirun exited with status %d and gave no reason", l.Exit)
}
