package process

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain is the tracer of the test below, or prints its session and its session keyring, if it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv("SESSION") != "" {
		session, _ := unix.Getsid(0)
		keyring, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		_, _ = fmt.Fprintln(os.Stdout, session, keyring, err)
		os.Exit(0)
	}
	if pid, err := strconv.Atoi(os.Getenv("TRACE")); err == nil {
		_, _, failed := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		_, _ = fmt.Fprintln(os.Stdout, failed)
		_, _ = io.ReadAll(os.Stdin) // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestAFamilyHasASessionAndAKeyringOfItsOwn: it may be another user's, and must not get the keys or the terminal of root's login.
func TestAFamilyHasASessionAndAKeyringOfItsOwn(t *testing.T) {
	own, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		t.Skip("keys cannot be used here: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{strconv.Itoa(own)}
	for range 2 {
		e := Program{Declared: os.Args[0], Env: []string{"SESSION=1"}, Family: time.Minute}.Start(t.Context())()
		f := strings.Fields(string(e.Stdout))
		if len(f) != 3 || f[2] != "<nil>" || slices.Contains(seen, f[1]) {
			t.Fatalf("%q %q, after %q", e.Stdout, e.Stderr, seen)
		}
		seen = append(seen, f[1])
		if session, err := unix.Getsid(0); err != nil || f[0] == strconv.Itoa(session) {
			t.Errorf("it is in session %s, as this process: %v", f[0], err)
		}
	}
}

// TestAProgramThatDoesNotEndIsAbandoned: it is traced, and its tracer does not ask for its end, so nobody else sees it end
// (ptrace(2)). This stands for a program in uninterruptible sleep.
func TestAProgramThatDoesNotEndIsAbandoned(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("tracing needs root")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, log := io.Pipe()
	wait := Program{Name: "sh", Args: []string{"-c", "echo $$; exec sleep 600"}, Log: log}.Start(ctx)
	line, err := bufio.NewReader(out).ReadString('\n')
	pid, bad := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || bad != nil {
		t.Fatal(line, err, bad)
	}
	tracer := exec.Command(os.Args[0])
	tracer.Env = append(os.Environ(), fmt.Sprintf("TRACE=%d", pid))
	hold, err := tracer.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	said, err := tracer.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := tracer.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(said).ReadString('\n'); line != "errno 0\n" {
		t.Fatalf("trace: %s", line)
	}
	defer func() { // the program's end is seen with its tracer's
		hold.Close()
		_ = tracer.Wait()
		_ = wait()
	}()
	cancel()
	ended := make(chan Ended, 1)
	go func() { ended <- wait() }()
	select {
	case e := <-ended:
		if !slices.Equal(e.Alive, []int{pid}) || e.Cause == nil {
			t.Errorf("%+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("it is waited for")
	}
}
