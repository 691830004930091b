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
	began   map[int]bool // hosts whose daemon was asked for
	refused []string     // why a daemon did not run
	broken  []string     // how a daemon ended badly
	late    *lateStop    // once one part has ended
	logs    []log
	held    []Result
}

// launched is how it ended.
type launched struct {
	probe.LaunchEnded
	refused, broken []string
	logs            []log
	held            []Result // processes that have not ended; also with an error
}

// launch has mpirun start a program of nccl-tests on all hosts. Where it would ask a remote shell, it asks the helper,
// which asks here; a daemon is started by its own host's helper.
func (j *job) launch(ctx context.Context, run collective.TestRun, limit time.Duration) (launched, error) {
	id := rand.Text()
	l := &launching{job: j, id: id, limit: limit, began: map[int]bool{}, late: j.lateStop(ctx, id)}
	first := j.hosts[0]
	asking, enough := context.WithCancel(ctx)
	defer enough()
	var all sync.WaitGroup
	all.Go(func() {
		for {
			ask, err := probe.AwaitShell.Call(asking, j.fleet, first.Name, l.id)
			if err != nil || ask.Over {
				return // if the host is lost, Launch says so
			}
			all.Go(func() { l.answer(ctx, ask) })
		}
	})
	e, err := probe.Launch.Call(ctx, j.fleet, first.Name, probe.LaunchSpec{ID: l.id, TestPrograms: j.programs(), RankSettings: j.rankSettings(first), Launch: j.mpiJob(), Run: run, Limit: limit})
	enough()
	l.late.begin() // daemons end when mpirun has
	all.Wait()
	l.late.end()
	l.held = append(held(first.Name, e.Left), l.held...)
	if err != nil {
		return launched{held: l.held}, fmt.Errorf("host %s: %w", first.Name, err)
	}
	logs := append([]log{{host: first.Name, text: string(e.Log)}}, l.logs...)
	return launched{LaunchEnded: e, refused: l.refused, broken: l.broken, logs: logs, held: l.held}, nil
}

// held names processes of a launch that a host has not ended.
func held(host string, pids []int) []Result {
	if len(pids) == 0 {
		return nil
	}
	return []Result{{Check: CheckNCCL, Item: Leftovers, Subject: onHost(host), Host: host, Verdict: Warn,
		Values: []Measurement{{Name: MetricProcesses, Value: float64(len(pids)), Threshold: exactly(0)}},
		Cause:  fmt.Sprintf("mpirun processes still alive %s after SIGKILL: %s; they may hold GPUs", probe.GoneWithin, strings.Trim(fmt.Sprint(pids), "[]")),
		Cure:   "look again with ps; if they stay, dmesg may say what in the kernel holds them, and a reboot frees them"}}
}

// answer does what mpirun asks for, if it is for another host of the job that has no daemon yet.
func (l *launching) answer(ctx context.Context, ask probe.LaunchAsk) {
	told := probe.LaunchTold{ID: l.id, Number: ask.Number, Exit: 1}
	i := slices.IndexFunc(l.hosts, func(h launch.Host) bool { return h.SocketAddr.String() == ask.Host })
	l.mu.Lock()
	again := l.began[i]
	l.began[i] = true
	l.mu.Unlock()
	if i < 1 || again {
		told.Text = fmt.Sprintf("refused: %.80q is no host of this job that waits for a daemon", ask.Host)
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
		l.late.begin() // Hydra's mpirun would wait for a daemon that never comes
	}
	_, _ = probe.AnswerShell.Call(ctx, l.fleet, l.hosts[0].Name, told) // an mpirun that has ended needs no answer
}

// how is how a daemon ended that failed, in words.
func how(e probe.LaunchEnded) string {
	text := fmt.Sprintf("ended with status %d", e.Exit)
	switch {
	case e.TimedOut:
		text = "hung until its time was over"
	case e.Signal != "":
		text = "was ended by " + e.Signal
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

// mpiJob is the job in MPI's terms: its own traffic goes where ranks of NCCL meet.
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

// ipv4 are addresses in what mpirun says: it was told no other names of the hosts.
var ipv4 = regexp.MustCompile(`\d+(?:\.\d+){3}`)

// why is how a launch failed; "": it did not. Values that are wrong are a result, not a failure.
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
	failures := slices.Concat(t.Failures, collective.ParseTable(l.Err).Failures) // the loader complains there
	switch {
	case len(l.refused) > 0:
		return strings.Join(l.refused, "; ")
	case len(t.Ranks) > 0 && t.Ranks[len(t.Ranks)-1] == 0 && len(all) > 1:
		return "its ranks do not know of each other: build nccl-tests with MPI=1, for the MPI whose mpirun this is"
	case l.TimedOut:
		return fmt.Sprintf("it hung until its time of %s was over", collectiveLimit)
	case t.OutOfBounds != nil && (l.Exit == 0 || *t.OutOfBounds > 0) && slices.Equal(t.Ranks, all):
		return ""
	case l.Stopped && len(l.broken) > 0:
		return strings.Join(l.broken, "; ")
	case len(failures) > 0:
		return failures[0]
	case l.Signal != "":
		return "mpirun was ended by " + l.Signal
	case said != "":
		return said
	case t.OutOfBounds != nil:
		return fmt.Sprintf("%d of %d ranks told of themselves", len(t.Ranks), len(all))
	}
	return fmt.Sprintf("mpirun ended with status %d and did not say why", l.Exit)
}
