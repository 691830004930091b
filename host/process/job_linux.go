package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ownGroup is the control group for processes that outlive a job.
const ownGroup = "fabricform"

// LeaveJob moves a process out of the control groups of a job step of Slurm, if it is in any: when a step ends, all that is in its groups
// is killed (proctrack/cgroup), and frozen or limited as long as it runs.
func LeaveJob(pid int) error {
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		return err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	for _, hierarchy := range jobHierarchies(string(groups), string(mounts)) {
		group := filepath.Join(hierarchy, ownGroup)
		if err := os.Mkdir(group, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("leave the job's control group: %w", err)
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
			return fmt.Errorf("leave the job's control group: %w", err)
		}
	}
	return nil
}

// ofSlurm reports whether an element of a group's path is Slurm's: slurm or slurm_NODE with v1, and slurmstepd.scope with v2,
// before which Slurm 24.11.5 writes the node's name and "_".
func ofSlurm(element string) bool {
	return strings.HasPrefix(element, "slurm") || strings.HasSuffix(element, "slurmstepd.scope")
}

// jobHierarchies returns where the hierarchies are mounted in which a process is in a group of Slurm: /slurm/uid_0/job_1/step_0 with
// cgroup v1, and …/slurmstepd.scope/job_1/step_0 with v2 (cgroup.conf(5)). groups is its /proc/PID/cgroup, and mounts a mountinfo (proc(5)).
// That of cpuset is left out: it kills nothing, and a new group in it takes no process until it is set up (cpuset(7)).
func jobHierarchies(groups, mounts string) (out []string) {
	for line := range strings.Lines(groups) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] == "cpuset" || !slices.ContainsFunc(strings.Split(f[2], "/"), ofSlurm) {
			continue
		}
		for mount := range strings.Lines(mounts) {
			head, tail, _ := strings.Cut(mount, " - ")
			where, kind := strings.Fields(head), strings.Fields(tail)
			if len(where) < 5 || len(kind) < 3 || where[3] != "/" {
				continue // a part of a hierarchy, such as a container's
			}
			of := kind[0] == "cgroup2" && f[1] == ""
			if kind[0] == "cgroup" && f[1] != "" {
				of = !slices.ContainsFunc(strings.Split(f[1], ","), func(c string) bool { return !slices.Contains(strings.Split(kind[2], ","), c) })
			}
			if of && !slices.Contains(out, where[4]) {
				out = append(out, where[4])
				break
			}
		}
	}
	return out
}
