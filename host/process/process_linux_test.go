package process

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStopEndsOneProcessAndNoOther(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Find(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := ID{PID: p.PID, Start: p.Start + 1}
	if err := other.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now, err := Find(p.PID); err != nil || now != p {
		t.Fatal("a process with another start was stopped")
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatal(err)
	}
	if err := p.Stop(context.Background()); err != nil {
		t.Errorf("a process that is gone: %v", err)
	}
	for _, pid := range []int{-1, 0, 1, os.Getpid()} {
		if (ID{PID: pid}).Stop(context.Background()) == nil {
			t.Errorf("process %d would have been stopped", pid)
		}
	}
}

func TestDetachedProgramHasItsOwnSession(t *testing.T) {
	out := filepath.Join(t.TempDir(), "stat")
	p, err := Detach([]string{"/bin/cp", "/proc/self/stat", out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(raw))
	if f[5] != f[0] || f[6] != "0" { // session, terminal
		t.Errorf("process %s has session %s and terminal %s", f[0], f[5], f[6])
	}
}

func TestTimerIsPunctual(t *testing.T) {
	got := timerArguments("fabricform-1", 1500*time.Millisecond, []string{"/x/helper", "guard"})
	for _, want := range []string{"--on-active=1500000us", "--timer-property=AccuracySec=50ms", "--unit=fabricform-1"} {
		if !slices.Contains(got, want) {
			t.Errorf("%v lacks %s", got, want)
		}
	}
	if i := slices.Index(got, "--"); !slices.Equal(got[i+1:], []string{"/x/helper", "guard"}) {
		t.Error(got)
	}
}
