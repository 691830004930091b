package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Slurm tells a cluster's Slurm what a check says about one of its nodes.
type Slurm struct {
	Node       string // NodeName in slurm.conf
	MaxDrained int    // how many nodes of a partition may be drained at once, whoever drained them
	// Run runs one of Slurm's programs without a shell, and returns what it prints.
	Run func(ctx context.Context, program string, args ...string) (string, error)
	// Settle is how long to wait after a drain for others that drain at the same time; 0: not at all.
	Settle time.Duration
}

// Tell drains the node if the verdict has become unhealthy, and resumes the node if the verdict has become healthy and this package had
// drained it. Slurm's programs run only if the verdict differs from the last one that was told; last is nil if none was. told says
// whether Slurm knows the verdict now; if not, the next check tries again. said is what was done, or why nothing was.
func (s Slurm) Tell(ctx context.Context, v, last *Verdict) (said string, told bool, err error) {
	if v.State == Unknown {
		return "", false, nil
	}
	if last != nil && last.State == v.State {
		return "", true, nil
	}
	node, err := s.node(ctx)
	if err != nil {
		return "", false, err
	}
	said, told, err = s.act(ctx, node, v)
	if report := v.report(); (node.comment == "" || strings.HasPrefix(node.comment, reasonPrefix)) && !sameReport(node.comment, report) {
		err = errors.Join(err, s.update(ctx, "Comment="+report))
	}
	return said, told, err
}

// act drains or resumes the node, if the verdict asks for it.
func (s Slurm) act(ctx context.Context, node slurmNode, v *Verdict) (said string, told bool, err error) {
	ours := strings.HasPrefix(node.reason, reasonPrefix)
	switch {
	case v.State == Healthy && node.drained && ours:
		return "resumed node " + s.Node, true, s.update(ctx, "State=UNDRAIN") // RESUME would end a DOWN, too
	case v.State == Healthy:
		return "", true, nil
	case node.down:
		return fmt.Sprintf("node %s is not drained: Slurm starts nothing there (%s: %s)", s.Node, node.state, node.reason), false, nil
	case node.drained && !ours:
		return fmt.Sprintf("node %s is already drained, by somebody else (%s), and is left as it is", s.Node, node.reason), true, nil
	case node.drained:
		return "", true, nil
	}
	return s.drain(ctx, node, v)
}

// drain drains the node, unless too many nodes of one of its partitions are drained. Nodes that fail at the same time, such as after a bad
// release, all see room for one more: so each looks again, and those that came last resume themselves.
func (s Slurm) drain(ctx context.Context, n slurmNode, v *Verdict) (said string, told bool, err error) {
	drained, err := s.drained(ctx)
	if err != nil {
		return "", false, err
	}
	for _, p := range n.partitions {
		if others := slices.DeleteFunc(slices.Clone(drained[p]), func(d slurmNode) bool { return d.name == s.Node }); len(others) >= s.MaxDrained {
			return s.full(p, len(others)), false, nil
		}
	}
	if err := s.update(ctx, "State=DRAIN", "Reason="+v.reason()); err != nil {
		return "", false, err
	}
	if s.Settle > 0 {
		select {
		case <-time.After(s.Settle):
		case <-ctx.Done():
		}
	}
	if drained, err = s.drained(ctx); err != nil {
		return "", true, fmt.Errorf("node %s was drained, but not counted again: %w", s.Node, err)
	}
	for _, p := range n.partitions {
		slices.SortFunc(drained[p], func(a, b slurmNode) int {
			return cmp.Or(strings.Compare(a.since, b.since), strings.Compare(a.name, b.name))
		})
		if rank := slices.IndexFunc(drained[p], func(d slurmNode) bool { return d.name == s.Node }); rank >= s.MaxDrained {
			return s.full(p, rank) + ": resumed", false, s.update(ctx, "State=UNDRAIN")
		}
	}
	return "drained node " + s.Node, true, nil
}

func (s Slurm) full(partition string, n int) string {
	return fmt.Sprintf("node %s is not drained: partition %s has %d drained already, and -max-drained is %d", s.Node, partition, n, s.MaxDrained)
}

// slurmNode is a node as sinfo prints it.
type slurmNode struct {
	name       string
	partitions []string
	state      string // with its flags, as in "down+drain"
	drained    bool
	down       bool   // or about to be, whoever wants that: what is written there is not replaced
	since      string // of the reason, in Slurm's format, which sorts by time
	reason     string
	comment    string
}

// columns are what sinfo prints of a node, each as wide as this: the texts at the end have any characters, and line breaks.
var columns = []struct {
	name  string
	width int
}{{"NodeList", 256}, {"PartitionName", 256}, {"StateComplete", 256}, {"Comment", 512}, {"Reason", 512}}

// node asks Slurm for the node.
func (s Slurm) node(ctx context.Context) (n slurmNode, err error) {
	var format []string
	width := 1 // of the line break
	for _, c := range columns {
		format = append(format, fmt.Sprintf("%s:%d", c.name, c.width))
		width += c.width
	}
	out, err := s.Run(ctx, "sinfo", "--all", "--noheader", "--Node", "--nodes="+s.Node, "--Format="+strings.Join(format, ","))
	if err != nil {
		return n, err
	}
	for ; len(out) > 0; out = out[width:] {
		if len(out) < width || out[width-1] != '\n' {
			return n, fmt.Errorf("sinfo printed %.80q, which is not understood", out)
		}
		var fields []string
		at := 0
		for _, c := range columns {
			fields = append(fields, strings.TrimSpace(out[at:at+c.width]))
			at += c.width
		}
		if fields[0] != s.Node { // as with gpu[1-8] or ALL
			return n, fmt.Errorf("%q is not the name of one node: name this node with -node", s.Node)
		}
		n.partitions = append(n.partitions, fields[1])
		n.state, n.comment, n.reason = fields[2], strings.TrimSuffix(fields[3], "(null)"), fields[4]
		for _, flag := range strings.Split(strings.ToLower(n.state), "+") {
			n.drained = n.drained || flag == "drain"
			n.down = n.down || slices.ContainsFunc([]string{"down", "fail", "reboot"}, func(p string) bool { return strings.HasPrefix(flag, p) })
		}
	}
	if len(n.partitions) == 0 {
		return n, fmt.Errorf("Slurm knows no node %s in any partition: name this node with -node", s.Node)
	}
	return n, nil
}

// drained returns the drained and draining nodes of each partition.
func (s Slurm) drained(ctx context.Context) (map[string][]slurmNode, error) {
	out, err := s.Run(ctx, "sinfo", "--all", "--noheader", "--Node", "--states=drain", "--format=%R|%N|%H")
	if err != nil {
		return nil, err
	}
	by := map[string][]slurmNode{}
	for line := range strings.Lines(out) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), "|", 3)
		if len(fields) < 3 {
			return nil, fmt.Errorf("sinfo printed %.80q, which is not understood", line)
		}
		by[fields[0]] = append(by[fields[0]], slurmNode{name: fields[1], since: fields[2]})
	}
	return by, nil
}

func (s Slurm) update(ctx context.Context, what ...string) error {
	_, err := s.Run(ctx, "scontrol", append([]string{"update", "NodeName=" + s.Node}, what...)...)
	return err
}
