package main

import (
	"bytes"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// readsInput is the environment variable that makes a run of the test below a command that reads standard input.
const readsInput = "FABRICFORM_TEST_READS_INPUT"

// TestAnInterruptEndsACommandThatReads: at the first one, while it still waits for its input.
func TestAnInterruptEndsACommandThatReads(t *testing.T) {
	if command := os.Getenv(readsInput); command != "" {
		os.Exit(run([]string{command, "-"}))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"explain", "fmt"} {
		cmd := exec.Command(self, "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), readsInput+"="+command)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		killed := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		// More than a pipe holds: once it is written, the command reads.
		if _, err := in.Write(bytes.Repeat([]byte("# a comment\n"), 20_000)); err != nil {
			t.Error(err)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != exitError || !killed.Stop() {
			t.Errorf("%s: %s", command, cmd.ProcessState)
		}
	}
}
