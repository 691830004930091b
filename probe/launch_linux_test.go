package probe

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/probe/collective"
)

// tend starts TendRanks, waits until it is ready, and returns what it ends with.
func tend(t *testing.T, c *collectives, id, user string) chan RanksEnded {
	t.Helper()
	ended := make(chan RanksEnded, 1)
	go func() {
		e, err := c.TendRanks(t.Context(), RanksSpec{ID: id, User: user, Limit: time.Minute})
		if err != nil {
			t.Error(err)
		}
		ended <- e
	}()
	if _, err := c.AwaitTended(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Stop(context.Background(), id) })
	return ended
}

// launchSpec is a launch of a program that does what the text says, in the place of ranks.
func launchSpec(t *testing.T, ranks, text string) LaunchSpec {
	t.Helper()
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, collective.AllReducePerf), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return LaunchSpec{ID: "x", Ranks: ranks, TestPrograms: TestPrograms{Folder: folder}, Script: []byte("exec \"$@\"\n"), Limit: time.Minute,
		Run: collective.TestRun{Program: collective.AllReducePerf, Min: 8, Max: 8, Factor: 2, Iterations: 1}}
}

// TestRanksAreTended: their logs come back, only those that are files, and nothing is left of them.
func TestRanksAreTended(t *testing.T) {
	var c collectives
	id := rand.Text()
	ended := tend(t, &c, id, "")
	// What a launcher on another host starts: it has the mark, and nobody waits for it.
	s := launchSpec(t, id, `echo "$@"; dir=$(dirname "$NCCL_DEBUG_FILE"); echo "a:1:1 NCCL INFO $NCCL_DEBUG" >"$dir/nccl.a.1"
mkfifo "$dir/nccl.a.2"; ln -s /etc/passwd "$dir/nccl.a.3"; setsid env sleep 1000 <&- >&- 2>&- & echo $! >"$dir/pid"`)
	e, err := c.Launch(t.Context(), s)
	if err != nil || e.Exit != 0 || !strings.HasPrefix(string(e.Out), "-b 8 -e 8 ") {
		t.Fatalf("%+v %v", e, err)
	}
	if _, err := c.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	got := <-ended
	if string(got.Log) != "a:1:1 NCCL INFO INFO\n" || got.Alive != nil {
		t.Errorf("%q %v", got.Log, got.Alive)
	}
	if _, err := os.Stat(filepath.Dir(ranksDir(id))); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestRanksCannotReplaceTheirFolder: root reads and removes what is at its path.
func TestRanksCannotReplaceTheirFolder(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another user's ranks need root")
	}
	var c collectives
	id := rand.Text()
	ended := tend(t, &c, id, "nobody")
	attack := `echo log >nccl.a.1 && cd / && for way in "mv $0 $0.1" "rmdir $0" "rm -r $0" "mkfifo $0.1"; do
$way 2>/dev/null && echo "$way"; done; echo log >$0/nccl.a.1`
	dir := ranksDir(id)
	e := TestPrograms{User: "nobody"}.command(nil, "/bin/sh", "-c", "cd $0 && "+attack, dir).Start(t.Context())()
	if len(e.Stdout) > 0 || e.Exit != 0 {
		t.Errorf("%q %q", e.Stdout, e.Stderr)
	}
	if err := os.WriteFile(dir+"/nccl.a.2", []byte("root's"), 0o600); err != nil { // in the place of a link to such a file
		t.Fatal(err)
	}
	if _, err := c.Stop(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; string(got.Log) != "log\n" {
		t.Errorf("%q", got.Log)
	}
	if _, err := os.Stat(filepath.Dir(dir)); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestLogsOfRanksAreBounded: in number, and in the time that their removal takes.
func TestLogsOfRanksAreBounded(t *testing.T) {
	s := RanksSpec{ID: rand.Text()}
	folder, uid, unlock, err := s.makeFolder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	defer folder.Close()
	for i := range maxNames + 1 {
		if err := folder.WriteFile(fmt.Sprintf("nccl.a.%d", i), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if log, err := readLogs(folder, uid); err != nil || len(log) != maxNames {
		t.Errorf("%d bytes, %v", len(log), err)
	}
	if err := s.removeFolder(t.Context(), time.Nanosecond); err == nil || !strings.Contains(err.Error(), "not done within 1ns") {
		t.Error(err)
	}
	if err := s.removeFolder(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
}

// TestRanksEndWithTheirTending: those that no launcher ends, when the client's stream ends.
func TestRanksEndWithTheirTending(t *testing.T) {
	var c collectives
	id := rand.Text()
	ended := tend(t, &c, id, "")
	rank := process.Program{Name: "sleep", Args: []string{"1000"}, Env: []string{process.FamilyMark + "=" + id}}.Start(t.Context())
	_, _ = c.Stop(t.Context(), id)
	if got := <-ended; got.Alive != nil {
		t.Error(got.Alive)
	}
	if e := rank(); e.Signal != "killed" {
		t.Errorf("%+v", e)
	}
}

// TestALauncherEndsItsRanksItself: the launcher gets SIGTERM before SIGKILL, and may then end in any way without being blamed.
func TestALauncherEndsItsRanksItself(t *testing.T) {
	var c collectives
	id := rand.Text()
	tend(t, &c, id, "")
	on := filepath.Join(t.TempDir(), "on")
	if err := unix.Mkfifo(on, 0o600); err != nil {
		t.Fatal(err)
	}
	s := launchSpec(t, id, "trap 'echo ends its ranks; exit 1' TERM; echo runs >"+on+"; while :; do sleep 0.01; done")
	done := make(chan LaunchEnded, 1)
	go func() {
		e, err := c.Launch(t.Context(), s)
		if err != nil {
			t.Error(err)
		}
		done <- e
	}()
	if _, err := os.ReadFile(on); err != nil { // until it runs
		t.Fatal(err)
	}
	if _, err := c.Launch(t.Context(), s); err == nil || !strings.Contains(err.Error(), "is already running") {
		t.Error(err)
	}
	_, _ = c.Stop(t.Context(), "x")
	if e := <-done; string(e.Out) != "ends its ranks\n" || !e.Stopped || e.TimedOut || e.Signal != "" {
		t.Errorf("%+v", e)
	}
}

func TestIDsOfRanksAreChecked(t *testing.T) {
	var c collectives
	for _, id := range []string{"", "../../etc", strings.Repeat("A", 25) + "/", strings.Repeat("A", 27)} {
		if _, err := c.TendRanks(t.Context(), RanksSpec{ID: id, Limit: time.Second}); err == nil {
			t.Errorf("%q is tended", id)
		}
		if _, err := c.Launch(t.Context(), launchSpec(t, id, "")); err == nil {
			t.Errorf("%q is launched", id)
		}
	}
}

// TestNoVariableReachesRoot: the loader of runuser, which runs as root, obeys its environment (ld.so(8)); LD_LIBRARY_PATH has folders
// in which others may write.
func TestNoVariableReachesRoot(t *testing.T) {
	p := TestPrograms{User: "nobody", Folder: "/opt/tests", MPIRun: "/opt/mpi/bin/mpirun"}
	look := p.command(p.libraries(), p.MPIRun, "--version")
	launch := LaunchSpec{TestPrograms: p, Ranks: rand.Text(), Run: collective.TestRun{Program: collective.AllReducePerf}}.launcher(nil)
	for _, got := range []process.Program{look, launch} {
		if got.Name != "runuser" || got.Declared != "" || got.Env != nil {
			t.Errorf("root runs %s%s with %q", got.Name, got.Declared, got.Env)
		}
	}
	want := []string{"--user=nobody", "--", "/usr/bin/env", "PATH=/usr/sbin:/sbin:/usr/bin:/bin:/usr/local/sbin:/usr/local/bin",
		"LD_LIBRARY_PATH=/opt/mpi/lib:/opt/mpi/lib64", "/opt/mpi/bin/mpirun", "--version"}
	if !slices.Equal(look.Args, want) {
		t.Errorf("%q", look.Args)
	}
	if os.Getuid() != 0 {
		t.Skip("another user's programs need root")
	}
	const text = "[ $(id -un) = nobody ] && echo $LD_LIBRARY_PATH"
	if e := p.command(p.libraries(), "/bin/sh", "-c", text).Start(t.Context())(); string(e.Stdout) != "/opt/mpi/lib:/opt/mpi/lib64\n" {
		t.Errorf("%q %q", e.Stdout, e.Stderr)
	}
}

// TestTheScriptSetsWhatItNeeds: users run the same script without fabricform, so it may need nothing of this environment.
func TestTheScriptSetsWhatItNeeds(t *testing.T) {
	s := LaunchSpec{TestPrograms: TestPrograms{User: "root", MPIRun: "/opt/mpi/bin/mpirun"}, Ranks: rand.Text(), Run: collective.TestRun{Program: collective.AllReducePerf}}
	for _, word := range s.launcher(nil).Args {
		if strings.HasPrefix(word, "LD_LIBRARY_PATH=") || strings.Contains(word, "ALLOW_RUN_AS_ROOT") {
			t.Errorf("the launcher gets %s", word)
		}
	}
}

// TestAHelperWithoutItsJobStartsNoRanks: sudo drops the variables of the job's step.
func TestAHelperWithoutItsJobStartsNoRanks(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "")
	t.Setenv("SLURMD_NODENAME", "n1")
	if has, err := (TestPrograms{Slurm: true}).lookForSlurm(t.Context()); err != nil || !strings.Contains(has.Problem, "which sudo drops") {
		t.Errorf("%+v, %v", has, err)
	}
}

func TestSlurmIsToldWhereRanksRun(t *testing.T) {
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("SLURM_GPUS_ON_NODE", "")
	s := LaunchSpec{TestPrograms: TestPrograms{Slurm: true}, Ranks: rand.Text(), Nodes: []string{"n2", "n1"}, PerNode: 2}
	if err := os.MkdirAll(ranksDir(s.Ranks), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(filepath.Dir(ranksDir(s.Ranks))) })
	hosts := s.hostsFile()
	if err := s.writeHosts(); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(hosts); err != nil || string(text) != "n2\nn2\nn1\nn1\n" {
		t.Errorf("%q, %v", text, err)
	}
	want := []string{"SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=n2,n1", "SLURM_OVERLAP=1", "SLURM_NTASKS=4", "SLURM_HOSTFILE=" + hosts, "SLURM_DISTRIBUTION=arbitrary"}
	if got := s.batch(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	t.Setenv("SLURM_GPUS_ON_NODE", "8") // where Slurm hands out GPUs, a step asks for its own
	if got := s.batch(); !slices.Contains(got, "SLURM_GPUS_PER_NODE=2") {
		t.Errorf("%q", got)
	}
	for _, bad := range []LaunchSpec{{}, {Nodes: []string{"n1"}}, {Nodes: []string{"n1"}, PerNode: 257}, {Nodes: []string{"n[1-9]"}, PerNode: 1}, {Nodes: []string{"n1\nn2"}, PerNode: 1}, {Nodes: []string{"-w"}, PerNode: 1}} {
		if err := bad.writeHosts(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestProgramsThatDoNotStart(t *testing.T) {
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
		has, err := ranks.LaunchLook(ctx, p)
		cancel()
		if got := fmt.Sprint(has.Problem, err); !strings.Contains(got, want) || (err != nil) != strings.Contains(want, "within") {
			t.Errorf("%s: %s", want, got)
		}
	}
}
