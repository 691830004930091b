package host

import (
	"context"
	"errors"
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
	p, err := FindProcess(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	other := Process{PID: p.PID, Start: p.Start + 1}
	if err := other.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	if now, err := FindProcess(p.PID); err != nil || now != p {
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
		if (Process{PID: pid}).Stop(context.Background()) == nil {
			t.Errorf("process %d would have been stopped", pid)
		}
	}
}

func TestSleepUntilIsExactAndEndsWithItsContext(t *testing.T) {
	before, err := Uptime()
	if err != nil {
		t.Fatal(err)
	}
	if err := SleepUntil(context.Background(), before+50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if now, _ := Uptime(); now < before+50*time.Millisecond || now > before+time.Second {
		t.Errorf("woke after %s, wanted 50ms", now-before)
	}
	if err := SleepUntil(context.Background(), -time.Hour); err != nil {
		t.Errorf("a moment that is past: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := SleepUntil(ctx, before+time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := Lock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TryLock(path); !errors.Is(err, ErrLocked) {
		t.Error(err)
	}
	unlock()
	again, err := TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	again()
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

func TestReplacedFileIsWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	for _, text := range []string{"one", "2"} {
		if err := ReplaceFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Fatalf("%q, %v", got, err)
		}
	}
	if err := ReplaceFile(filepath.Join(path, "below-a-file"), nil, 0o600); err == nil {
		t.Error("written below a file")
	}
}
