//go:build linux

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/transport/slurm"
)

// The environment variables that make this program a simulated srun, and a coordinator in namespaces of its own.
const (
	simulatedStep    = "FABRICFORM_BENCH_STEP"
	simulatedCluster = "FABRICFORM_BENCH_CLUSTER"
)

// simulatedAddress is that of a node. All of them are local in the namespace.
func simulatedAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 64, byte(i/250 + 1), byte(i%250 + 1)})
}

// simulatedSlurm makes a namespace in which the addresses of all nodes are local, with a munge of its own, and goes on there.
const simulatedSlurm = `set -e
mount -t tmpfs tmpfs /run
mkdir -m 755 /run/munge
ip link set lo up
ip addr add 10.64.0.1/32 dev lo
ip route add local 10.64.0.0/16 dev lo
head -c 128 /dev/urandom > /run/key
chmod 400 /run/key
munged --force --key-file=/run/key --pid-file=/run/munge/pid --log-file=/run/munge/log --seed-file=/run/munge/seed --num-threads=8
shift
exec "$0" "$@"
`

// TestBenchSlurmSimulated plans a fleet of nodes that no machine holds. Slurm's programs are stand-ins, and so are the helpers, which dial
// back with credentials of a real munge over TLS, and answer with the snapshot of a small host. The coordinator does all that it does
// with real nodes.
func TestBenchSlurmSimulated(t *testing.T) {
	e2e(t)
	installed(t, "munged")
	if os.Getenv(simulatedCluster) == "" {
		cmd := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", simulatedSlurm, "/proc/self/exe", "x",
			"-test.run=^TestBenchSlurmSimulated$", "-test.v", "-test.timeout=30m")
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Args[len(cmd.Args)-5] = self
		cmd.Env = append(os.Environ(), simulatedCluster+"=1", "FABRICFORM_BIN="+bin)
		out, err := cmd.CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if _, figure, found := strings.Cut(line, "figure: "); found {
				t.Logf("figure: %s", strings.TrimSpace(figure))
			}
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	sizes := []int{10}
	if benchmarks() {
		sizes = []int{100, 1000}
	}
	if full() {
		sizes = append(sizes, 10000)
	}
	for _, n := range sizes {
		t.Run(fmt.Sprintf("%d nodes", n), func(t *testing.T) { planSimulatedNodes(t, n) })
	}
}

func planSimulatedNodes(t *testing.T, n int) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "NodeName=h%05d Arch=x86_64 CPUAlloc=0 CPUTot=64 Gres=gpu:8 NodeAddr=%s NodeHostName=h%05d RealMemory=1000000 State=IDLE ThreadsPerCore=1 Partitions=all\n", i, simulatedAddress(i), i)
	}
	text := simulatedHosts(n, "slurm {}\n", "")
	path := filepath.Join(dir, "s.hcl")
	for name, text := range map[string]string{
		path:                           text,
		filepath.Join(dir, "nodes"):    list.String(),
		filepath.Join(dir, "srun"):     "#!/bin/sh\nexec env " + simulatedStep + "=1 '" + self + "' \"$@\"\n",
		filepath.Join(dir, "squeue"):   "#!/bin/sh\n",
		filepath.Join(dir, "scontrol"): "#!/bin/sh\ncase \"$*\" in *config*) echo 'SlurmctldHost[0] = ctl(10.64.0.1)' ;; *) exec cat '" + filepath.Join(dir, "nodes") + "' ;; esac\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	f, _, diags := config.Load(path, config.Options{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	c := &slurm.Cluster{Helper: helper{}}
	forgetPeak(t)
	before, programs, begun := ownCPU(t), childrenCPU(t), time.Now()
	s := apply.Open(t.Context(), f, apply.SessionOptions{Dial: c.Start, Build: build, Parallelism: 64, Glance: true,
		Resources: apply.Resources{Kinds: providers.Kinds(), Desired: providers.Desired, Derived: providers.Derived, Joined: providers.Joined, Looks: providers.Looks, Compared: providers.Compared}})
	p, err := s.Plan(t.Context())
	took, cpu := time.Since(begun), ownCPU(t)-before
	if err != nil || len(p.Unreachable()) > 0 || p.Changes() < n {
		for host, why := range p.Unreachable() {
			t.Fatalf("%d unreachable, among them %s: %s", len(p.Unreachable()), host, why)
		}
		t.Fatalf("%d changes, %v", p.Changes(), err)
	}
	c.Close()
	t.Logf("figure: %d simulated nodes of Slurm: coordinator's processor %.2f ms a node, peak %d MB, %.2f s with simulated helpers, whose programs took %.2f ms a node on the same processors",
		n, cpu.Seconds()*1000/float64(n), peakMB(t), took.Seconds(), (childrenCPU(t)-programs).Seconds()*1000/float64(n))
}

// childrenCPU is what this process's ended children used.
func childrenCPU(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportWord is the word with which a holder's report begins.
var reportWord = regexp.MustCompile(`echo "([A-Z2-7]+) `)

// simulateStep is an srun: of a hold, whose holders report and wait, or of helpers that dial back.
func simulateStep(args []string) int {
	var names []string
	step := false
	for _, a := range args {
		if list, is := strings.CutPrefix(a, "--nodelist="); is {
			names = strings.Split(list, ",")
		}
		step = step || strings.HasPrefix(a, "--jobid=")
	}
	if !step {
		word := reportWord.FindStringSubmatch(args[len(args)-1])[1]
		for _, n := range names {
			fmt.Fprintf(os.Stdout, "%s %s %d yes x86_64\n", word, n, os.Getpid())
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return 0
	}
	credential, err := io.ReadAll(os.Stdin)
	if err != nil {
		panic(err)
	}
	var in struct {
		Door    string
		Secrets map[string]string
		From    map[string]string
	}
	_, payload, _ := strings.Cut(run(string(credential), "unmunge"), "\n\n")
	if err := json.Unmarshal([]byte(payload), &in); err != nil {
		panic(err)
	}
	snapshot, err := json.Marshal(calls.SnapshotResult{Snapshot: smallHost()})
	if err != nil {
		panic(err)
	}
	table := agent.Table{string(calls.Snapshot): func(context.Context, json.RawMessage) (any, error) { return json.RawMessage(snapshot), nil }}
	id := regexp.MustCompile(`fabricform-([0-9a-f]+)`).FindStringSubmatch(strings.Join(args, " "))[1]
	var all sync.WaitGroup
	for _, n := range names {
		all.Go(func() {
			c := dialBackAs(in.Door, in.From[n], in.Secrets[n])
			_ = agent.Serve(context.Background(), c, c, id, table)
			_ = c.Close()
		})
	}
	all.Wait()
	return 0
}

// dialBackAs connects to the door from a node's address, and proves its secret.
func dialBackAs(door, from, secret string) net.Conn {
	var c net.Conn
	var err error = syscall.EADDRINUSE
	for port := 600; errors.Is(err, syscall.EADDRINUSE) && port < 1024; port++ { // the ports that only root may bind; an earlier run may have left some
		d := tls.Dialer{NetDialer: &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from), Port: port}}, Config: &tls.Config{InsecureSkipVerify: true}}
		c, err = d.Dial("tcp", door)
	}
	if err != nil {
		panic(err)
	}
	state := c.(*tls.Conn).ConnectionState()
	bound, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		panic(err)
	}
	proof, err := json.Marshal(map[string]string{"secret": secret, "binding": hex.EncodeToString(bound)})
	if err != nil {
		panic(err)
	}
	credential := run(string(proof), "munge", "--restrict-uid=0")
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(credential))), credential...)); err != nil {
		panic(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 4+len("welcome"))); err != nil {
		panic(fmt.Errorf("%s was refused: %w", from, err))
	}
	return c
}

// run runs a program with an input, and returns its output.
func run(in string, argv ...string) string {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stderr = strings.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		panic(err)
	}
	return string(out)
}
