package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeSlurm is a cluster of nodes, each in the partition all and in others.
type fakeSlurm struct {
	nodes  map[string]*fakeNode
	ran    []string
	clock  int
	fails  string // the program that fails
	onDown func() // runs after a node was drained
}

type fakeNode struct {
	partitions    []string
	state, reason string
	comment       string
	since         int
}

func (f *fakeSlurm) run(_ context.Context, program string, args ...string) (string, error) {
	f.ran = append(f.ran, program+" "+strings.Join(args, " "))
	if program == f.fails {
		return "", errors.New(program + " fails")
	}
	if program == "scontrol" {
		n := f.nodes[strings.TrimPrefix(args[1], "NodeName=")]
		if args[2] == "State=UNDRAIN" {
			if n.state = strings.TrimSuffix(n.state, "+drain"); n.state == "idle" {
				n.reason = "none"
			}
			return "", nil
		}
		if comment, is := strings.CutPrefix(args[2], "Comment="); is {
			n.comment = comment
			return "", nil
		}
		f.clock++
		n.state, n.reason, n.since = n.state+"+drain", strings.TrimPrefix(args[3], "Reason="), f.clock
		if f.onDown != nil {
			f.onDown()
		}
		return "", nil
	}
	var out strings.Builder
	for name, n := range f.nodes {
		for _, p := range n.partitions {
			switch drained := strings.HasSuffix(n.state, "+drain"); {
			case slices.Contains(args, "--nodes="+name), slices.Contains(args, "--nodes=ALL"):
				fmt.Fprintf(&out, "%-256s%-256s%-256s%-512s%-512s\n", name, p, n.state, n.comment, n.reason)
			case slices.Contains(args, "--states=drain") && drained:
				fmt.Fprintf(&out, "%s|%s|2026-11-27T10:00:%02d\n", p, name, n.since)
			}
		}
	}
	return out.String(), nil
}

func cluster(names ...string) *fakeSlurm {
	f := &fakeSlurm{nodes: map[string]*fakeNode{}}
	for _, n := range names {
		f.nodes[n] = &fakeNode{partitions: []string{"all"}, state: "idle", reason: "none"}
	}
	return f
}

var (
	well = &Verdict{State: Healthy, Compared: 1, Time: time.Unix(0, 0)}
	ill  = &Verdict{State: Unhealthy, Problems: []string{"nic.rail0: mtu is 1500, wanted 9000"}}
	not  = &Verdict{State: Unknown, Problems: []string{"it is damaged"}}
)

// TestTell: Slurm's programs run only if the verdict changes; a node is drained with a reason that says why, and resumed only if that is its
// reason.
func TestTell(t *testing.T) {
	const reason = "fabricform: health: nic.rail0: mtu is 1500, wanted 9000"
	for name, c := range map[string]struct {
		v, last       *Verdict
		state, reason string // before
		comment       string
		after         string
		told          bool
		quiet         bool // no program runs
	}{
		"still healthy":               {v: well, last: well, state: "idle+drain", reason: reason, after: "idle+drain " + reason, told: true, quiet: true},
		"still unhealthy":             {v: ill, last: ill, state: "idle", reason: "none", after: "idle none", told: true, quiet: true},
		"no verdict":                  {v: not, last: well, state: "idle", reason: "none", after: "idle none", quiet: true},
		"no verdict while drained":    {v: not, last: ill, state: "idle+drain", reason: reason, after: "idle+drain " + reason, quiet: true},
		"no verdict at first":         {v: not, state: "idle+drain", reason: reason, after: "idle+drain " + reason, quiet: true},
		"differs":                     {v: ill, last: well, state: "idle", reason: "none", after: "idle+drain " + reason, told: true},
		"differs at first":            {v: ill, state: "mixed", reason: "none", after: "mixed+drain " + reason, told: true},
		"repaired":                    {v: well, last: ill, state: "idle+drain", reason: reason, after: "idle none", told: true},
		"repaired, and a restart":     {v: well, state: "idle+drain", reason: reason, after: "idle none", told: true},
		"drained by another":          {v: ill, last: well, state: "idle+drain", reason: "memory", after: "idle+drain memory", told: true},
		"repaired, drained by others": {v: well, last: ill, state: "idle+drain", reason: "memory", after: "idle+drain memory", told: true},
		"drained by an apply":         {v: well, last: ill, state: "idle+drain", reason: "fabricform: apply", after: "idle+drain fabricform: apply", told: true},
		"down with our reason":        {v: well, last: ill, state: "down", reason: reason, after: "down " + reason, told: true},
		"down by another":             {v: ill, last: well, state: "down", reason: "bad DIMM", after: "down bad DIMM"},
		"failing":                     {v: ill, last: well, state: "mixed+fail", reason: "bad DIMM", after: "mixed+fail bad DIMM"},
		"down after our drain":        {v: well, last: ill, state: "down+drain", reason: reason, after: "down " + reason, told: true},
		"repaired, lines of others":   {v: well, last: ill, state: "idle+drain", reason: reason, comment: "rack 7\nfan replaced\n", after: "idle none", told: true},
		"a reason with lines":         {v: ill, last: well, state: "idle", reason: "a fan\nall             idle+drain", after: "idle+drain " + reason, told: true},
		"a restart was asked for":     {v: ill, state: "idle+reboot_requested", reason: "kernel", after: "idle+reboot_requested kernel"},
	} {
		f := cluster("a")
		f.nodes["a"].state, f.nodes["a"].reason, f.nodes["a"].comment = c.state, c.reason, c.comment
		said, told, err := Slurm{Node: "a", MaxDrained: 1, Run: f.run}.Tell(t.Context(), c.v, c.last)
		if name == "drained by another" && said != "node a is already drained, by somebody else (memory), and is left as it is" {
			t.Errorf("%s: it said %q", name, said)
		}
		if n := f.nodes["a"]; err != nil || told != c.told || n.state+" "+n.reason != c.after || c.quiet != (len(f.ran) == 0) {
			t.Errorf("%s: told %v, %v, now %s %s; ran %q", name, told, err, n.state, n.reason, f.ran)
		}
	}
}

// TestReport: the node's comment has the verdict since its last change; a comment of others stays.
func TestReport(t *testing.T) {
	later := *ill
	later.Time = time.Unix(7200, 0)
	for _, c := range []struct {
		v      *Verdict
		before string
		after  string
	}{
		{well, "", "fabricform: health: 1970-01-01T00:00:00Z as it was applied"},
		{&later, "fabricform: health: 1970-01-01T00:00:00Z as it was applied", "fabricform: health: 1970-01-01T02:00:00Z nic.rail0: mtu is 1500, wanted 9000"},
		{&later, "fabricform: health: 1970-01-01T00:00:00Z nic.rail0: mtu is 1500, wanted 9000", "fabricform: health: 1970-01-01T00:00:00Z nic.rail0: mtu is 1500, wanted 9000"},
		{&later, "rack 7", "rack 7"},
		{&later, "rack 7\nfan replaced", "rack 7\nfan replaced"},
	} {
		f := cluster("a")
		f.nodes["a"].comment = c.before
		if _, _, err := (Slurm{Node: "a", MaxDrained: 1, Run: f.run}).Tell(t.Context(), c.v, nil); err != nil || f.nodes["a"].comment != c.after {
			t.Errorf("%q, %v, want %q", f.nodes["a"].comment, err, c.after)
		}
	}
}

// TestTellLeavesRoom: of the nodes of a partition, no more are drained than allowed, whoever drained them, and not even if all differ at
// once and each sees room for one more.
func TestTellLeavesRoom(t *testing.T) {
	f := cluster("a", "b", "c")
	f.nodes["c"].partitions = []string{"all", "big"}
	f.nodes["b"].state, f.nodes["b"].reason = "idle+drain", "memory"
	said, told, err := Slurm{Node: "c", MaxDrained: 1, Run: f.run}.Tell(t.Context(), ill, well)
	if want := "node c is not drained: partition all has 1 drained already, and -max-drained is 1"; said != want || told || err != nil || f.nodes["c"].state != "idle" {
		t.Errorf("%q, %v, %v, %v", said, told, err, f.nodes["c"])
	}
	if _, told, err = (Slurm{Node: "c", MaxDrained: 0, Run: f.run}).Tell(t.Context(), ill, well); told || err != nil || f.nodes["c"].state != "idle" {
		t.Error(told, err)
	}

	f = cluster("a", "b", "c", "d")
	at := map[string]*fakeNode{"a": f.nodes["a"], "d": f.nodes["d"]}
	first := true
	f.onDown = func() { // two others have looked at the same time, and drain themselves
		if !first {
			return
		}
		first = false
		at["a"].state, at["a"].since = "idle+drain", f.clock // in the same second
		f.clock++
		at["d"].state, at["d"].since = "idle+drain", f.clock
	}
	said, told, err = Slurm{Node: "b", MaxDrained: 2, Run: f.run, Settle: time.Millisecond}.Tell(t.Context(), ill, nil)
	if err != nil || !told || said != "drained node b" || f.nodes["b"].state != "idle+drain" {
		t.Errorf("the second of three: %q, %v, %v", said, told, err)
	}
	f.nodes["b"].state, f.nodes["b"].reason, first = "idle", "none", true
	said, told, err = Slurm{Node: "b", MaxDrained: 1, Run: func(ctx context.Context, program string, args ...string) (string, error) {
		if slices.Contains(args, "--states=drain") && first {
			return "", nil // nobody yet
		}
		return f.run(ctx, program, args...)
	}}.Tell(t.Context(), ill, nil)
	if err != nil || told || !strings.HasSuffix(said, ": resumed") || f.nodes["b"].state != "idle" {
		t.Errorf("one too many: %q, %v, %v, %v", said, told, err, f.nodes["b"])
	}
}

// TestTellAgain: what Slurm could not be told is told after the next check.
func TestTellAgain(t *testing.T) {
	for _, program := range []string{"scontrol", "sinfo"} {
		f := cluster("a")
		f.fails = program
		if _, told, err := (Slurm{Node: "a", MaxDrained: 1, Run: f.run}).Tell(t.Context(), ill, well); told && err == nil || err == nil {
			t.Errorf("%s fails: %v, %v", program, told, err)
		}
	}
	f := cluster("a")
	if _, told, err := (Slurm{Node: "b", MaxDrained: 1, Run: f.run}).Tell(t.Context(), ill, well); told || err == nil || !strings.Contains(err.Error(), "knows no node b") {
		t.Error(told, err)
	}
	f = cluster("a", "b")
	if _, told, err := (Slurm{Node: "ALL", MaxDrained: 1, Run: f.run}).Tell(t.Context(), ill, well); told || err == nil || !strings.Contains(err.Error(), "not the name of one node") || len(f.ran) != 1 {
		t.Error(told, err, f.ran)
	}
	odd := Slurm{Node: "a", Run: func(context.Context, string, ...string) (string, error) { return "something\n", nil }}
	if _, told, err := odd.Tell(t.Context(), ill, well); told || err == nil {
		t.Error(told, err)
	}
}

// TestReasonIsOneLine: what a host says has no meaning for Slurm's tools.
func TestReasonIsOneLine(t *testing.T) {
	v := Verdict{State: Unhealthy, Problems: []string{"nic.x: \x1b[31m \"a\"\nReason=b $(c) é|", strings.Repeat("long ", 100)}}
	got := v.reason()
	if want := "fabricform: health: nic.x: ?[31m ?a??Reason?b ?(c) ??; long long "; !strings.HasPrefix(got, want) || len(got) > maxReason {
		t.Errorf("%q", got)
	}
}

// TestVerdictChecks: a verdict that no check gives is none.
func TestVerdictChecks(t *testing.T) {
	for _, v := range []Verdict{{}, {State: "x"}, {State: Healthy}, {State: Unhealthy}, {State: Unknown}, {State: Healthy, Compared: 1, Problems: []string{"x"}}} {
		if v.Check() == nil {
			t.Errorf("%+v", v)
		}
	}
	for _, v := range []*Verdict{well, ill, not} {
		if err := v.Check(); err != nil {
			t.Error(err)
		}
	}
	before := &Verdict{Counters: map[string]uint64{"eth1 link_downed": 2, "eth1 rx_errors": 7}, Time: time.Unix(0, 0).UTC()}
	now := &Verdict{Counters: map[string]uint64{"eth1 link_downed": 5, "eth1 rx_errors": 7, "eth1 new": 9}}
	if got := now.Risen(before); len(got) != 1 || got[0] != "eth1 link_downed has risen by 3 to 5 since 1970-01-01T00:00:00Z" || now.Risen(nil) != nil {
		t.Error(got)
	}
}
