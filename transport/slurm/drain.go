//go:build linux

package slurm

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Drain drains the nodes of hosts to which Start has connected, each with its reason, and waits until no job is there but ours. Nodes that
// somebody else has drained stay theirs. After an error, all that it drained are resumed.
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
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Resume(context.WithoutCancel(ctx), sorted(reasons)))
		}
	}()
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
		c.drained[to.Name] = d // first: a drain whose answer is lost is resumed, too
		c.mu.Unlock()
		if _, err := ask(ctx, "scontrol", "update", "NodeName="+n.name, "State=DRAIN", "Reason="+d.reason); err != nil {
			return fmt.Errorf("drain node %s: %w", n.name, err)
		}
	}
	return c.awaitIdle(ctx, names, patience, waiting)
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

// awaitIdle waits until the nodes have no job but our own.
func (c *Cluster) awaitIdle(ctx context.Context, names []string, patience time.Duration, waiting func(jobs []string)) error {
	var before []string
	for end := time.Now().Add(patience); ; {
		jobs, err := jobsOn(ctx, names...)
		if err != nil {
			return err
		}
		jobs = slices.DeleteFunc(jobs, c.ours)
		if len(jobs) == 0 {
			return nil
		}
		if !slices.Equal(jobs, before) {
			before = jobs
			waiting(jobs)
		}
		if !time.Now().Before(end) {
			return &transport.BusyError{Jobs: jobs, Waited: patience}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// ours reports whether a job is one of this run's allocations.
func (c *Cluster) ours(job string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.holds, func(h *hold) bool { return h.job == job })
}

// Resume resumes the nodes of hosts that Drain drained, unless they have another reason now: then they are somebody else's.
func (c *Cluster) Resume(ctx context.Context, hosts []string) error {
	return c.end(ctx, hosts, func(d drain) error {
		if _, err := ask(ctx, "scontrol", "update", "NodeName="+d.node, "State=UNDRAIN"); err != nil {
			return fmt.Errorf("resume node %s: %w; run scontrol update nodename=%s state=undrain", d.node, err, d.node)
		}
		return nil
	})
}

// Keep leaves the nodes of hosts that Drain drained as they are, with another reason.
func (c *Cluster) Keep(ctx context.Context, reasons map[string]string) error {
	return c.end(ctx, sorted(reasons), func(d drain) error {
		_, err := ask(ctx, "scontrol", "update", "NodeName="+d.node, "State=DRAIN", "Reason="+reasonText(reasons[d.host], "when it is repaired", d.node))
		if err != nil {
			return fmt.Errorf("change the reason of node %s: %w", d.node, err)
		}
		return nil
	})
}

// end does something to each node that Drain drained for these hosts, unless it has another reason now, and forgets it.
func (c *Cluster) end(ctx context.Context, hosts []string, do func(drain) error) error {
	var mine []drain
	c.mu.Lock()
	for _, host := range hosts {
		if d, is := c.drained[host]; is {
			mine = append(mine, d)
			delete(c.drained, host)
		}
	}
	c.mu.Unlock()
	if len(mine) == 0 {
		return nil
	}
	all, err := listNodes(ctx)
	if err != nil {
		return fmt.Errorf("end the drain of node %s: %w", mine[0].node, err)
	}
	var errs []error
	for _, d := range mine {
		switch n, _ := all.find(ctx, d.node); {
		case !n.has("DRAIN"):
		case n.reason != d.reason:
			errs = append(errs, fmt.Errorf("node %s stays drained: its reason is now %q", d.node, neutral(n.reason)))
		default:
			errs = append(errs, do(d))
		}
	}
	return errors.Join(errs...)
}
