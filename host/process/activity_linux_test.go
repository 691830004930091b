package process

import (
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// TestActivityTellsWorkFromWaiting: of a grandchild, too.
func TestActivityTellsWorkFromWaiting(t *testing.T) {
	look := func() string {
		t.Helper()
		now, err := Activity()
		if err != nil {
			t.Fatal(err)
		}
		return now
	}
	idle := exec.Command("sleep", "60")
	if err := idle.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Process.Kill(); _ = idle.Wait() }()
	// A process that has just started still works.
	still := func() bool {
		for end := time.Now().Add(time.Minute); time.Now().Before(end); {
			before := look()
			time.Sleep(100 * time.Millisecond)
			if look() == before {
				return true
			}
		}
		return false
	}
	if !still() {
		t.Fatal("a process that waits looks active")
	}
	for _, line := range []string{"while :; do :; done", "sh -c 'while :; do :; done'; true", "while :; do echo; sleep 0.01; done >/dev/null"} {
		busy := exec.Command("sh", "-c", line)
		busy.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := busy.Start(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			before := look()
			for end := time.Now().Add(time.Minute); look() == before && time.Now().Before(end); {
				time.Sleep(20 * time.Millisecond)
			}
			if look() == before {
				t.Errorf("%s: a process that works looks idle", line)
			}
		}
		_ = syscall.Kill(-busy.Process.Pid, syscall.SIGKILL)
		_ = busy.Wait()
	}
}
