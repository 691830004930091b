package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// familyMark is the variable whose value all descendants of a program inherit.
const familyMark = "FABRICFORM_FAMILY"

// endFamily kills whatever carries a mark, until nothing does: between two looks more may have been
// started, and what is in the middle of exec shows no environment.
func endFamily(mark string) {
	for range 100 {
		if !killMarked(familyMark + "=" + mark) {
			return
		}
		time.Sleep(20 * time.Millisecond) // what was killed takes a while to go
	}
}

// killMarked kills what carries a mark, and says whether to look again.
func killMarked(mark string) (again bool) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return false
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// The descriptor holds on to one process; its number may be another's by the time of the signal.
		fd, err := unix.PidfdOpen(pid, 0)
		if err != nil && !errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			continue
		}
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // of others' processes it cannot be read
		if err == nil && len(raw) == 0 {
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // it may be gone
			again = again || inExec(string(stat))
		}
		if slices.ContainsFunc(bytes.Split(raw, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			again = true
			if fd >= 0 {
				_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) // gone already is well, too
			} else {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	return again
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
