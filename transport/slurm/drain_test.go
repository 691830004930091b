//go:build linux

package slurm

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// A cluster whose nodes and jobs are lines of files. A file "away" lets as many calls fail as it has bytes.
const (
	fakeScontrol = `#!/bin/sh
cd "$(dirname "$0")"
echo "$*" >> log
if [ -s away ]; then truncate -s -1 away; echo "Unable to contact slurm controller" >&2; exit 1; fi
[ "$1" = update ] || exec cat nodes
node=${2#NodeName=}
[ "$node" != "$(cat stubborn)" ] || exit 1
case $3 in
  State=DRAIN) text="IDLE+DRAIN Partitions=all ${4} [root@2026-11-27T17:00:00] Comment=rack 7" ;;
  State=UNDRAIN) text="IDLE Partitions=all" ;;
esac
{ grep -v "^NodeName=$node " nodes; echo "NodeName=$node State=$text"; } > new
mv new nodes
`
	// Its format begins with a word, which is before each job. Lines that begin with ! are the rest of a job's name.
	fakeSqueue = `#!/bin/sh
for arg; do case $arg in --format=*) word=${arg#--format=}; word=${word%% *} ;; esac; done
sed -e "/^!/!s/^/$word /" -e 's/^!//' "$(dirname "$0")/jobs"
`
)

type fakeCluster struct {
	t   *testing.T
	dir string
	*Cluster
}

// newFake is a run that reached the hosts a, b and c on nodes of the same names; d is one more node.
func newFake(t *testing.T, own string) fakeCluster {
	f := fakeCluster{t, t.TempDir(), &Cluster{reached: map[string]place{}, holds: []*hold{{job: own}}}}
	for name, text := range map[string]string{"scontrol": fakeScontrol, "squeue": fakeSqueue, "jobs": "", "stubborn": "", "away": "",
		"nodes": "NodeName=a State=IDLE Partitions=all\nNodeName=b State=IDLE Partitions=all\nNodeName=c State=IDLE Partitions=all\nNodeName=d State=IDLE Partitions=all\n"} {
		f.write(name, text)
	}
	t.Setenv("PATH", f.dir+":"+os.Getenv("PATH"))
	for _, n := range []string{"a", "b", "c"} {
		f.reached[n] = place{n, transport.Target{Name: n, Slurm: &transport.Slurm{MaxDrained: 3, DrainTimeout: 3 * time.Second}}}
	}
	return f
}

func (f fakeCluster) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o700); err != nil {
		f.t.Fatal(err)
	}
}

// drained returns the drained nodes and the beginnings of their reasons.
func (f fakeCluster) drainedNodes() string {
	f.t.Helper()
	all, err := listNodes(f.t.Context())
	if err != nil {
		f.t.Fatal(err)
	}
	var out []string
	for _, n := range all {
		if n.has("DRAIN") {
			reason, _, _ := strings.Cut(n.reason, ";")
			out = append(out, n.name+": "+reason)
		}
	}
	return strings.Join(out, ", ")
}

func (f fakeCluster) drain(hosts ...string) error {
	reasons := map[string]string{}
	for _, h := range hosts {
		reasons[h] = "mtu of " + h
	}
	return f.Drain(f.t.Context(), reasons, func([]string) {})
}

// TestWhatIsDrainedIsGivenBack: what this run drained, and nothing else, also after an error.
func TestWhatIsDrainedIsGivenBack(t *testing.T) {
	f := newFake(t, "1")
	f.write("jobs", "1 R 0 fabricform\n")
	if _, err := ask(t.Context(), "scontrol", "update", "NodeName=b", "State=DRAIN", "Reason=a fan"); err != nil {
		t.Fatal(err)
	}
	if err := f.drain("a", "b", "c"); err != nil || f.drainedNodes() != "b: a fan, a: mtu of a, c: mtu of c" || strings.Join(f.Drained(), " ") != "a c" {
		t.Fatal(err, f.drainedNodes(), f.Drained())
	}
	if _, err := ask(t.Context(), "scontrol", "update", "NodeName=c", "State=DRAIN", "Reason=a disk"); err != nil {
		t.Fatal(err)
	}
	f.write("away", "xxx") // as after a crash of the controller
	if err := f.Resume(t.Context(), []string{"a", "b", "c"}); err == nil || !strings.Contains(err.Error(), `node c stays drained: its reason is now "a disk"`) ||
		f.drainedNodes() != "b: a fan, c: a disk" || len(f.Drained()) > 0 {
		t.Error(err, f.drainedNodes(), f.Drained())
	}
	f.write("stubborn", "c")
	f.write("nodes", "NodeName=a State=IDLE Partitions=all\nNodeName=b State=IDLE Partitions=all\nNodeName=c State=IDLE Partitions=all\n")
	if err := f.drain("a", "c"); err == nil || f.drainedNodes() != "" {
		t.Error("one could not be drained", err, f.drainedNodes())
	}
	f.write("stubborn", "")
	f.reached["a"].to.Slurm.MaxDrained = 1
	if err := f.drain("a", "b"); err == nil || !strings.Contains(err.Error(), "max_drained is 1") || f.drainedNodes() != "" {
		t.Error(err, f.drainedNodes())
	}
	if err := f.drain("a"); err != nil {
		t.Fatal(err)
	}
	if err := f.Keep(t.Context(), map[string]string{"a": "left half-changed"}); err != nil || f.drainedNodes() != "a: left half-changed" || len(f.Drained()) > 0 {
		t.Error(err, f.drainedNodes())
	}
}

// TestOfTwoRunsTheYoungerEnds: each holds a processor of the other's nodes, and they would wait for each other.
func TestOfTwoRunsTheYoungerEnds(t *testing.T) {
	otherRunPatience = 0
	t.Cleanup(func() { otherRunPatience = 20 * time.Second })
	f := newFake(t, "9")
	f.write("jobs", "9 R 0 fabricform\n10 R 1000 train a model\n8 R 0 fabricform\n")
	if err := f.drain("a"); err == nil || !strings.Contains(err.Error(), "another run of fabricform is at work there, by job 8") || f.drainedNodes() != "" {
		t.Error(err, f.drainedNodes())
	}
	f.holds[0].job = "7"
	var busy *transport.BusyError
	if err := f.drain("a"); !errors.As(err, &busy) || strings.Join(busy.Jobs, " ") != "9 10 8" || f.drainedNodes() != "" {
		t.Error(err, f.drainedNodes())
	}
}

// TestUsersAreNoRunOfOurs: a user's job has the name of ours, and another one a line break in its name. They are waited for as all jobs.
func TestUsersAreNoRunOfOurs(t *testing.T) {
	otherRunPatience = 0
	t.Cleanup(func() { otherRunPatience = 20 * time.Second })
	f := newFake(t, "9")
	f.write("jobs", "9 R 0 fabricform\n7 R 1000 fabricform\n6 R 1000 x\n!5 R 0 fabricform\n!x 4 R 0 fabricform\n")
	var busy *transport.BusyError
	if err := f.drain("a"); !errors.As(err, &busy) || strings.Join(busy.Jobs, " ") != "7 6" || f.drainedNodes() != "" {
		t.Error(err, f.drainedNodes())
	}
}
