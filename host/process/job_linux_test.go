package process

import (
	"slices"
	"testing"
)

func TestGroupsOfJobsAreFound(t *testing.T) {
	const v1 = "24 1 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n25 24 0:23 /part /elsewhere rw - cgroup x rw,freezer\n" +
		"26 24 0:23 / /sys/fs/cgroup/freezer rw - cgroup x rw,freezer\n27 24 0:24 / /sys/fs/cgroup/memory rw shared:1 - cgroup x rw,memory\n" +
		"28 24 0:25 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup x rw,cpu,cpuacct\n29 24 0:26 / /sys/fs/cgroup/cpuset rw - cgroup x rw,cpuset\n"
	const v2 = "30 1 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	for _, c := range []struct {
		groups, mounts string
		want           []string
	}{
		{"6:freezer:/slurm/uid_0/job_5/step_0\n4:memory:/user.slice\n3:cpuset:/slurm/uid_0/job_5/step_0\n2:cpu,cpuacct:/slurm_n1/uid_0/job_5/step_0/task_0\n0::/\n", v1,
			[]string{"/sys/fs/cgroup/freezer", "/sys/fs/cgroup/cpu,cpuacct"}},
		{"0::/system.slice/slurmstepd.scope/job_5/step_0/user/task_0\n", v2, []string{"/sys/fs/cgroup"}},
		{"0::/system.slice/node1_slurmstepd.scope/job_2/step_1/user/task_special\n", v2, []string{"/sys/fs/cgroup"}}, // Slurm 24.11.5
		{"0::/system.slice/sshd.service\n", v2, nil}, {"0::/user.slice/not-slurm.scope\n", v2, nil}, {"6:freezer:/slurm/uid_0/job_5\n", v2, nil},
		{"", v1, nil}, {"6:freezer\n:::\n", v1, nil}, {"6:freezer:/slurm\n", "x - \n\n - cgroup x\n", nil},
	} {
		if got := jobHierarchies(c.groups, c.mounts); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.groups, got, c.want)
		}
	}
}
