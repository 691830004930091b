package probe

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fabricform/fabricform/probe/collective"
)

// standIn is a Python whose torch is the stand-in of testdata: the script is ours, and really run.
func standIn(t *testing.T) string {
	t.Helper()
	modules, err := filepath.Abs("collective/testdata/standin")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(t.TempDir(), "python3")
	text := fmt.Sprintf("#!/bin/sh\nPYTHONPATH='%s' PYTHONDONTWRITEBYTECODE=1 exec /usr/bin/python3 \"$@\"\n", modules)
	if err := os.WriteFile(at, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return at
}

// ranks runs two hosts' worth of ranks on this machine, over loopback.
func ranks(t *testing.T, python string, perHost int) (out []CollectiveRank) {
	t.Helper()
	var c [2]collectives
	has, err := c[0].Look(t.Context(), CollectiveLook{Python: python})
	if err != nil || has.Problem != "" {
		t.Fatalf("%+v %v", has, err)
	}
	// The bounds only end what hangs: a machine that is busy with other work reaches none of them.
	job := collective.Job{World: 2 * perHost, Master: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), has.Port), Count: 1001,
		Sizes: []int64{8, 4096}, MeetSeconds: 300, Seconds: 300, BudgetSeconds: 300}
	var mu sync.Mutex
	var both sync.WaitGroup
	for i := range c {
		both.Go(func() {
			got, err := c[i].Run(t.Context(), CollectiveSpec{ID: "job", Python: python, Job: job, First: i * perHost, Ranks: perHost,
				Env: map[string]string{"NCCL_SOCKET_IFNAME": "=rail0"}, Limit: 10 * time.Minute})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			out = append(out, got...)
			for _, r := range got {
				if collective.Parse(r.Out).Failure != nil {
					_, _ = c[1-i].Stop(context.Background(), "job")
				}
			}
		})
	}
	both.Wait()
	if len(out) != 2*perHost {
		t.Fatalf("%d ranks", len(out))
	}
	return out
}

func TestRanksTellValuesAndBandwidth(t *testing.T) {
	for _, r := range ranks(t, standIn(t), 2) {
		got := collective.Parse(r.Out)
		if r.Exit != 0 || !got.Done || !got.Connected || got.Strange > 0 || got.Failure != nil || len(got.Values) != 4 || len(got.Sweep) != 2 {
			t.Fatalf("rank %d: %+v\n%s\n%s", r.Rank, got, r.Out, r.Log)
		}
		for _, v := range got.Values {
			if v.Wrong != 0 || v.Count != 1001 {
				t.Errorf("rank %d: %+v", r.Rank, v)
			}
		}
		// What a library prints to stdout is the log's, and the settings have arrived.
		for _, want := range []string{"Bootstrap : Using =rail0", "NCCL_DEBUG is INFO"} {
			if !strings.Contains(string(r.Log), want) {
				t.Errorf("rank %d: %q is not in its log:\n%s", r.Rank, want, r.Log)
			}
		}
	}
}

func TestAWrongValueIsSeen(t *testing.T) {
	t.Setenv("CUDA_STANDIN_WRONG", "1") // also shows that CUDA's variables of the login are kept
	for _, r := range ranks(t, standIn(t), 1) {
		v := collective.Parse(r.Out).Values[0]
		if want := map[int]int{0: 0, 1: 1}[r.Rank]; v.Op != "all_reduce" || v.Wrong != want || want == 1 && (v.At != 7 || v.Got != v.Want+1) {
			t.Errorf("rank %d: %+v", r.Rank, v)
		}
	}
}

// The rank that hangs is on the host of the one that dies, where Run ends it, or on the other, where Stop does.
func TestARankThatFailsEndsTheOthers(t *testing.T) {
	t.Setenv("CUDA_STANDIN_HANGS", "0")
	t.Setenv("CUDA_STANDIN_DIES", "1")
	for _, perHost := range []int{2, 1} {
		for _, r := range ranks(t, standIn(t), perHost) {
			got := collective.Parse(r.Out)
			if r.Rank == 1 && (got.Failure == nil || got.Failure.Text != "NCCL error: [31munhandled system error in the stand-in" || got.Failure.Stage != "connect" || r.Stopped) {
				t.Errorf("%+v", got.Failure)
			}
			if r.Rank == 0 && (got.Done || got.Failure != nil || !r.Stopped || r.TimedOut || r.Signal != "") {
				t.Errorf("%d ranks a host: rank 0 went on alone: %+v", perHost, r)
			}
		}
	}
}

// An administrator's login may say where NCCL is to log, and how much.
func TestTheLogComesBackWhateverTheLoginSays(t *testing.T) {
	file := filepath.Join(t.TempDir(), "nccl.log")
	t.Setenv("NCCL_DEBUG_FILE", file)
	t.Setenv("NCCL_DEBUG", "WARN")
	s, err := ncclSettings(map[string]string{"NCCL_DEBUG": "VERSION", "NCCL_DEBUG_FILE": file, "NCCL_DEBUG_SUBSYS": "ALL"})
	if err != nil {
		t.Fatal(err)
	}
	program := python("", "", s)
	program.Name, program.Args, program.Stdin = "sh", []string{"-c", "echo $NCCL_DEBUG $NCCL_DEBUG_SUBSYS >$NCCL_DEBUG_FILE"}, nil
	e := program.Start(t.Context())()
	if string(e.Stderr) != "INFO INIT,BOOTSTRAP,ENV,NET\n" {
		t.Errorf("%q", e.Stderr)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a file stays on the host")
	}
}

func TestARankThatHangsIsEndedAtItsLimit(t *testing.T) {
	t.Setenv("CUDA_STANDIN_HANGS", "0")
	var c collectives
	port, err := freePort(firstMeetingPort, meetingPorts)
	if err != nil {
		t.Fatal(err)
	}
	job := collective.Job{World: 1, Master: netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port), Count: 8, MeetSeconds: 5, Seconds: 5, BudgetSeconds: 1}
	for _, limit := range []time.Duration{2 * time.Second, 10 * time.Second, time.Minute} { // for Python to start on a busy machine
		got, err := c.Run(t.Context(), CollectiveSpec{ID: "x", Python: standIn(t), Job: job, Ranks: 1, Limit: limit})
		if err != nil || !got[0].TimedOut || got[0].Stopped {
			t.Fatalf("%+v %v", got, err)
		}
		if strings.Contains(string(got[0].Log), "NCCL INFO") {
			return
		}
	}
	t.Error("its log is lost")
}

func TestLookSaysWhatIsMissing(t *testing.T) {
	var c collectives
	look := func(python string) CollectiveHas {
		t.Helper()
		has, err := c.Look(t.Context(), CollectiveLook{Python: python})
		if err != nil {
			t.Fatal(err)
		}
		return has
	}
	if got := look("/nowhere/python3").Problem; got != "/nowhere/python3 does not exist" {
		t.Error(got)
	}
	if got := look("/usr/bin/true").Problem; !strings.Contains(got, "before it reported its modules") {
		t.Error(got)
	}
	bare := filepath.Join(t.TempDir(), "python3")
	if err := os.WriteFile(bare, []byte("#!/bin/sh\nexec /usr/bin/python3 -I -S \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := look(bare).Problem; !strings.Contains(got, "no torch") {
		t.Error(got)
	}
	t.Setenv("CUDA_STANDIN_GPUS", "0")
	if got := look(standIn(t)); got.Problem != "" || got.Look.GPUs != 0 || got.Look.Torch != "0+standin" || got.Port < firstMeetingPort {
		t.Errorf("%+v", got)
	}
	t.Setenv("CUDA_STANDIN_NO_NCCL", "1")
	if got := look(standIn(t)).Problem; !strings.Contains(got, "without NCCL") {
		t.Error(got)
	}
}

func TestAJobThatCannotBeIsRefused(t *testing.T) {
	var c collectives
	good := CollectiveSpec{ID: "x", Ranks: 1, Limit: time.Second, Job: collective.Job{World: 2, Master: netip.MustParseAddrPort("127.0.0.1:1"), Count: 1, MeetSeconds: 1, Seconds: 1, BudgetSeconds: 1}}
	for name, change := range map[string]func(*CollectiveSpec){
		"ranks 2 to 2":           func(s *CollectiveSpec) { s.First = 2 },
		"an address and a port":  func(s *CollectiveSpec) { s.Job.Master = netip.AddrPort{} },
		"sizes must ascend":      func(s *CollectiveSpec) { s.Job.Sizes = []int64{8, 8} },
		"not an NCCL setting":    func(s *CollectiveSpec) { s.Env = map[string]string{"LD_PRELOAD": "/tmp/x.so"} },
		"already running":        func(s *CollectiveSpec) { s.ID = "" },
		"without time limits":    func(s *CollectiveSpec) { s.Job.Seconds = 0 },
		"number of ranks 65537":  func(s *CollectiveSpec) { s.Job.World = 1<<16 + 1 },
		"0 values":               func(s *CollectiveSpec) { s.Job.Count = 0 },
		"is not an NCCL setting": func(s *CollectiveSpec) { s.Env = map[string]string{"NCCL_DEBUG": "INFO\nNCCL_X=1"} },
	} {
		s := good
		change(&s)
		if _, err := c.Run(t.Context(), s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
