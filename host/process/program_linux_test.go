package process

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestALongOutputKeepsItsBeginningAndItsEnd(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "",
		"abc":                                  "abc",
		"abcdefgh":                             "abcdefgh",
		"abcdefghi":                            "abcd" + gap + "fghi",
		"abcdefghijkl":                         "abcd" + gap + "ijkl",
		strings.Repeat("x", 1000) + "the end!": "xxxx" + gap + "end!",
	} {
		for pieces := 1; pieces <= 13; pieces++ { // however it comes
			b := limitedBuffer{half: 4}
			for rest := []byte(text); len(rest) > 0; {
				n := min(pieces, len(rest))
				if got, err := b.Write(rest[:n]); got != n || err != nil {
					t.Fatal(got, err)
				}
				rest = rest[n:]
			}
			if got := string(b.Bytes()); got != want || string(b.Bytes()) != want {
				t.Errorf("%.20q in pieces of %d: %q, want %q", text, pieces, got, want)
			}
			if cap(b.tail) > 64 {
				t.Errorf("a tail of %d bytes", cap(b.tail))
			}
		}
	}
}

func TestAProgramsLastWordsAreKept(t *testing.T) {
	const script = "import sys\nsys.stderr.write('first\\n' + 'x' * 5000000 + '\\nlast\\n')\nprint('out')"
	e := Program{Name: "python3", Args: []string{"-c", script}, MaxOutput: 4096}.Start(t.Context())()
	if e.Missing {
		t.Skip("no python3")
	}
	if e.Exit != 0 || len(e.Stderr) > 4096+len(gap) || !bytes.HasPrefix(e.Stderr, []byte("first\n")) || !bytes.HasSuffix(e.Stderr, []byte("\nlast\n")) || string(e.Stdout) != "out\n" {
		t.Errorf("%d %d bytes, %.50q, %q", e.Exit, len(e.Stderr), e.Stderr, e.Stdout)
	}
	if e := (Program{Name: "python3", Args: []string{"-c", script}}).Start(t.Context())(); len(e.Stderr) != 1<<20+len(gap) || !bytes.HasSuffix(e.Stderr, []byte("\nlast\n")) {
		t.Errorf("%d bytes", len(e.Stderr))
	}
}

// A rank of MPI's leaves its launcher's process group, and need not notice that the launcher is gone.
func TestAProgramsFamilyEndsWithIt(t *testing.T) {
	for _, killed := range []bool{false, true} {
		// The grandchild says its number once it has a session of its own, and then has outputs of its own.
		script := "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' & exit 3"
		if killed {
			script = "setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' & sleep 1000"
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		said, log := io.Pipe()
		wait := Program{Name: "bash", Args: []string{"-c", script}, Family: time.Minute, Log: log}.Start(ctx)
		go func() { wait(); log.Close() }() // a program that says nothing is not to be waited for
		line, err1 := bufio.NewReader(said).ReadString('\n')
		pid, err2 := strconv.Atoi(strings.TrimSpace(line))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) }) // where it lives
		if killed {
			cancel()
		}
		if e := wait(); !killed && e.Exit != 3 || killed && e.Signal == "" || (e.Cause != nil) != killed || e.Alive != nil {
			t.Fatalf("%+v", e)
		}
		if raw, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat"); err == nil && !gone(string(raw)) {
			t.Errorf("killed is %v: the grandchild is there still: %s", killed, raw)
		}
	}
}

// Filters of older containers answer what they do not know with EPERM.
func TestAFamilyEndsWhereSignalsByDescriptorAreForbidden(t *testing.T) {
	if left, _ := endFamilyWithout(t, "1000", time.Minute, unix.SYS_PIDFD_SEND_SIGNAL); left != nil {
		t.Errorf("%v is left", left)
	}
}

// A driver may take seconds to tear a process down. One that no signal reaches stands in for it.
func TestAFamilyIsGivenTimeToGo(t *testing.T) {
	if left, _ := endFamilyWithout(t, "4", time.Minute, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KILL); left != nil {
		t.Errorf("%v is left", left)
	}
	if left, pid := endFamilyWithout(t, "1000", 100*time.Millisecond, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_KILL); !slices.Equal(left, []int{pid}) {
		t.Errorf("%v is left, not %d", left, pid)
	}
}

// endFamilyWithout ends a sleep of so many seconds where system calls, the first of which sends signals by
// descriptor, are forbidden.
func endFamilyWithout(t *testing.T, seconds string, within time.Duration, forbidden ...uint32) (left []int, pid int) {
	t.Helper()
	mark := t.Name() + seconds
	cmd := exec.Command("sleep", seconds)
	cmd.Env = []string{FamilyMark + "=" + mark}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for environ := fmt.Sprintf("/proc/%d/environ", cmd.Process.Pid); ; time.Sleep(time.Millisecond) { // it is in exec before
		if raw, err := os.ReadFile(environ); err != nil || bytes.Contains(raw, []byte(mark)) {
			break
		}
	}
	type end struct {
		left []int
		err  error
	}
	ended := make(chan end)
	go func() {
		runtime.LockOSThread()                                                       // the thread that the filter is for ends with this function
		filter := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}} // the system call's number
		for _, call := range forbidden {
			filter = append(filter, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
				unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)})
		}
		filter = append(filter, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW})
		program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		err := errors.Join(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0))
		if err == nil {
			err = unix.PidfdSendSignal(0, 0, nil, 0)
		}
		ended <- end{EndFamily(mark, 0, within), err}
	}()
	e := <-ended
	_ = cmd.Process.Kill() // where it lives
	if err := cmd.Wait(); !errors.Is(e.err, unix.EPERM) {
		t.Fatal(e.err, err)
	}
	return e.left, cmd.Process.Pid
}

// TestAFamilyIsOfItsUser: the memory of other users' processes is not read.
func TestAFamilyIsOfItsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("another user's processes need root")
	}
	const nobody = 65534
	cmd := exec.Command("sleep", "600")
	cmd.Env = []string{FamilyMark + "=" + t.Name()}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() { ended <- cmd.Wait() }()
	others := map[int]*os.File{}
	if killMarked(FamilyMark+"="+t.Name(), nobody+1, others); len(others) > 0 {
		t.Errorf("%v is killed", others)
	}
	if left := EndFamily(t.Name(), nobody, time.Minute); left != nil {
		t.Errorf("%v is left", left)
	}
	if err := <-ended; err == nil || err.Error() != "signal: killed" {
		t.Error(err)
	}
}

// TestWhatAProcessSaysOfItselfIsBounded: a process can make its environment as long as its memory (PR_SET_MM in prctl(2)).
func TestWhatAProcessSaysOfItselfIsBounded(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := errors.Join(os.WriteFile(dir.Name()+"/environ", nil, 0o600), os.Truncate(dir.Name()+"/environ", 64<<20)); err != nil {
		t.Fatal(err)
	}
	if got := len(readOf(dir, "environ")); got != mostOfAFile {
		t.Errorf("%d bytes", got)
	}
}

func TestWhatIsGoneIsKnown(t *testing.T) {
	const between = " 1 13023 0 0 -1 4194304 44 0 0 0 0 0 0 0 20 0 "
	for stat, want := range map[string]bool{
		"": true, "13024 (a) R 0 b) Z" + between + "1 0 6033310 0 0": true, "13024 (a) X" + between + "0 0 6033310 0 0": true,
		"13024 (Z) D" + between + "1 0 6033310 0 0": false, "13024 (a) R" + between + "1 0 6033310 0 0": false,
		"13024 (a) Z" + between + "2 0 6033310 0 0": false, // its first thread has ended, another is held
	} {
		if got := gone(stat); got != want {
			t.Errorf("%q: %v", stat, got)
		}
	}
}

func TestAProcessInTheMiddleOfExecIsKnown(t *testing.T) {
	const begin, middle, end = " 1 13023 0 0 -1 4194304 44 0 0 0 0 0 0 0 20 0 1 0 6033310 ", " 0 18446744073709551615 ", " 0 140724364939109 0 0 0 0 6 0 0 0 0 17 0 0 0 0 0 0 0 0 0 "
	for stat, want := range map[string]bool{
		"13024 (setsid) R" + begin + "4096" + middle + "0" + end + "140722127855453 0 0 0 0":             true,  // as one was caught
		"13024 (setsid) R" + begin + "4096" + middle + "0" + end + "140722127855453 1407221 7000 7000 0": true,  // exec has not finished setting up its environment
		"13024 (setsid) R" + begin + "4096" + middle + "9" + end + "140722127855453 1407221 7000 8000 0": true,  // and is there
		"13024 (sh) S" + begin + "4096" + middle + "9" + end + "140722127855453 1407221 7000 7000 0":     false, // env -i sh
		"13024 (a) R 0 b) Z" + begin + "0" + middle + "0" + end + "0 0 0 0 0":                            false,
		"2 (kthreadd) S" + begin + "0" + middle + "0" + end + "0 0 0 0 0":                                false,
		"": false, "1 (a": false, "1 (a) R 1": false,
	} {
		if got := inExec(stat); got != want {
			t.Errorf("%q: %v", stat, got)
		}
	}
}
