package probe

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDaemonsLieBesideMPIRun(t *testing.T) {
	dir := t.TempDir()
	elsewhere := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "mpirun"), filepath.Join(dir, "orted"), filepath.Join(elsewhere, "orted")} {
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := TestPrograms{MPIRun: filepath.Join(dir, "mpirun")}
	for _, program := range []string{"orted", filepath.Join(dir, "orted")} {
		if at, err := p.daemon(program); err != nil || at != filepath.Join(dir, "orted") {
			t.Error(program, at, err)
		}
	}
	if at, err := p.daemon(filepath.Join(elsewhere, "orted")); err == nil || !strings.Contains(err.Error(), "neither beside mpirun nor among the system's programs") {
		t.Error(at, err)
	}
	if at, err := p.daemon(filepath.Join(dir, "prted")); err == nil || !strings.Contains(err.Error(), "there is no prted beside mpirun") {
		t.Error(at, err)
	}
}

func TestADaemonThatIsNoneIsRefused(t *testing.T) {
	var c Collectives
	t.Setenv("TMPDIR", t.TempDir())
	r := RankSettings{Netdev: "lo"}
	for want, s := range map[string]DaemonSpec{
		"is none of orted":          {ID: "x", RankSettings: r, Words: []string{"/bin/sh", "-c", "orted"}, Limit: time.Second},
		"is no setting of NCCL's":   {ID: "x", RankSettings: RankSettings{Netdev: "lo", Env: map[string]string{"LD_PRELOAD": "/tmp/x.so"}}, Words: []string{"orted"}, Limit: time.Second},
		"is no interface to meet":   {ID: "x", RankSettings: RankSettings{Netdev: "lo,all"}, Words: []string{"orted"}, Limit: time.Second},
		"refused to start /x/orted": {ID: "x", RankSettings: r, Words: []string{"/x/orted"}, Limit: time.Second},
	} {
		if e, err := c.Daemon(t.Context(), s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v %v", want, e, err)
		}
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// What mpirun asks comes to whoever asks for it, and the answer back.
func TestARemoteShellAsksTheHelper(t *testing.T) {
	var c Collectives
	dir, err := os.MkdirTemp("", "ff") // short: it has the place of a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	shell := c.shell("job")
	_, socket, end, err := shell.serve(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(remoteShellSocket, socket)
	go func() {
		a, err := c.Asked(t.Context(), "job")
		if err != nil || a.Host != "10.0.0.2" || strings.Join(a.Words, "|") != "orted|-mca|\"x y\"" {
			t.Errorf("%+v %v", a, err)
		}
		if _, err := c.Told(t.Context(), LaunchTold{ID: "job", Number: a.Number, Exit: 7, Text: "no"}); err != nil {
			t.Error(err)
		}
	}()
	var out bytes.Buffer
	if code, err := AskRemoteShell([]string{"10.0.0.2", "orted", "-mca", `"x y"`}, &out); code != 7 || err == nil || err.Error() != "no" {
		t.Error(code, err)
	}
	if _, err := c.Told(t.Context(), LaunchTold{ID: "job", Number: 1}); err == nil {
		t.Error("a question is answered twice")
	}
	if code, err := AskRemoteShell([]string{"10.0.0.2", "echo $SHELL"}, &out); code != 0 || err != nil || out.String() != "/bin/bash\n" {
		t.Error(code, err, out.String())
	}
	end()
	if code, err := AskRemoteShell([]string{"10.0.0.2", "orted"}, &out); code == 0 || err == nil {
		t.Error("nobody listens any more")
	}
	close(shell.over)
	if a, err := c.Asked(t.Context(), "job"); err != nil || !a.Over {
		t.Errorf("%+v %v", a, err)
	}
}

func TestGPUsThatCUDAShows(t *testing.T) {
	for list, want := range map[string]int{"0,1": 2, "": 0, "-1": 0, "3": 1, "0,-1,1": 1, "GPU-1, GPU-2,GPU-3": 3, "0,1,2,3,4,5": 4} {
		t.Setenv("CUDA_VISIBLE_DEVICES", list)
		if got := visible(4); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}
