//go:build linux

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/validators"
)

// switched is three hosts on one network.
const switched = `
host "a" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 1
  }
}
host "b" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 2
  }
}
host "c" {
  nic "rail0" {
    netdev      = "rail0"
    host_number = 3
  }
}
network "rail0" {
  members = [host.a.nic.rail0, host.b.nic.rail0, host.c.nic.rail0]
  subnet  = "10.77.0.0/24"
  role    = "training"
}
validate {
  nccl {
    %s
  }
}
nccl {
  %s
}
`

// openMPI is Debian's name of the mpirun whose words these tests know: there may be another MPI's, too.
const openMPI = "/usr/bin/mpirun.openmpi"

// standInTests compiles the stand-ins for nccl-tests into a folder.
func standInTests(t *testing.T, flags ...string) string {
	t.Helper()
	for _, program := range []string{"mpicc.openmpi", openMPI} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s is missing, and CI installs it", program)
			}
			t.Skipf("%s is not installed", program)
		}
	}
	dir := t.TempDir()
	for _, program := range []string{"all_reduce_perf", "broadcast_perf", "sendrecv_perf"} {
		cmd := exec.Command("mpicc.openmpi", append(flags, "-O1", "-o", filepath.Join(dir, program), "../probe/collective/testdata/standin/perf.c")...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// launchers is a fleet for launches, whose helpers write temporary files below tmp alone.
type launchers struct {
	*rankFleet
	tmp    string
	mpirun string // of the fabric; "": the system's
}

func launchHosts(t *testing.T, names []string, gpus int) *launchers {
	t.Helper()
	tmp, err := os.MkdirTemp("", "ff") // short: it has the place of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(tmp) })
	environ := func(int) []string { return []string{"TMPDIR=" + tmp, fmt.Sprintf("%s=%d", rankGPUs, gpus)} }
	return &launchers{someHosts(t, names, environ, func(f *rankFleet) { plug(t, f, names) }), tmp, openMPI}
}

// plug joins hosts by a switch in the first one's namespace, as rail0: 10.77.0.1, .2 and so on.
func plug(t *testing.T, f *rankFleet, names []string) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = "switch"
	first := f.inside(t, names[0])
	bridge := &netlink.Bridge{LinkAttrs: attrs}
	// Without ARP it does not speak for the host's own address.
	err := errors.Join(first.LinkAdd(bridge), first.LinkSetARPOff(bridge), first.LinkSetUp(bridge))
	for _, name := range names {
		attrs.Name = "to-" + name
		err = errors.Join(err, first.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "rail0", PeerNamespace: netlink.NsPid(f.pids[name])}))
		port, lost := first.LinkByName(attrs.Name)
		if err = errors.Join(err, lost); err != nil {
			t.Fatal(err)
		}
		h := f.inside(t, name)
		end, lost := h.LinkByName("rail0")
		if err = errors.Join(err, lost, first.LinkSetMaster(port, bridge), first.LinkSetUp(port)); err != nil {
			t.Fatal(err)
		}
		err = h.LinkSetUp(end)
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range names {
		f.address(t, name, "rail0", fmt.Sprintf("10.77.0.%d/24", i+1))
	}
}

// left are processes that a launch started, and files that it wrote.
func (l *launchers) left(t *testing.T) (out []string) {
	t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environs {
		raw, _ := os.ReadFile(path) // it may have ended
		if bytes.Contains(raw, []byte("TMPDIR="+l.tmp+"/")) {
			name, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "comm"))
			out = append(out, filepath.Dir(path)+" "+strings.TrimSpace(string(name)))
		}
	}
	files, err := os.ReadDir(l.tmp)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

func (l *launchers) run(ctx context.Context, f *fabric.Fabric) string {
	return verdicts(validators.Run(ctx, f, l, validators.Options{Only: []validators.Check{validators.CheckNCCL}, Lab: true}))
}

// GPUs and programs are stand-ins, so that this says nothing of NCCL. MPI, its launcher and daemons, the helpers, the
// namespaces and what goes over the network are real.
func TestNCCLTestsAreLaunchedByHelpers(t *testing.T) {
	together(t)
	good := standInTests(t)
	const all = "pass a ranks: %d on %d hosts, nccl-tests 0.standin, NCCL 2.28.9, Open MPI "
	right := []string{"sockets on rail0", "pass a all_reduce values", "pass a broadcast values", "pass a send_recv values", "GB/s bus bandwidth at "}

	three := launchHosts(t, []string{"a", "b", "c"}, 2)
	three.check(t, "three hosts", good, false, append(right, fmt.Sprintf(all, 6, 3))...)

	l := launchHosts(t, []string{"a", "b"}, 2)
	l.check(t, "right", good, false, append(right, fmt.Sprintf(all, 4, 2))...)
	if log, err := os.ReadFile(filepath.Join(l.out, "right-b-daemon.log")); err != nil || !strings.Contains(string(log), "b:") || !strings.Contains(string(log), "NCCL_SOCKET_IFNAME set by environment to =rail0") {
		t.Errorf("host b's ranks were not told their interface: %s %v", log, err)
	}
	if system := systemMPIRun(t); system == openMPI {
		l.mpirun = ""
		l.check(t, "the system's mpirun", good, false, append(right, fmt.Sprintf(all, 4, 2))...)
		l.mpirun = openMPI
	} else {
		t.Logf("the default is left out: the system's mpirun is %q", system)
	}
	l.check(t, "a program is missing", t.TempDir(), true, "host b: ", "all_reduce_perf does not exist; build nccl-tests with MPI=1")
	l.check(t, "a rank dies", standInTests(t, "-DDIES=3"), true, "fail a collectives: not measured", "all_reduce_perf: ", "rank 3", "node b", "signal 9")
	l.check(t, "a wrong value", standInTests(t, "-DWRONG=3"), true, "fail a all_reduce values: 6 wrong, first with 64 B", "nccl-tests found wrong values", "pass a broadcast values")
	l.asksFor = []string{"/bin/sh -c orted"}
	l.check(t, "something else is asked for", good, true, "host b: refused the command from mpirun", "is not one of orted, prted, hydra_pmi_proxy")
	l.asksFor = nil
	l.nft(t, "a", "add table inet t; add chain inet t in { type filter hook input priority 0; }; add rule inet t in iifname rail0 tcp flags & (syn | ack) == syn reject")
	l.check(t, "firewall", good, true, "fail a collectives: not measured", "b (10.77.0.2 on rail0) cannot connect to TCP port", "of a (10.77.0.1 on rail0)")
	l.nft(t, "a", "delete table inet t")
	l.abandoned(t, l.fabric(t, standInTests(t, "-DHANGS=3")), 4)
}

// systemMPIRun is what helpers take for mpirun: openMPI, where it is the same program; "": there is none.
func systemMPIRun(t *testing.T) string {
	t.Helper()
	mpirun, err := process.FindProgram("mpirun")
	if err != nil {
		return ""
	}
	is, err1 := filepath.EvalSymlinks(mpirun)
	known, err2 := filepath.EvalSymlinks(openMPI)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if is == known {
		return openMPI
	}
	return is
}

// fabric is one of the fleet's hosts, whose programs are in folder.
func (l *launchers) fabric(t *testing.T, folder string) *fabric.Fabric {
	t.Helper()
	hosts := switched
	if len(l.clients) == 2 {
		hosts, _, _ = strings.Cut(hosts, "host \"c\"")
		hosts += strings.Replace(switched[strings.Index(switched, "network"):], ", host.c.nic.rail0", "", 1)
	}
	run := fmt.Sprintf("run = \"nccl-tests\"\n    nccl_tests = %q", folder)
	if l.mpirun != "" {
		run += fmt.Sprintf("\n    mpirun = %q", l.mpirun)
	}
	return fabricOf(t, hosts, run, "write = false\n  socket_ifname = \"rail0\"")
}

// check runs a case, after which nothing may be left.
func (l *launchers) check(t *testing.T, name, folder string, fails bool, want ...string) {
	t.Helper()
	began := time.Now()
	l.name = name
	got := l.run(t.Context(), l.fabric(t, folder))
	t.Logf("%s, %s:\n%s", name, time.Since(began).Round(time.Millisecond), got)
	if failed := strings.Contains(got, "fail "); failed != fails {
		t.Errorf("%s: failed is %v", name, failed)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: it does not say %q", name, w)
		}
	}
	if left := l.left(t); left != nil {
		t.Errorf("%s: there is left: %v", name, left)
	}
}

// nft changes a host's packet filter.
func (l *launchers) nft(t *testing.T, host, rules string) {
	t.Helper()
	if out, err := exec.Command("nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", l.pids[host]), "nft", rules).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// hanging runs a launch whose ranks hang, until all do.
func (l *launchers) hanging(t *testing.T, f *fabric.Fabric, ranks int) (done chan string) {
	t.Helper()
	done = make(chan string, 1)
	go func() { done <- l.run(t.Context(), f) }()
	for begun := time.Now(); l.ranks(t) < ranks; time.Sleep(50 * time.Millisecond) {
		if len(done) > 0 {
			t.Fatalf("it ended before its ranks hung:\n%s", <-done)
		}
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("the ranks did not start: %v", l.left(t))
		}
	}
	return done
}

// ended is what a launch says that must end long before its limit.
func (l *launchers) ended(t *testing.T, done chan string) string {
	t.Helper()
	select {
	case said := <-done:
		return said
	case <-time.After(time.Minute):
		t.Fatalf("it goes on: %v", l.left(t))
		return ""
	}
}

// ranks is how many there are.
func (l *launchers) ranks(t *testing.T) (n int) {
	t.Helper()
	for _, what := range l.left(t) {
		if strings.HasSuffix(what, "all_reduce_perf") {
			n++
		}
	}
	return n
}

// soon waits for what says that nothing is left.
func (l *launchers) soon(t *testing.T, none func() bool) {
	t.Helper()
	for began := time.Now(); !none(); time.Sleep(50 * time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Errorf("there is left: %v", l.left(t))
			return
		}
	}
}

// abandoned loses the client while ranks hang.
func (l *launchers) abandoned(t *testing.T, f *fabric.Fabric, ranks int) {
	t.Helper()
	done := l.hanging(t, f, ranks)
	for _, c := range l.clients {
		c.Close()
	}
	t.Log("client lost:\n" + l.ended(t, done))
	l.soon(t, func() bool { return l.left(t) == nil })
}

// A helper that is killed leaves its files, and no ranks.
func TestRanksEndWithAHelperThatIsKilled(t *testing.T) {
	together(t)
	hangs := standInTests(t, "-DHANGS=3")
	for _, killed := range []string{"a", "b"} { // which has mpirun, and its daemon
		l := launchHosts(t, []string{"a", "b"}, 2)
		done := l.hanging(t, l.fabric(t, hangs), 4)
		if err := syscall.Kill(l.pids[killed], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		t.Logf("helper of %s killed:\n%s", killed, l.ended(t, done))
		l.soon(t, func() bool { return l.ranks(t) == 0 })
		t.Logf("left: %v", l.left(t))
	}
}
