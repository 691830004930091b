//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/lab"
	"github.com/fabricform/fabricform/transport"
)

// The benchmarks print what a job takes beside what users would otherwise run. Measurements of a
// round stand beside each other and are told as ratios, medians of the rounds: seconds on a noisy
// machine say little. They assert no time.

// benchmark skips where no benchmark was asked for, or where a tool that it stands beside is missing.
func benchmark(t *testing.T, tools ...string) {
	t.Helper()
	if !benchmarks() {
		t.Skip("a benchmark: run `make bench`")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("left out: %s is not installed", tool)
		}
	}
}

func benchmarks() bool { return os.Getenv("FABRICFORM_BENCH") != "" }

// benchSizes are numbers of hosts; more of them take minutes.
func benchSizes() []int {
	if full() {
		return []int{16, 64}
	}
	return []int{16}
}

// series are ratios by name, in the order in which they came.
type series struct {
	names  []string
	values map[string][]float64
}

func (s *series) add(name string, v float64) {
	if s.values == nil {
		s.values = map[string][]float64{}
	}
	if s.values[name] == nil {
		s.names = append(s.names, name)
	}
	s.values[name] = append(s.values[name], v)
}

func (s *series) log(t *testing.T, title string) {
	t.Helper()
	for _, name := range s.names {
		all := slices.Sorted(slices.Values(s.values[name]))
		t.Logf("figure: %s: %-55s %8.2f   (%.2f to %.2f, %d rounds)", title, name, all[len(all)/2], all[0], all[len(all)-1], len(all))
	}
}

// benchLab is a lab of n hosts on one switch, with the helper in place.
type benchLab struct {
	n             int
	fabric, state string
	model         *fabric.Fabric
	dialer        *transport.Dialer
	lab           lab.Lab
	pid           int // has the management network
}

func newBenchLab(t *testing.T, n int) *benchLab {
	t.Helper()
	b := &benchLab{n: n, fabric: fleetFabric(t, "bench", n, 9000)}
	text, err := os.ReadFile(b.fabric)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("validate {\n"), []byte("validate {\n    pairs = \"all\"\n"), 1)
	text = bytes.Replace(text, []byte("count = 2"), []byte("count = 5"), 1)
	// All logins at once on few processors take their time.
	text = bytes.Replace(text, []byte(`connect_timeout = "20s"`), []byte(`connect_timeout = "60s"`), 1)
	if err := os.WriteFile(b.fabric, text, 0o600); err != nil {
		t.Fatal(err)
	}
	b.state = labUpFor(t, b.fabric)
	t.Setenv("XDG_STATE_HOME", b.state)
	try(t, b.state, "plan", "-lab", b.fabric).want(t, 0) // brings the helper
	f, _, diags := config.Load(b.fabric, config.Options{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	b.model = f
	if b.lab, err = lab.Open(f.Name); err != nil {
		t.Fatal(err)
	}
	b.dialer = &transport.Dialer{NetDial: b.lab.NetDial, Helper: helper{}}
	raw, err := os.ReadFile(filepath.Join(b.state, "fabricform", "lab", f.Name, "lab.json"))
	if err != nil {
		t.Fatal(err)
	}
	var saved struct{ Net struct{ PID int } }
	if err := json.Unmarshal(raw, &saved); err != nil {
		t.Fatal(err)
	}
	b.pid = saved.Net.PID
	return b
}

// operator is a command that runs where the operator of the lab stands.
func (b *benchLab) operator(argv ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--target", strconv.Itoa(b.pid), "--net", "--"}, argv...)...)
}

// curve25519 is ssh(1)'s quickest key exchange; its default costs the client several times as much.
var curve25519 = []string{"-o", "KexAlgorithms=curve25519-sha256"}

// everywhere runs a command on all hosts by ssh(1) with further options of its, at most so many
// hosts at once. What it says there must please check.
func (b *benchLab) everywhere(atOnce int, options []string, argv func(i int) []string, check func(said []byte) error) (took, cpu time.Duration, err error) {
	start := time.Now()
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, h := range b.model.Hosts {
		to := b.target(h)
		args := append([]string{"ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR", "-o", "UserKnownHostsFile=" + to.KnownHosts, "-i", to.IdentityFile}, options...)
		args = append(append(args, to.User+"@"+to.Address), argv(i)...)
		g.Go(func() error {
			cmd := b.operator(args...)
			out, err := cmd.CombinedOutput()
			if err == nil {
				err = check(out)
			}
			if err != nil {
				return fmt.Errorf("ssh to %s: %w: %s", h.Name, err, out)
			}
			mu.Lock()
			defer mu.Unlock()
			cpu += processorTime(cmd)
			return nil
		})
	}
	err = g.Wait()
	return time.Since(start), cpu, err
}

// processorTime is what an ended command used.
func processorTime(cmd *exec.Cmd) time.Duration {
	return cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// ownCPU is what this process used so far.
func ownCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// hostsCPU is what the processes of all hosts used so far, with the ended ones that they waited for (proc_pid_stat(5)): each host has
// a process namespace of its own.
func (b *benchLab) hostsCPU(t *testing.T) (used time.Duration) {
	t.Helper()
	const tick = time.Second / 100 // USER_HZ, the same on all of Go's Linux
	for _, h := range b.model.Hosts {
		var said bytes.Buffer
		if _, err := b.lab.Exec(t.Context(), h.Name, []string{"sh", "-c", "cat /proc/[0-9]*/stat"}, nil, &said, io.Discard); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(said.String()) {
			fields := strings.Fields(line[strings.LastIndexByte(line, ')')+1:]) // the third and those after it
			for _, f := range fields[11:15] {
				n, err := strconv.Atoi(f)
				if err != nil {
					t.Fatalf("%q: %v", line, err)
				}
				used += time.Duration(n) * tick
			}
		}
	}
	return used
}

// connect opens the helpers of all hosts.
func (b *benchLab) connect(t *testing.T) *apply.Fleet {
	t.Helper()
	s := openSession(b.model, b.lab, b.dialer, false)
	if lost := s.Unreachable(); len(lost) > 0 {
		t.Fatal(lost)
	}
	return s.Fleet
}

// program runs the program under test on the lab's fabric and answers what it took.
func (b *benchLab) program(t *testing.T, args ...string) (took, cpu time.Duration) {
	t.Helper()
	return runProgram(t, bin, append(args, b.fabric)...)
}

// runProgram answers what a program took. cpu includes the processes that it started and waited for (getrusage(2)).
func runProgram(t *testing.T, program string, args ...string) (took, cpu time.Duration) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "SSH_AUTH_SOCK=")
	start := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
	return time.Since(start), processorTime(cmd)
}
