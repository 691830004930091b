package host

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// familyMark is the variable whose value all descendants of a program inherit.
const familyMark = "FABRICFORM_FAMILY"

// endFamily kills whatever carries a mark, until nothing does: between two looks more may have been started.
func endFamily(mark string) {
	for range 100 {
		if !killMarked(familyMark + "=" + mark) {
			return
		}
		time.Sleep(20 * time.Millisecond) // what was killed takes a while to go
	}
}

func killMarked(mark string) (found bool) {
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
		raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)) // of others' processes it cannot be read
		if slices.ContainsFunc(bytes.Split(raw, []byte{0}), func(v []byte) bool { return string(v) == mark }) {
			found = true
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
	return found
}
