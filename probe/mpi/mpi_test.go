package mpi

import (
	"strings"
	"testing"
)

func TestReleasesAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n": "Open MPI 4.1.4",
		"mpirun.openmpi (OpenRTE) 4.1.4\n": "Open MPI 4.1.4",
		"mpirun (Open MPI) 5.0.7\n":        "Open MPI 5.0.7",
		"HYDRA build details:\n    Version:                                 4.0.2\n    Release Date:      Thu Apr  7 2022\n": "MPICH 4.0.2",
		"Intel(R) MPI Library for Linux* OS, Version 2021.11 Build 20231005\n":                                               "",
		"": "",
	} {
		r, err := ParseRelease([]byte(text))
		if want == "" && err == nil || want != "" && r.String() != want {
			t.Errorf("%q: %v %v", text, r, err)
		}
	}
}

func TestReleasesOfSlurmAreRead(t *testing.T) {
	for text, want := range map[string]string{"slurm-wlm 22.05.8\n": "Slurm 22.05.8", "slurm 24.11.0-0rc1\n": "Slurm 24.11.0-0rc1", "slurm\n": "", "srun (x) 1\n": ""} {
		r, err := ParseSlurm([]byte(text))
		if want == "" && err == nil || want != "" && r.String() != want {
			t.Errorf("%q: %v %v", text, r, err)
		}
	}
}

func TestReasonsAreOneLine(t *testing.T) {
	var told strings.Builder // by Open MPI 4.1.4, where two hosts are in different networks
	for _, host := range []string{"a", "b"} {
		for _, what := range []string{"oob", "btl"} {
			const line = "--------------------------------------------------------------------------\n"
			told.WriteString(line + "WARNING: An invalid value was given for " + what + "_tcp_if_include.  This\nvalue will be ignored.\n\n  Local host: " + host + "\n  Value:      10.78.0.0/24\n  Message:    Did not find interface matching this subnet\n" + line)
		}
	}
	told.WriteString("mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 4 (Illegal instruction).\n")
	if got := Reason(nil, []byte(told.String()), 400); got != "mpirun noticed that process rank 1 with PID 0 on node vm exited on signal 4 (Illegal instruction)." {
		t.Error(got)
	}
	if got := Reason([]byte("# table\n"), []byte("-----\nmpirun noticed that process rank 1 with PID 0 on node\n  b exited on signal 9\x1b[0m (Killed).\n-----\n"), 60); got != "mpirun noticed that process rank 1 with PID 0 on node b exit…" {
		t.Error(got)
	}
	// By Open MPI 5.0.7: what the other ranks print comes first.
	const effects = "[b:00000] *** An error occurred in Socket closed\n[b:00000] *** reported by process [1139867649,2]\n[b:00000] *** on a NULL communicator\n" +
		"[b:00000] *** Unknown error\n[b:00000] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,\n[b:00000] ***    and MPI will try to terminate your MPI job as well)\n"
	const cause = "prterun noticed that process rank 3 with PID 690 on node b exited on signal 9 (Killed)."
	if got := Reason(nil, []byte(effects+"-----\n"+cause+"\n-----\n"), 600); got != cause {
		t.Error(got)
	}
	if got := Reason(nil, []byte(effects), 600); !strings.HasPrefix(got, "[b:00000] *** An error occurred in Socket closed ") {
		t.Error(got)
	}
	hydra := "# table\n\n=====\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 3 RUNNING AT b\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n=====\n"
	if got := Reason([]byte(hydra), []byte("[proxy:0:0@a] assert (!closed) failed\n"), 600); got != "BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES PID 3 RUNNING AT b EXIT CODE: 9" {
		t.Error(got)
	}
}
