package process

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Activity returns a text that changes when a descendant of this process starts, ends, uses processor time, reads or
// writes (proc_pid_stat(5), proc_pid_io(5)). It is the same for two moments between which all of them only waited.
func Activity() (string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return "", fmt.Errorf("read the processes: %w", err)
	}
	const first, parent, user, system = 3, 4, 14, 15 // field 2 is the name in brackets, which may hold any byte
	parents, used := map[int]int{}, map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		raw, _ := os.ReadFile("/proc/" + e.Name() + "/stat") // it fails for a process that has ended
		f := strings.Fields(string(raw[strings.LastIndexByte(string(raw), ')')+1:]))
		if len(f) > system-first {
			parents[pid], _ = strconv.Atoi(f[parent-first])
			used[pid] = f[user-first] + "+" + f[system-first]
		}
	}
	var out []string
	for pid := range parents {
		above := parents[pid]
		for above > 1 && above != os.Getpid() {
			above = parents[above]
		}
		if above == os.Getpid() {
			moved, _ := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
			out = append(out, fmt.Sprintf("%d %s %s", pid, used[pid], moved))
		}
	}
	slices.Sort(out)
	return strings.Join(out, "\n"), nil
}
