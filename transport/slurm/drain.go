//go:build linux

package slurm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// drain is a node that this run has drained.
type drain struct {
	host, node, reason string
}

// mostReason limits the text of a reason, in bytes: squeue and sinfo show it on one line.
const mostReason = 300

// lookEvery is how often jobs are looked for.
const lookEvery = time.Second

// Drain drains the nodes of hosts to which Start has connected once, each with its reason, and waits until no job is there but ours. Slurm starts
// nothing on a drained node, so each gets an allocation of ours first, which waits for a processor if jobs have all. Nodes that somebody else
// has drained meanwhile stay theirs. After an error, all that it drained are resumed.
func (c *Cluster) Drain(ctx context.Context, reasons map[string]string, waiting func(jobs []string)) (err error) {
	var names []string
	patience := time.Duration(0)
	targets := map[string]transport.Target{} // by node
	c.mu.Lock()
	for _, host := range sorted(reasons) {
		at, known := c.reached[host]
		if !known {
			c.mu.Unlock()
			return fmt.Errorf("host %s is not connected", host)
		}
		names = append(names, at.node)
		targets[at.node] = at.to
		patience = max(patience, at.to.Slurm.DrainTimeout)
	}
	c.mu.Unlock()
	all, err := listNodes(ctx)
	if err != nil {
		return err
	}
	if err := roomFor(all, targets); err != nil {
		return err
	}
	end := time.Now().Add(patience)
	if err := c.take(ctx, targets, patience, waiting); err != nil {
		return err
	}
	if all, err = listNodes(ctx); err != nil { // it may have waited for hours
		return err
	}
	if err := roomFor(all, targets); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Resume(context.WithoutCancel(ctx), sorted(reasons)))
		}
	}()
	for {
		if err := c.drainThose(ctx, all, targets, reasons); err != nil {
			return err
		}
		if err := c.awaitIdle(ctx, names, end, patience, waiting); err != nil {
			return err
		}
		if all, err = persist(ctx, func() (nodes, error) { return listNodes(ctx) }); err != nil {
			return err
		}
		// A slurmctld that was killed has forgotten what it did in its last seconds.
		if !slices.ContainsFunc(all, func(n node) bool { return slices.Contains(names, n.name) && !n.has("DRAIN") }) {
			return nil
		}
	}
}

// take allocates a processor on each of the nodes on which this run has none, and waits for it if jobs have all.
func (c *Cluster) take(ctx context.Context, targets map[string]transport.Target, patience time.Duration, waiting func(jobs []string)) error {
	names := slices.DeleteFunc(sorted(targets), func(n string) bool { return c.holding(n) != nil })
	if len(names) == 0 {
		return nil
	}
	all, err := listResponding(ctx, names)
	if err != nil {
		return err
	}
	fresh := map[string]*request{}
	for _, n := range all {
		if slices.Contains(names, n.name) {
			fresh[n.name] = &request{ctx: ctx, to: targets[n.name], node: n.own(), done: make(chan answer, 1), waits: patience}
		}
	}
	taken := make(chan struct{})
	var telling sync.WaitGroup
	telling.Go(func() { c.tellWaiting(ctx, names, taken, waiting) })
	refused := c.allocate(fresh)
	close(taken)
	telling.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var errs []error
	for _, name := range sorted(refused) {
		err := (<-fresh[name].done).err
		if busy := (*transport.BusyError)(nil); errors.As(err, &busy) {
			return &transport.BusyError{Jobs: busy.Jobs, Waited: patience}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// tellWaiting tells the jobs on those of the nodes on which this run has no processor yet, until all are taken.
func (c *Cluster) tellWaiting(ctx context.Context, names []string, taken <-chan struct{}, waiting func(jobs []string)) {
	var before []string
	for {
		select {
		case <-taken:
			return
		case <-time.After(2 * lookEvery): // others than those that have all processors need no wait
		}
		missing := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return c.holding(n) != nil })
		if len(missing) == 0 {
			continue
		}
		jobs, err := jobsOn(ctx, missing...)
		now := ids(slices.DeleteFunc(jobs, func(j job) bool { return c.ours(j.id) }))
		if err == nil && len(now) > 0 && !slices.Equal(now, before) {
			before = now
			waiting(now)
		}
	}
}

// drainThose drains those of the nodes that are asked for and not drained.
func (c *Cluster) drainThose(ctx context.Context, all nodes, targets map[string]transport.Target, reasons map[string]string) error {
	for _, n := range all {
		to, ours := targets[n.name]
		if !ours || n.has("DRAIN") {
			continue
		}
		d := drain{to.Name, n.name, reasonText(reasons[to.Name], "if that run has ended", n.name)}
		c.mu.Lock()
		if c.drained == nil {
			c.drained = map[string]drain{}
		}
		c.listed = listing{}
		c.drained[to.Name] = d // first: a drain whose answer is lost is resumed, too
		c.mu.Unlock()
		if _, err := ask(ctx, "scontrol", "update", "NodeName="+n.name, "State=DRAIN", "Reason="+d.reason); err != nil {
			return fmt.Errorf("drain node %s: %w%s", n.name, err, whoDrains())
		}
	}
	return nil
}

// controllerPatience is how long slurmctld may not answer while nodes are drained: it may be restarted.
const controllerPatience = time.Minute

// persist repeats a question that fails.
func persist[T any](ctx context.Context, question func() (T, error)) (T, error) {
	for end := time.Now().Add(controllerPatience); ; {
		answer, err := question()
		if err == nil || time.Now().After(end) {
			return answer, err
		}
		select {
		case <-ctx.Done():
			return answer, err
		case <-time.After(lookEvery):
		}
	}
}

// whoDrains says who can drain nodes, to an operator who may not.
func whoDrains() string {
	if os.Getuid() == root {
		return ""
	}
	return fmt.Sprintf("; if user %d may not drain nodes, run fabricform as root, as SlurmUser, or as an operator of Slurm (sacctmgr)", os.Getuid())
}

// roomFor returns an error if draining these nodes would leave more drained in one of their partitions than they allow.
func roomFor(all nodes, targets map[string]transport.Target) error {
	drained := map[string][]string{} // by partition
	for _, n := range all {
		if _, asked := targets[n.name]; asked || n.has("DRAIN") || n.has("DOWN") {
			for _, p := range n.partitions {
				drained[p] = append(drained[p], n.name)
			}
		}
	}
	for _, n := range all {
		to, asked := targets[n.name]
		if !asked || to.Slurm.MaxDrained == 0 {
			continue
		}
		for _, p := range n.partitions {
			if len(drained[p]) > to.Slurm.MaxDrained {
				return fmt.Errorf("partition %s would have %d nodes that are drained or down (%s), and max_drained is %d: resume some, or raise it",
					p, len(drained[p]), strings.Join(drained[p], ", "), to.Slurm.MaxDrained)
			}
		}
	}
	return nil
}

// reasonText returns a reason that says when and how to end it, in plain letters on one line: administrators read it in sinfo.
func reasonText(reason, when, node string) string {
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("\"'`\\", r) {
			return '?'
		}
		return r
	}, reason)
	if len(text) > mostReason {
		text = text[:mostReason] + "..."
	}
	return text + "; " + when + ": scontrol update nodename=" + node + " state=undrain"
}

// holdName is the name of the jobs by which runs of fabricform hold nodes.
const holdName = "fabricform"

// otherRunPatience is how long another run may hold the nodes before the younger one of both ends: a plan takes seconds.
var otherRunPatience = 20 * time.Second

// awaitIdle waits until the nodes have no job but our own. Of two runs that wait for each other, the younger one ends. patience is how long
// the whole drain waits.
func (c *Cluster) awaitIdle(ctx context.Context, names []string, end time.Time, patience time.Duration, waiting func(jobs []string)) error {
	var before []string
	began := time.Now()
	for answered := began; ; {
		jobs, err := jobsOn(ctx, names...)
		switch {
		case err == nil:
			answered = time.Now()
		case ctx.Err() != nil || time.Since(answered) > endPatience:
			return err
		}
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return c.ours(j.id) })
		if err == nil && len(jobs) == 0 {
			return nil
		}
		if now := ids(jobs); err == nil && !slices.Equal(now, before) {
			before = now
			waiting(now)
		}
		if i := slices.IndexFunc(jobs, func(j job) bool { return c.olderRun(ctx, j) }); i >= 0 && time.Since(began) > otherRunPatience {
			return fmt.Errorf("another run of fabricform is at work there, by job %s: wait for its end, or end it (scancel %s)", jobs[i].id, jobs[i].id)
		}
		if time.Now().After(end) {
			return &transport.BusyError{Jobs: ids(jobs), Waited: patience}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// runOf begins the comment of a run's jobs, but of its first one, whose ID follows.
const runOf = "run of job "

// first returns the ID of the first job of this run; "" if it has none yet.
func (c *Cluster) first() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.holds) == 0 {
		return ""
	}
	return c.holds[0].job
}

// olderRun reports whether the job is that of another run of fabricform, which had its first job before this one.
func (c *Cluster) olderRun(ctx context.Context, j job) bool {
	if j.name != holdName || j.completing() {
		return false
	}
	comment, _ := ask(ctx, "squeue", "--noheader", "--jobs="+j.id, "--format=%k") // an error: it may have ended
	first, later := strings.CutPrefix(strings.TrimSpace(comment), runOf)
	if !later {
		first = j.id
	}
	theirs, _ := strconv.Atoi(first)
	own, _ := strconv.Atoi(c.first())
	return theirs < own
}

// ours reports whether a job is one of this run's allocations.
func (c *Cluster) ours(job string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.holds, func(h *hold) bool { return h.job == job })
}

// Resume resumes the nodes of hosts that Drain drained, unless they have another reason now: then they are somebody else's.
func (c *Cluster) Resume(ctx context.Context, hosts []string) error {
	return c.end(ctx, hosts, func(d drain) []string { return []string{"State=UNDRAIN"} })
}

// Keep leaves the nodes of hosts that Drain drained as they are, with another reason.
func (c *Cluster) Keep(ctx context.Context, reasons map[string]string) error {
	return c.end(ctx, sorted(reasons), func(d drain) []string {
		return []string{"State=DRAIN", "Reason=" + reasonText(reasons[d.host], "when it is repaired", d.node)}
	})
}

// Drained returns the nodes that Drain drained and that are drained still, as far as this run knows.
func (c *Cluster) Drained() (nodes []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range c.drained {
		nodes = append(nodes, d.node)
	}
	slices.Sort(nodes)
	return nodes
}

// endPatience is how long Slurm may not answer: another controller takes over within a minute or two.
const endPatience = 2 * time.Minute

// end updates each node that Drain drained for these hosts, unless it has another reason now, and forgets it.
func (c *Cluster) end(ctx context.Context, hosts []string, update func(drain) []string) error {
	var errs []error
	for began := time.Now(); ; {
		left, err := c.endNow(ctx, hosts, update, &errs)
		if len(left) == 0 {
			return errors.Join(errs...)
		}
		if ctx.Err() != nil || time.Since(began) > endPatience {
			return errors.Join(append(errs, fmt.Errorf("%w; %s stays drained: scontrol update nodename=%s state=undrain", err, strings.Join(left, ", "), strings.Join(left, ",")))...)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// endNow is one attempt of end. It returns the nodes that are left because Slurm did not answer, and why.
func (c *Cluster) endNow(ctx context.Context, hosts []string, update func(drain) []string, errs *[]error) (left []string, why error) {
	var mine []drain
	c.mu.Lock()
	c.listed = listing{}
	for _, host := range hosts {
		if d, is := c.drained[host]; is {
			mine = append(mine, d)
		}
	}
	c.mu.Unlock()
	if len(mine) == 0 {
		return nil, nil
	}
	all, err := listNodes(ctx)
	for _, d := range mine {
		if err == nil {
			switch n, _ := all.find(ctx, d.node); {
			case !n.has("DRAIN"):
			case n.reason != d.reason:
				*errs = append(*errs, fmt.Errorf("node %s stays drained: its reason is now %q", d.node, neutral(n.reason)))
			default:
				_, err = ask(ctx, append([]string{"scontrol", "update", "NodeName=" + d.node}, update(d)...)...)
			}
		}
		if err != nil {
			left, why = append(left, d.node), err
			continue
		}
		c.mu.Lock()
		delete(c.drained, d.host)
		c.mu.Unlock()
	}
	return left, why
}
