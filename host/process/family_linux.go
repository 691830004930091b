package process

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/retry"
)

// FamilyMark is the environment variable that marks a program and its descendants. EndFamily kills those of this host.
const FamilyMark = "FABRICFORM_FAMILY"

// looks bounds the searches for a family of which no process is left. A process may look like being in the middle of
// exec for good.
const looks = 100

// EndFamily kills the processes that carry a mark, and searches again until none is left: they may start others
// meanwhile, and a process in the middle of exec has no readable environment. It looks at processes of this process's own user and
// of the user with that UID. left are the processes that are still alive after that time, because a driver holds them or because
// they could not be killed.
func EndFamily(mark string, uid int, within time.Duration) (left []int) {
	killed := map[int]*os.File{}
	look := 0
	_ = retry.Until(context.Background(), 20*time.Millisecond, within, func() (bool, error) { // a killed process takes a while to end
		look++
		again := killMarked(FamilyMark+"="+mark, uid, killed)
		for pid, dir := range killed {
			if gone(readOf(dir, "stat")) {
				_ = dir.Close()
				delete(killed, pid)
			}
		}
		return len(killed) == 0 && (!again || look == looks), nil
	})
	for pid, dir := range killed {
		_ = dir.Close()
		left = append(left, pid)
	}
	slices.Sort(left)
	return left
}

// killMarked kills the users' processes that carry a mark, adds them to killed, and reports whether to search again.
func killMarked(mark string, uid int, killed map[int]*os.File) (again bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || killed[pid] != nil {
			continue
		}
		// The open folder refers to this process, but another process may have its PID by the time of the signal.
		dir, err := os.Open("/proc/" + e.Name())
		if err != nil {
			continue // the process has ended
		}
		if user := realUID(readOf(dir, "status")); user != os.Getuid() && user != uid {
			_ = dir.Close()
			continue
		}
		raw := readOf(dir, "environ")
		again = again || raw == "" && inExec(readOf(dir, "stat"))
		if !slices.Contains(strings.Split(raw, "\x00"), mark) {
			_ = dir.Close()
			continue
		}
		again = true
		killed[pid] = dir
		// pidfd_send_signal(2) takes the open folder, since Linux 5.1. Older kernels, and containers whose filter does
		// not know the system call, need the PID.
		if err := unix.PidfdSendSignal(int(dir.Fd()), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return again
}

// mostOfAFile bounds what is read of a process's file, in bytes: its environment is its own memory. exec allows it 6 MiB, and 2 MiB
// with the usual limit of the stack (execve(2)).
const mostOfAFile = 4 << 20

// readOf reads a file of the process whose folder in /proc is open; "" if the process has ended.
func readOf(dir *os.File, name string) string {
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
	if err != nil {
		return ""
	}
	defer f.Close()
	raw, _ := io.ReadAll(io.LimitReader(f, mostOfAFile))
	return string(raw)
}

// realUID returns the user who started a process, from its /proc/PID/status (proc_pid_status(5)); -1 if the process has ended.
// Two other sources mislead: a setuid program has another effective user, and any process can make root the owner of its folder
// in /proc (PR_SET_DUMPABLE).
func realUID(status string) int {
	_, after, _ := strings.Cut(status, "\nUid:\t")
	user, _, _ := strings.Cut(after, "\t")
	uid, err := strconv.Atoi(user)
	if err != nil {
		return -1
	}
	return uid
}

// gone reports whether no thread of a killed process runs any more, by its line in /proc/PID/stat. A zombie may have
// threads left (field 20) that a driver holds.
func gone(stat string) bool {
	const first, state, threads = 3, 3, 20
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) <= threads-first || f[state-first] == "X" || f[state-first] == "Z" && (f[threads-first] == "0" || f[threads-first] == "1")
}

// inExec reports whether a process without a readable environment was in the middle of exec, by its line in
// /proc/PID/stat (proc_pid_stat(5)). It was if it has its new memory (field 23, vsize) but no code yet (field 26,
// startcode; fs/binfmt_elf.c sets it after the environment), or if it has an environment by now (fields 50 and 51,
// env_start and env_end). Kernel threads and zombies have no memory.
func inExec(stat string) bool {
	const first, vsize, startCode, envStart, envEnd = 3, 23, 26, 50, 51 // field 2 is the name in brackets, which may hold any byte
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) > envEnd-first && f[vsize-first] != "0" && (f[startCode-first] == "0" || f[envEnd-first] != f[envStart-first])
}
