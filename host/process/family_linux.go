package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/retry"
)

// familyMark is the variable whose value all descendants of a program inherit.
const familyMark = "FABRICFORM_FAMILY"

// looks bounds how often a family is looked for of which nothing was found: what looks like the middle of
// exec need not be.
const looks = 100

// endFamily kills whatever carries a mark, until it is gone: between two looks more may have been
// started, and what is in the middle of exec shows no environment. left are those that have not gone
// within so long, as where a driver holds them, or where they could not be killed.
func endFamily(mark string, within time.Duration) (left []int) {
	killed := map[int]*os.File{}
	look := 0
	_ = retry.Until(context.Background(), 20*time.Millisecond, within, func() (bool, error) { // what was killed takes a while to go
		look++
		again := killMarked(familyMark+"="+mark, killed)
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

// killMarked kills what carries a mark, adds it to those that were killed, and says whether to look
// again.
func killMarked(mark string, killed map[int]*os.File) (again bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() || killed[pid] != nil {
			continue
		}
		// The folder holds on to one process; its number may be another's by the time of the signal.
		dir, err := os.Open("/proc/" + e.Name())
		if err != nil {
			continue // gone
		}
		raw := readOf(dir, "environ") // of others' processes it cannot be read
		again = again || raw == "" && inExec(readOf(dir, "stat"))
		if !slices.Contains(strings.Split(raw, "\x00"), mark) {
			_ = dir.Close()
			continue
		}
		again = true
		killed[pid] = dir
		// The folder is as good as a descriptor of pidfd_open (pidfd_send_signal(2)), since Linux 5.1. Before
		// it, and where a container's filter of system calls does not know it, the number must do.
		if err := unix.PidfdSendSignal(int(dir.Fd()), unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}
	return again
}

// readOf reads a file of the process whose folder in /proc is open; "" where it is gone.
func readOf(dir *os.File, name string) string {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), name))
	return string(raw)
}

// gone says of a process that was killed, by its line in /proc/PID/stat, whether nothing of it runs any
// more: a zombie may have threads left (field 20), which a driver holds.
func gone(stat string) bool {
	const first, state, threads = 3, 3, 20
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) <= threads-first || f[state-first] == "X" || f[state-first] == "Z" && (f[threads-first] == "0" || f[threads-first] == "1")
}

// inExec says of a process that showed no environment, by its line in /proc/PID/stat
// (proc_pid_stat(5)), whether it was in the middle of exec: it has its new memory (field 23, vsize) and
// not yet code there (field 26, startcode; fs/binfmt_elf.c sets it after the environment), or has got
// an environment since (from field 50, env_start, to 51, env_end). Kernel threads and zombies have no
// memory.
func inExec(stat string) bool {
	const first, vsize, startCode, envStart, envEnd = 3, 23, 26, 50, 51 // the second is the name in brackets, with any byte in it
	f := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	return len(f) > envEnd-first && f[vsize-first] != "0" && (f[startCode-first] == "0" || f[envEnd-first] != f[envStart-first])
}
