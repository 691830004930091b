package validators

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/nccl/explain"
	"github.com/fabricform/fabricform/probe"
	"github.com/fabricform/fabricform/probe/collective"
)

// ended is the outcome of one rank, with its report.
type ended struct {
	host string
	probe.CollectiveRank
	collective.RankOutput
}

// why returns why the rank failed, or "" if it did not.
func (e ended) why() string {
	when := "before all ranks had connected"
	if e.Connected {
		when = "after all ranks had connected"
	}
	switch {
	case e.Done && e.Exit == 0:
		return ""
	case e.Failure != nil && e.Failure.Stage == "meet":
		return "cannot connect to the port where ranks meet: " + e.Failure.Text
	case e.Failure != nil:
		return fmt.Sprintf("%s: %s", e.Failure.Kind, e.Failure.Text)
	case e.TimedOut:
		return fmt.Sprintf("timed out after %s, %s", collectiveLimit, when)
	case e.Stopped:
		return "stopped because another rank had ended"
	case e.Signal != "":
		return fmt.Sprintf("ended by a signal (%s) %s", e.Signal, when)
	}
	text := fmt.Sprintf("exited with status %d %s and gave no reason", e.Exit, when)
	if e.Strange > 0 {
		text += fmt.Sprintf("; unexpected lines in its output: %d", e.Strange)
	}
	return text
}

// account is the report of a job's ranks, from torch or nccl-tests.
type account struct {
	software []string // the programs that ran the ranks, each with its release
	failed   string   // why the ranks did not finish; "" if they did
	values   []Result
	sweep    []collective.Sweep
	beyond   *collective.Sweep // the first size that was left out, because it would take too long
	logs     []log
	held     []Result // processes that are still alive; also set with an error
}

// log is NCCL's log from ranks on a host.
type log struct {
	host, who string // who is "rank 3", or "the ranks"
	text      string
	well      bool // the ranks finished
}

// measure runs all ranks and judges them.
func (j *job) measure(ctx context.Context, run func(context.Context) (account, error)) []Result {
	before, err := j.traffic(ctx)
	if err != nil {
		return j.unmeasured(err.Error(), "")
	}
	told, err := run(ctx)
	if err != nil {
		return append(j.unmeasured(err.Error(), ""), told.held...)
	}
	logs := append(j.logged(told.logs), told.held...)
	if told.failed != "" {
		return append(j.unmeasured(told.failed, ""), logs...)
	}
	out := append([]Result{j.describeRanks(told.software)}, told.values...)
	out = append(out, j.bandwidth(ctx, told, before))
	return append(out, logs...)
}

// torch runs ranks of torch.
func (j *job) torch(ctx context.Context) (account, error) {
	ranks, err := j.ranks(ctx)
	if err != nil {
		return account{}, err
	}
	look := j.has[0].Look
	a := account{software: []string{"torch " + look.Torch, "NCCL " + look.NCCL}, failed: j.firstFailure(ranks), values: j.values(ranks),
		sweep: ranks[0].Sweep, beyond: ranks[0].Beyond}
	for _, e := range ranks {
		a.logs = append(a.logs, log{e.host, fmt.Sprintf("rank %d", e.Rank), string(e.Log), e.why() == ""})
	}
	return a, nil
}

// lateStop stops a job on all hosts some time after one part has ended. Until then, the other parts may end
// on their own and report why.
type lateStop struct {
	once  sync.Once
	all   sync.WaitGroup
	after func()
	over  context.CancelFunc
}

func (j *job) lateStop(ctx context.Context, id string) *lateStop {
	ctx, over := context.WithCancel(ctx)
	return &lateStop{over: over, after: func() {
		select {
		case <-time.After(untilStopped):
			// a host that cannot be reached stops its part when the connection breaks
			j.each(func(_ int, host string) { _, _ = probe.StopCollective.Call(ctx, j.fleet, host, id) })
		case <-ctx.Done():
		}
	}}
}

// begin starts the timer. Further calls do nothing.
func (l *lateStop) begin() { l.once.Do(func() { l.all.Go(l.after) }) }

// end cancels the timer. Call it when all parts have ended.
func (l *lateStop) end() {
	l.over()
	l.all.Wait()
}

// ranks runs the job on all hosts at once. If one host fails, lateStop stops the others.
func (j *job) ranks(ctx context.Context) (out []ended, err error) {
	id := rand.Text()
	var mu sync.Mutex
	late := j.lateStop(ctx, id)
	first := make([]int, len(j.hosts))
	for i := 1; i < len(first); i++ {
		first[i] = first[i-1] + j.gpus[i-1]
	}
	j.each(func(i int, host string) {
		got, e := probe.RunCollective.Call(ctx, j.fleet, host, j.spec(id, i, first[i]))
		mu.Lock()
		defer mu.Unlock()
		bad := e != nil
		if e != nil && err == nil {
			err = fmt.Errorf("host %s: %w", host, e)
		}
		for _, r := range got {
			told := ended{host, r, collective.Parse(r.Out)}
			bad = bad || told.why() != ""
			out = append(out, told)
		}
		if bad {
			late.begin()
		}
	})
	late.end()
	slices.SortFunc(out, func(a, b ended) int { return a.Rank - b.Rank })
	return out, err
}

// firstFailure describes the first rank that failed for a reason of its own, or returns "" if no rank failed.
func (j *job) firstFailure(ranks []ended) string {
	var bad []ended
	for _, e := range ranks {
		if e.why() != "" {
			bad = append(bad, e)
		}
	}
	if bad == nil {
		return ""
	}
	own := func(e ended) bool { return !e.Stopped && (e.Failure == nil || e.Failure.Stage != "meet") }
	worst := bad[0]
	if i := slices.IndexFunc(bad, own); i >= 0 {
		worst = bad[i]
	}
	text := fmt.Sprintf("rank %d on host %s: %s", worst.Rank, worst.host, worst.why())
	if len(bad) > 1 {
		text += fmt.Sprintf(" (%d of %d ranks failed)", len(bad), len(ranks))
	}
	return text
}

// describeRanks returns the result that names the number of ranks, their software and their transport.
func (j *job) describeRanks(software []string) Result {
	res := j.result(Ranks)
	res.Values = []Measurement{{Name: MetricRanks, Value: float64(j.world())}}
	res.Setup = &Setup{Ranks: j.world(), Software: software, Transport: "sockets", Devices: []string{j.hosts[0].Socket}}
	if usesRDMA(j.hosts[0]) {
		hca, _ := j.hosts[0].Env.Get("NCCL_IB_HCA")
		res.Setup.Transport, res.Setup.Devices = "RDMA", strings.Split(strings.TrimPrefix(hca, "="), ",")
	}
	return res
}

// logged returns the findings in all logs, each once per host.
func (j *job) logged(logs []log) (out []Result) {
	warning := func(host string) Result {
		return Result{Check: CheckNCCL, Item: RankLog, Subject: onHost(host), Host: host, Verdict: Warn}
	}
	type said struct{ host, summary, wrong string }
	silent, known := map[string]bool{}, map[said]bool{}
	for _, e := range logs {
		// These words are NCCL's own (ncclDebugLog in its src/debug.cc).
		informs, warns := strings.Contains(e.text, "NCCL INFO "), strings.Contains(e.text, "NCCL WARN ")
		if e.well && !informs && !silent[e.host] {
			silent[e.host] = true
			res := warning(e.host)
			res.Unmeasured, res.Cause = true, e.who+" finished, but the log has no line from NCCL, "+
				"so it is unknown which NICs and interfaces NCCL chose; NCCL may have been built without logging"
			out = append(out, res)
		}
		if !informs && !warns {
			continue // the log has only torch's messages
		}
		for _, f := range explain.Explain("rank.log", e.text, j.fabric, j.options.Invocation).Findings {
			key := said{e.host, f.Summary, f.Wrong}
			if f.Severity == env.Note || known[key] {
				continue
			}
			known[key] = true
			res := warning(e.host)
			res.Object, res.Found, res.Cause, res.Cure = f.Name, f.Summary, f.Trouble(), f.Instead
			if f.Severity == env.Error {
				res.Verdict = Fail
			}
			out = append(out, res)
		}
	}
	return out
}
