package site

import (
	"os/exec"
	"testing"
)

func TestAProcessThatHasEndedIsNotAlive(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Identify(cmd.Process.Pid)
	if err != nil || !p.Alive() {
		t.Fatal(err)
	}
	if other := (Process{PID: p.PID, Start: p.Start + "0"}); other.Alive() {
		t.Error("another program with the same id is taken for it")
	}
	// Nobody waits for it: it stays as a zombie, and counts as ended.
	if err := End(p); err != nil || p.Alive() {
		t.Error(err)
	}
	_ = cmd.Wait()
}
