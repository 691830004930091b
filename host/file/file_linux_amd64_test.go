package file

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// writerOf has this test program replace the file that it names, and end.
const writerOf = "FABRICFORM_TEST_WRITER"

func TestMain(m *testing.M) {
	path := os.Getenv(writerOf)
	if path == "" {
		os.Exit(m.Run())
	}
	// Locked before anything else runs, this is the thread that is traced: the main one. What it does between
	// two of these calls is replacing the file.
	runtime.LockOSThread()
	_, _, _ = syscall.RawSyscall(unix.SYS_GETSID, 0, 0, 0)
	err := Replace(path, []byte(strings.Repeat("new ", 5000)), 0o600)
	_, _, _ = syscall.RawSyscall(unix.SYS_GETSID, 0, 0, 0)
	if err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// TestEveryPrefixOfAReplacementIsWhole kills the writer before and after each of its system calls: the file is whole, the
// old one or the new one, and the next writer is not hindered by what is left. The order of the calls is what a cut of
// the power asks for (fsync(2)): the text is on the disk before it has the name, and the name before it is done.
func TestEveryPrefixOfAReplacementIsWhole(t *testing.T) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	before, after := strings.Repeat("old ", 3000), strings.Repeat("new ", 5000)
	seen := map[string]int{}
	for n := 0; ; n++ {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		if err := os.WriteFile(path, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		calls, done := traced(t, path, n)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != before && string(got) != after {
			t.Fatalf("killed after %v: %d bytes, %v", calls, len(got), err)
		}
		seen[string(got[:3])]++
		if err := Replace(path, []byte("the next"), 0o600); err != nil {
			t.Fatalf("after %v, the next writer: %v", calls, err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
			t.Errorf("after %v, the next writer leaves %v, %v", calls, names, err)
		}
		if !done {
			continue
		}
		var order []string
		for _, c := range calls {
			if slices.Contains([]string{"write", "fsync", "rename"}, c) {
				order = append(order, c)
			}
		}
		if order = slices.Compact(order); strings.Join(order, " ") != "write fsync rename fsync" {
			t.Errorf("the calls are %v", calls)
		}
		break
	}
	if seen["old"] < 6 || seen["new"] < 3 {
		t.Errorf("the file was old %d times, and new %d times", seen["old"], seen["new"])
	}
}

// traced runs the writer and kills it at its n-th stop, at the beginning or the end of a system call, while it
// replaces the file. The answer is what it called before; done: it came to the end.
func traced(t *testing.T, path string, n int) (calls []string, done bool) {
	t.Helper()
	names := map[uint64]string{unix.SYS_OPENAT: "open", unix.SYS_WRITE: "write", unix.SYS_FSYNC: "fsync", unix.SYS_CLOSE: "close",
		unix.SYS_RENAME: "rename", unix.SYS_RENAMEAT: "rename", unix.SYS_RENAMEAT2: "rename"}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{writerOf + "=" + path, "GODEBUG=asyncpreemptoff=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	end := func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	defer end()
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACESYSGOOD|unix.PTRACE_O_EXITKILL); err != nil {
		t.Fatal(err)
	}
	within, stops, signal := false, 0, 0
	for entering := true; ; {
		if err := unix.PtraceSyscall(pid, signal); err != nil {
			t.Fatal(err)
		}
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil {
			t.Fatal(err)
		}
		signal = 0
		if !ws.Stopped() {
			t.Fatalf("the writer ended by itself: %v, after %v", ws, calls)
		}
		if ws.StopSignal() != syscall.SIGTRAP|0x80 { // not a system call: a signal, which is its own
			if s := ws.StopSignal(); s != syscall.SIGTRAP {
				signal = int(s)
			}
			continue
		}
		var regs syscall.PtraceRegs
		if err := syscall.PtraceGetRegs(pid, &regs); err != nil {
			t.Fatal(err)
		}
		marker := regs.Orig_rax == unix.SYS_GETSID
		switch {
		case marker && entering && within:
			return calls, true
		case marker && !entering:
			within = true
		case within:
			if name := names[regs.Orig_rax]; name != "" && !entering {
				calls = append(calls, name)
			}
			if stops == n {
				return calls, false
			}
			stops++
		}
		entering = !entering
	}
}
