package process

import (
	"bufio"
	"context"
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

// TestMain is the tracer of the test below if it is asked to be.
func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv("TRACE")); err == nil {
		_, _, failed := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		_, _ = fmt.Fprintln(os.Stdout, failed)
		_, _ = io.ReadAll(os.Stdin) // until the test ends
		os.Exit(0)
	}
	os.Exit(m.Run())
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
		if !slices.Equal(e.Left, []int{pid}) || e.Cause == nil {
			t.Errorf("%+v", e)
		}
	case <-time.After(time.Minute):
		t.Error("it is waited for")
	}
}
