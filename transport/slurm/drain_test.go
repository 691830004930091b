//go:build linux

package slurm

import (
	"errors"
	"fmt"
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

// fakeHold is an srun of a hold that all nodes report.
const fakeHold = `#!/bin/sh
echo "$*" >> "$(dirname "$0")/asked"
for a; do
  case $a in --nodelist=*) nodes=${a#--nodelist=} ;; esac
done
word=$(expr "$a" : '.*echo "\([A-Z2-7]*\) ')
echo "$nodes" | tr , '\n' | sed "s/.*/$word & $$ yes x86_64/"
exec cat >/dev/null
`

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
	f.holds[0].process, f.held = &process{exited: make(chan struct{})}, map[string]*on{}
	for _, n := range []string{"a", "b", "c"} {
		f.held[n] = &on{hold: f.holds[0]}
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

func (f fakeCluster) read(name string) string {
	f.t.Helper()
	text, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		f.t.Fatal(err)
	}
	return string(text)
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

// TestManyNodesFitIntoArguments: the names of 10,000 nodes are longer than Linux takes in one argument.
func TestManyNodesFitIntoArguments(t *testing.T) {
	f := newFake(t, "1")
	f.write("srun", fakeHold)
	fresh := map[string]*request{}
	for i := range 10_000 {
		name := fmt.Sprintf("gpu-node-%05d", i)
		fresh[name] = &request{ctx: t.Context(), to: transport.Target{Name: name, Slurm: &transport.Slurm{}}, node: node{name: name, addr: "192.0.2.1"}, done: make(chan answer, 1)}
	}
	f.holds, f.Helper = nil, noHelper{}
	t.Cleanup(f.Close)
	if refused := f.allocate(fresh); len(refused) > 0 {
		t.Fatalf("%d nodes are refused: %v", len(refused), (<-fresh[sorted(refused)[0]].done).err)
	}
	for _, h := range f.holds {
		if len(h.nodes) > mostNodes || len(strings.Join(h.nodes, ",")) > mostNames {
			t.Errorf("a job has %d nodes", len(h.nodes))
		}
	}
	f.write("jobs", "12 R 0 train\n")
	if jobs, err := jobsOn(t.Context(), sorted(fresh)...); err != nil || len(jobs) != 1 {
		t.Errorf("%v, %v", jobs, err)
	}
}

// noHelper is the helper of a build that is never sent.
type noHelper struct{}

func (noHelper) Version() string                       { return "0123456789abcdef" }
func (noHelper) Build(string) (transport.Build, error) { return transport.Build{}, errors.New("none") }

// TestAHoldIsBounded: its job has a time limit, which is extended while this run lives, and whoever ends it, that is said. What is given back is not.
func TestAHoldIsBounded(t *testing.T) {
	f := newFake(t, "1")
	f.write("srun", fakeHold)
	said := make(chan string, 2)
	f.holds, f.held, f.Helper, f.Warn = nil, nil, noHelper{}, func(message string) { said <- message }
	t.Cleanup(f.Close)
	take := func(host string) *hold {
		t.Helper()
		to := transport.Target{Name: host, Slurm: &transport.Slurm{Account: "ops", QOS: "high", TimeLimit: 300 * time.Millisecond}}
		r := &request{ctx: t.Context(), to: to, node: node{name: host, addr: "192.0.2.1"}, done: make(chan answer, 1)}
		if refused := f.allocate(map[string]*request{host: r}); len(refused) > 0 {
			t.Fatal((<-r.done).err)
		}
		return f.holding(host).hold
	}
	first := take("a")
	for end := time.Now().Add(10 * time.Second); !strings.Contains(f.read("log"), "update JobId="+first.job+" TimeLimit=1\n"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the time limit is not extended: %s", f.read("log"))
		}
	}
	take("b")
	asked := strings.Split(f.read("asked"), "\n")
	for i, want := range []string{"--time=1 ", "--account=ops --qos=high", "--comment=run of job " + first.job} {
		if !strings.Contains(asked[1], want) || i < 2 != strings.Contains(asked[0], want) {
			t.Errorf("%q, %q", want, asked)
		}
	}
	f.Release([]string{"b"})
	if f.holding("b") != nil {
		t.Error("it is held still")
	}
	f.write("squeue", "#!/bin/sh\necho TIMEOUT\n")
	_ = first.process.cmd.Process.Kill()
	if text, want := <-said, "job "+first.job+", by which this command holds a, has ended (TIMEOUT: it was not extended"; !strings.HasPrefix(text, want) {
		t.Errorf("%q, want %q", text, want)
	}
	f.Close()
	if len(said) > 0 {
		t.Errorf("what was given back is said to be lost: %s", <-said)
	}
}

// TestADrainWaitsForAProcessor: jobs may have taken a node that was given back. It gets a job of ours before it is drained, as soon as there is a
// processor; and within drain_timeout.
func TestADrainWaitsForAProcessor(t *testing.T) {
	f := newFake(t, "1")
	f.holds, f.held, f.Helper = nil, nil, noHelper{}
	t.Cleanup(f.Close)
	for host, at := range f.reached {
		at.to.Address = "192.0.2.1"
		f.reached[host] = at
	}
	f.write("nodes", "NodeName=a NodeAddr=192.0.2.1 State=ALLOCATED Partitions=all CPUAlloc=16 CPUTot=16\n")
	f.write("srun", "#!/bin/sh\necho \"$*\" >> \"$(dirname \"$0\")/asked\"; sleep 3; echo it is busy >&2; exit 1\n")
	f.write("jobs", "7 R 64123 train\n")
	var waited []string
	var busy *transport.BusyError
	err := f.Drain(t.Context(), map[string]string{"a": "mtu"}, func(jobs []string) { waited = append(waited, jobs...) })
	if !errors.As(err, &busy) || busy.Waited != 3*time.Second || strings.Join(busy.Jobs, " ") != "7" || f.drainedNodes() != "" {
		t.Error(err, f.drainedNodes())
	}
	if asked := f.read("asked"); strings.Join(waited, " ") != "7" || !strings.Contains(asked, "--immediate=3 ") {
		t.Error(waited, asked)
	}
	f.write("srun", strings.Replace(fakeHold, "word=", "sleep 1; echo > \"$(dirname \"$0\")/jobs\"; word=", 1))
	if err := f.drain("a"); err != nil || f.drainedNodes() != "a: mtu of a" || f.holding("a") == nil {
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
	f.write("squeue", strings.Replace(fakeSqueue, "\n", `
case $* in
*--jobs=12*) exec echo "run of job 6" ;;
*--jobs=*) exec echo ;;
esac
`, 1))
	f.write("jobs", "9 R 0 fabricform\n12 R 0 fabricform\n")
	if err := f.drain("a"); err == nil || !strings.Contains(err.Error(), "at work there, by job 12") {
		t.Error("a later job of an older run:", err)
	}
	f.write("squeue", fakeSqueue)
	f.write("jobs", "9 R 0 fabricform\n10 R 1000 train a model\n8 R 0 fabricform\n")
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
