//go:build linux

package e2e

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fabricform/fabricform/transport"
)

// sshd is OpenSSH's own server: the end-to-end tests talk to nothing else.
const sshd = "/usr/sbin/sshd"

// bin is the program under test, and build its ID, which a test that is a client itself names. Both are empty
// where no end-to-end test was asked for.
var bin, build string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		if os.Getenv(rankHost) != "" {
			return rankHostMain()
		}
		if os.Getenv(simulatedStep) != "" {
			return simulateStep(os.Args[1:])
		}
		if socket := os.Getenv(simulatedAt); socket != "" {
			return simulateHosts(socket)
		}
		if os.Getenv("FABRICFORM_E2E") == "" && os.Getenv("FABRICFORM_BENCH") == "" && os.Getenv("FABRICFORM_GPU_TEST") == "" {
			return m.Run()
		}
		dir, err := os.MkdirTemp("", "fabricform-e2e")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		if err := program(dir); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

// program finds the program under test: FABRICFORM_BIN names one, or it is built into dir.
func program(dir string) (err error) {
	if bin = os.Getenv("FABRICFORM_BIN"); bin == "" {
		bin = filepath.Join(dir, "fabricform")
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", bin, "../cmd/fabricform")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build the program: %w: %s", err, out)
		}
	} else if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	out, err := exec.Command(bin, "version").Output()
	if err != nil {
		return fmt.Errorf("ask %s for its build: %w", bin, err)
	}
	said := regexp.MustCompile(`\bbuild ([0-9a-f]+),`).FindSubmatch(out)
	if said == nil {
		return fmt.Errorf("%s names no build: %s", bin, out)
	}
	build = string(said[1])
	return nil
}

// helper is the program under test as the helper of a test that is a client itself.
type helper struct{}

func (helper) Version() string { return build }

func (helper) Build(string) (transport.Build, error) {
	sum, size, err := hashOf(bin)
	return transport.Build{SHA256: sum, Size: size, Open: func() (io.ReadCloser, error) { return os.Open(bin) }}, err
}

// hashOf is a file's SHA-256 and its size.
func hashOf(path string) (sum string, size int64, err error) {
	raw, err := os.ReadFile(path)
	return fmt.Sprintf("%x", sha256.Sum256(raw)), int64(len(raw)), err
}

// e2e skips where the end-to-end tests were not asked for; .ci/run asks for them.
func e2e(t *testing.T) {
	t.Helper()
	if bin == "" {
		t.Skip("needs root and namespaces: run `make e2e`")
	}
	if os.Geteuid() != 0 {
		t.Fatal("the end-to-end tests need root, to make namespaces")
	}
}

// together is an end-to-end test that runs beside others: it measures nothing, and runs no virtual machine.
func together(t *testing.T) {
	t.Helper()
	e2e(t)
	t.Parallel()
}

// full is whether tests run at full size, as `make long` has it.
func full() bool { return os.Getenv("FABRICFORM_LONG") != "" }

// inFull runs a case that is no part of the small sample in every run.
func inFull(t *testing.T, name string, do func(t *testing.T)) {
	t.Helper()
	if full() {
		t.Run(name, do)
	}
}

// long is a test that takes minutes in virtual machines, beside the ones of every run.
func long(t *testing.T) {
	t.Helper()
	e2e(t)
	if !full() {
		t.Skip("takes minutes: run `make long`")
	}
}

// answer is what a command said.
type answer struct {
	code     int
	out, err string
}

// try runs the program with a state directory of the test's own.
func try(t *testing.T, state string, args ...string) answer {
	t.Helper()
	return tryCommand(t, state, exec.Command(bin, args...))
}

// hangs is longer than any command of a test takes, virtual machines without KVM included.
const hangs = 20 * time.Minute

func tryCommand(t *testing.T, state string, cmd *exec.Cmd) answer {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state, "NO_COLOR=1", "SSH_AUTH_SOCK=")
	cmd.WaitDelay = time.Minute // a process that it left has its output open
	err := cmd.Start()
	if err == nil {
		// A program that hangs prints all its goroutines.
		stuck := time.AfterFunc(hangs, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
		err = cmd.Wait()
		stuck.Stop()
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) {
		t.Fatalf("%s: %v", strings.Join(cmd.Args, " "), err)
	}
	a := answer{code: cmd.ProcessState.ExitCode(), out: out.String(), err: errs.String()}
	t.Logf("$ %s\nexit %d\n%s%s", strings.Join(cmd.Args[1:], " "), a.code, a.out, a.err)
	return a
}

// want fails unless the answer has this exit code and says all of texts.
func (a answer) want(t *testing.T, code int, texts ...string) {
	t.Helper()
	if a.code != code {
		end := func(text string) string {
			lines := strings.Split(strings.TrimSpace(text), "\n")
			return strings.Join(lines[max(0, len(lines)-10):], "\n")
		}
		t.Fatalf("exit %d, want %d; its last words were:\n%s\n%s", a.code, code, end(a.out), end(a.err))
	}
	for _, text := range texts {
		if !strings.Contains(a.out+a.err, text) {
			t.Fatalf("it does not say %q", text)
		}
	}
}

// labUpFor brings a fabric's lab up with OpenSSH in its hosts and takes it down with the test.
func labUpFor(t *testing.T, fabric string) (state string) {
	t.Helper()
	state = t.TempDir()
	t.Cleanup(func() { try(t, state, "lab", "down", fabric) })
	try(t, state, "lab", "up", "-sshd", sshd, fabric).want(t, 0, "is up")
	return state
}

// inside runs a command in a lab's host and fails the test if it fails.
func inside(t *testing.T, state, fabric, host string, argv ...string) string {
	t.Helper()
	a := try(t, state, append([]string{"lab", "exec", fabric, host, "--"}, argv...)...)
	a.want(t, 0)
	return a.out
}

// undoing removes a host's address repeatedly, as another program might, until stop is called.
func undoing(t *testing.T, state, fabric, host, addr, dev string) (stop func()) {
	t.Helper()
	inside(t, state, fabric, host, "touch", "/run/undoing")
	cmd := exec.Command(bin, "lab", "exec", fabric, host, "--", "sh", "-c", "echo; while [ -e /run/undoing ]; do ip addr del "+addr+" dev "+dev+" 2>/dev/null; done")
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	said, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = said.Read(make([]byte, 1)) // it runs
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		inside(t, state, fabric, host, "rm", "/run/undoing")
		_ = cmd.Wait() // says how the last of its commands ended
	}
}

const pair = "../examples/roce-pair.hcl"

func TestMainJobFromPlanToProof(t *testing.T) {
	e2e(t)
	pair := withEasyChecks(t, pair)
	state := labUpFor(t, pair)
	try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 2, "192.168.88.1/30", "1500 → 9000", "nothing survives a reboot: no network manager runs")
	try(t, state, "apply", "-lab", pair).want(t, 1, "approval needs a terminal")
	try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 2)
	try(t, state, "apply", "-lab", "-auto-approve", pair).want(t, 0, "Fabric verified", "link rail0", "link rail1", "Gb/s, ", "4 streams", "retransmit")
	try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 0, "No changes")

	t.Run("drift by hand is found and repaired", func(t *testing.T) {
		inside(t, state, pair, "a", "ip", "link", "set", "ens19f0np0", "mtu", "1500")
		inside(t, state, pair, "b", "ip", "addr", "add", "10.99.0.1/24", "dev", "ens19f1np1")
		inside(t, state, pair, "b", "ip", "addr", "del", "192.168.88.6/30", "dev", "ens19f1np1")
		try(t, state, "verify", "-lab", "-only", "link", pair).want(t, 3, "rail0", "MTU")
		try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 2, "1500 → 9000", "10.99.0.1/24", "192.168.88.6/30")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", pair).want(t, 0)
		try(t, state, "plan", "-lab", "-detailed-exitcode", pair).want(t, 0)
	})
	t.Run("a cut cable fails with the right link named", func(t *testing.T) {
		try(t, state, "lab", "fault", pair, "rail1", "cut").want(t, 0)
		try(t, state, "lab", "fault", pair, "rail1", "swap=rail7").want(t, 1, "no other link") // refused: it stays cut
		a := try(t, state, "verify", "-lab", "-only", "link,ping", pair)
		a.want(t, 3, "carrier", "swapped")
		if failed := failures(a.out); !strings.Contains(failed, "rail1") || strings.Contains(failed, "rail0") {
			t.Fatalf("the wrong link is blamed:\n%s", failed)
		}
		try(t, state, "lab", "fault", pair, "rail1", "none").want(t, 0)
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", pair).want(t, 0)
		try(t, state, "verify", "-lab", "-only", "link,ping", pair).want(t, 0)
	})
	t.Run("a swapped pair fails on both links", func(t *testing.T) {
		try(t, state, "lab", "fault", pair, "rail0", "swap=rail1").want(t, 0)
		try(t, state, "lab", "status", pair).want(t, 0, "swap=rail1", "swap=rail0")
		a := try(t, state, "verify", "-lab", "-only", "ping", pair)
		a.want(t, 3, "swapped")
		if failed := failures(a.out); !strings.Contains(failed, "rail0") || !strings.Contains(failed, "rail1") {
			t.Fatalf("both links must fail:\n%s", failed)
		}
		try(t, state, "lab", "fault", pair, "rail0", "none").want(t, 0)
		try(t, state, "verify", "-lab", "-only", "ping", pair).want(t, 0)
	})
	t.Run("a slow link fails, and it alone", func(t *testing.T) {
		try(t, state, "lab", "fault", pair, "rail0", "limit=20mbit").want(t, 0)
		a := try(t, state, "verify", "-lab", "-only", "tcp", pair)
		a.want(t, 3, "Gb/s")
		if failed := failures(a.out); !strings.Contains(failed, "rail0: ") || strings.Contains(failed, "rail1") {
			t.Fatalf("the wrong link is blamed:\n%s", failed)
		}
		try(t, state, "lab", "fault", pair, "rail0", "none").want(t, 0)
	})
	t.Run("nccl is rendered per host", func(t *testing.T) {
		try(t, state, "render", "nccl", "-lab", "-host", "a", pair).want(t, 0, "NCCL_SOCKET_IFNAME==ens19f0np0")
		try(t, state, "render", "nccl", "-lab", "-format", "shell", "-host", "b", pair).want(t, 0, "export NCCL_SOCKET_IFNAME=")
		scripts := filepath.Join(t.TempDir(), "scripts")
		try(t, state, "render", "nccl", "-lab", "-format", "torchrun", pair).want(t, 1, "-out DIR", "-host")
		try(t, state, "render", "nccl", "-lab", "-format", "torchrun", "-out", scripts, pair).want(t, 0, filepath.Join(scripts, "a.torchrun.sh"), "b.torchrun.sh")
	})
}

// failures are the report's failed lines, each under the heading of its link.
func failures(report string) string {
	var out, heading string
	for line := range strings.Lines(report) {
		if strings.HasPrefix(line, "link ") || strings.HasPrefix(line, "host ") {
			heading = strings.TrimSpace(line)
		}
		if strings.HasPrefix(line, "  ✗") {
			out += heading + ": " + line
		}
	}
	return out
}

func TestADeadPathIsNoticedInTheMiddleOfACheck(t *testing.T) {
	together(t)
	fabric := filepath.Join(t.TempDir(), "pair.hcl")
	if raw, err := os.ReadFile(pair); err != nil || os.WriteFile(fabric, raw, 0o600) != nil {
		t.Fatal(err)
	}
	rewrite(t, fabric, `duration     = "3s"`, `duration     = "20s"`)
	state := labUpFor(t, fabric)
	try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", fabric).want(t, 0)
	// In the first throughput test: no packet comes or goes any more, and nobody says so.
	cut := exec.Command(bin, "lab", "exec", fabric, "a", "--", "timeout", "180", "sh", "-c",
		"until [ $(cat /sys/class/net/ens19f0np0/statistics/tx_bytes) -gt 20971520 ]; do sleep 0.02; done; ip link set mgmt0 down")
	cut.Env = append(os.Environ(), "XDG_STATE_HOME="+state)
	if err := cut.Start(); err != nil {
		t.Fatal(err)
	}
	a := try(t, state, "verify", "-lab", "-only", "tcp", fabric)
	if err := cut.Wait(); err != nil {
		t.Fatal(err)
	}
	a.want(t, 3, "host a: the host stopped responding")
}
