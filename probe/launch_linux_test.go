package probe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/probe/collective"
	"github.com/fabricform/fabricform/probe/mpi"
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
	if at, err := p.daemon(filepath.Join(dir, "prted")); err == nil || !strings.Contains(err.Error(), "prted is not beside mpirun") {
		t.Error(at, err)
	}
}

func TestADaemonThatIsNoneIsRefused(t *testing.T) {
	var c collectives
	t.Setenv("TMPDIR", t.TempDir())
	r := RankSettings{Netdev: "lo"}
	for want, s := range map[string]DaemonSpec{
		"is not one of orted":           {ID: "x", RankSettings: r, Words: []string{"/bin/sh", "-c", "orted"}, Limit: time.Second},
		"is not an NCCL setting":        {ID: "x", RankSettings: RankSettings{Netdev: "lo", Env: map[string]string{"LD_PRELOAD": "/tmp/x.so"}}, Words: []string{"orted"}, Limit: time.Second},
		"is not a valid interface name": {ID: "x", RankSettings: RankSettings{Netdev: "lo,all"}, Words: []string{"orted"}, Limit: time.Second},
		"refused to start /x/orted":     {ID: "x", RankSettings: r, Words: []string{"/x/orted"}, Limit: time.Second},
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
	var c collectives
	dir, err := os.MkdirTemp("", "ff") // short: it has the place of a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	shell := c.shell("job")
	defer c.leave("job", shell)
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

// A launch of an id that runs here is refused, and the one that runs goes on asking. None is remembered.
func TestALaunchIsRefusedWhileItsIDRuns(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	folder := t.TempDir()
	mpirun := filepath.Join(folder, "mpirun")
	if err := os.WriteFile(mpirun, []byte("#!/bin/sh\necho runs\nread go <"+folder+"/go\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(filepath.Join(folder, "go"), 0o600); err != nil {
		t.Fatal(err)
	}
	var c collectives
	s := LaunchSpec{ID: "x", TestPrograms: TestPrograms{MPIRun: mpirun}, RankSettings: RankSettings{Netdev: "lo"}, Limit: time.Minute, Run: collective.TestRun{Program: collective.AllReducePerf, Min: 8, Max: 8, Factor: 2, Iterations: 1},
		Launch: mpi.Launch{Release: mpi.Release{Kind: mpi.OpenMPI}, Hosts: []mpi.Host{{Address: netip.MustParseAddr("10.0.0.1"), Ranks: 1}, {Address: netip.MustParseAddr("10.0.0.2"), Ranks: 1}}, Networks: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/24")}}}
	ended := make(chan error, 1)
	go func() {
		e, err := c.Launch(t.Context(), s)
		if err == nil && string(e.Out) != "runs\n" {
			err = fmt.Errorf("%+v", e)
		}
		ended <- err
	}()
	opened := make(chan *os.File, 1)
	go func() {
		f, err := os.OpenFile(filepath.Join(folder, "go"), os.O_WRONLY, 0) // when mpirun runs
		if err != nil {
			t.Error(err)
		}
		opened <- f
	}()
	var start *os.File
	select {
	case start = <-opened:
	case err := <-ended:
		t.Fatalf("mpirun did not run: %v", err)
	}
	if _, err := c.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is already running") {
		t.Error(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if a, err := c.Asked(soon, "x"); err == nil {
		t.Errorf("the launch that runs is over: %+v", a)
	}
	over := make(chan error, 1)
	asking, enough := context.WithTimeout(t.Context(), time.Minute)
	defer enough()
	go func() {
		a, err := c.Asked(asking, "x")
		if err == nil && !a.Over {
			err = fmt.Errorf("%+v", a)
		}
		over <- err
	}()
	users := func() (n int) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if s := c.shells["x"]; s != nil {
			return s.users
		}
		return 0 // the launch has ended
	}
	for users() < 2 && len(over) == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := errors.Join(start.Close(), <-ended, <-over); err != nil {
		t.Error(err)
	}
	if _, err := c.Told(t.Context(), LaunchTold{ID: "x"}); err != nil || len(c.shells) > 0 {
		t.Error(err, c.shells)
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
	t.Setenv("CUDA_VISIBLE_DEVICES", "0")
	const sound = "#!/bin/sh\necho USAGE"
	for want, c := range map[string]struct{ program, mpirun string }{
		"all_reduce_perf did not start within 1m0s":                                     {"#!/bin/sh\nexec sleep 1000", ""},
		"all_reduce_perf does not start: it was ended by a signal (segmentation fault)": {"#!/bin/sh\nkill -SEGV $$", ""},
		"mpirun does not start: it was ended by a signal (terminated) (\"no home\")":    {sound, "#!/bin/sh\necho no home >&2; kill $$"},
		"all_reduce_perf does not start (\"no libnccl.so.2\")":                          {"#!/bin/sh\necho no libnccl.so.2 >&2; exit 127", ""},
		"mpirun cannot be used: it belongs neither to Open MPI nor to MPICH":            {sound, "#!/bin/sh\n"},
	} {
		p := TestPrograms{Folder: t.TempDir()}
		p.MPIRun = filepath.Join(p.Folder, "mpirun")
		err := os.WriteFile(p.MPIRun, []byte(c.mpirun), 0o755)
		for _, name := range collective.TestPrograms {
			err = errors.Join(err, os.WriteFile(filepath.Join(p.Folder, name), []byte(c.program), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if strings.Contains(want, "within") {
			ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second) // in the place of the minute
		}
		var ranks collectives
		has, err := ranks.LaunchLook(ctx, LaunchLook{TestPrograms: p, GPUs: 1})
		cancel()
		if got := fmt.Sprint(has.Problem, err); !strings.Contains(got, want) || (err != nil) != strings.Contains(want, "within") {
			t.Errorf("%s: %s", want, got)
		}
	}
}

func TestGPUsThatCUDAShows(t *testing.T) {
	for list, want := range map[string]int{"0,1": 2, "": 0, "-1": 0, "3": 1, "0,-1,1": 1, "GPU-1, GPU-2,GPU-3": 3, "0,1,2,3,4,5": 4,
		"9": 0, "0,9,1": 1, "0,0": 0, "0,9,0": 1, "GPU-1,GPU-1": 0, "NoDevFiles": 0, "MIG-1": 1} {
		t.Setenv("CUDA_VISIBLE_DEVICES", list)
		if got := visible(4); got != want {
			t.Errorf("%q: %d, want %d", list, got, want)
		}
	}
}
