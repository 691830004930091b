package launch

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// torch reads its own rank and the address of rank 0 from the environment.
func TestSlurmTellsTorchItsRankAndTheFirstNodeOfTheJob(t *testing.T) {
	j := hostile()
	for i, h := range j.Hosts {
		_, env := run(t, rendered(t, "slurm", j), h.Hostname, "tell")
		for name, want := range map[string]string{
			"MASTER_ADDR": h.Address, "MASTER_PORT": "29534", "RANK": "5", "WORLD_SIZE": "6", "LOCAL_RANK": "1", "OMPI_MCA_btl_tcp_if_include": h.Socket,
		} {
			if env[name] != want {
				t.Errorf("on %s, %s is %q, want %s", h.Name, name, env[name], want)
			}
		}
		same(t, "slurm", j.Hosts[i].torch(), env)
		if !strings.HasPrefix(env["SRUN"], "--export=ALL --kill-on-bad-exit=1 --mpi=pmix --cpu-bind=none --cpus-per-task=7 sh -c ") {
			t.Errorf("srun gets %s", env["SRUN"])
		}
	}
}

func TestSlurmRefusesNodesThatTheFabricDoesNotHave(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, rendered(t, "slurm", hostile()), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		nodes, want string
		args        []string
	}{
		{"a,x", "Slurm chose node x, which is not a host of fabric f: name nodes that are, as in sbatch --nodes=… --nodelist=a,b\n", []string{"tell"}},
		{"a,b", "no program given: sbatch FILE PROGRAM …\n", nil},
	} {
		cmd := exec.Command("bash", append([]string{file}, c.args...)...)
		cmd.Env = append(fake(t, "a"), "SLURM_JOB_NODELIST="+c.nodes)
		var errs strings.Builder
		cmd.Stderr = &errs
		if out, err := cmd.Output(); err == nil || len(out) > 0 || errs.String() != c.want {
			t.Errorf("nodes %s: %v, %q, %q", c.nodes, err, out, errs.String())
		}
	}
}

// A cluster's own options of srun count, and torch's ranks start where Slurm has no plugin for PMIx. The lists are those that Slurm
// 22.05 and later, and up to 21.08, print.
func TestSlurmStartsRanksWithThePluginsOfTheCluster(t *testing.T) {
	for set, want := range map[string]string{
		`PLUGINS=$'MPI plugin types are...\n\tnone\n\tpmi2\n\tpmix\nspecific pmix plugin versions available: pmix_v4'`:  "--mpi=pmix --cpu-bind=none ",
		`PLUGINS=$'MPI plugin types are...\n\tnone\n\tpmi2\nspecific pmix plugin versions available: pmix_v4'`:          "--mpi=pmix_v4 --cpu-bind=none ",
		`PLUGINS=$'MPI plugin types are...\n\tnone\nspecific pmix plugin versions available: pmix_v3,pmix_v10,pmix_v4'`: "--mpi=pmix_v10 --cpu-bind=none ",
		`PLUGINS=$'MPI plugin types are...\n\tnone\n\tpmi2\n\tcray_shasta'`:                                             "--cpu-bind=none ",
		`PLUGINS=$'srun: MPI types are...\nsrun: none\nsrun: pmix\nsrun: pmix_v3'`:                                      "--mpi=pmix --cpu-bind=none ",
		`PLUGINS=$'srun: MPI types are...\nsrun: pmix_v3\nsrun: none'`:                                                  "--mpi=pmix_v3 --cpu-bind=none ",
		`SLURM_MPI_TYPE=pmi2`:                       "--mpi=pmi2 --cpu-bind=none ",
		`PLUGINS= SLURM_CPU_BIND=quiet,mask_cpu:0x`: "--cpu-bind=quiet,mask_cpu:0x ",
	} {
		_, env := run(t, append([]byte("export "+set+"\n"), rendered(t, "slurm", hostile())...), "a", "tell")
		if !strings.HasPrefix(env["SRUN"], "--export=ALL --kill-on-bad-exit=1 "+want+"--cpus-per-task=7 sh ") {
			t.Errorf("with %s, srun gets %s", set, env["SRUN"])
		}
	}
}

// slurmd applies the lines of a TaskProlog to the task's environment, over what the job sets (task.c).
func TestTaskPrologsLeaveTheVariablesOfAJob(t *testing.T) {
	out, _ := run(t, append([]byte("export NCCL_IB_HCA= GLOO_SOCKET_IFNAME=eth7\n"), rendered(t, "slurm-prolog", hostile())...), "a")
	if strings.Contains(out[0], "export NCCL_IB_HCA") || strings.Contains(out[0], "export GLOO") || !strings.Contains(out[0], "export NCCL_SOCKET_IFNAME==eth0\n") {
		t.Errorf("%q", out)
	}
}

// Slurm runs as many tasks on each node, so that each host must have their GPUs. Their job takes all CPUs, also where some GPUs are left.
func TestSlurmAsksForGPUsThatEachHostHas(t *testing.T) {
	for gpus, want := range map[[2]int]string{
		{8, 8}: "--ntasks-per-node=8 --gpus-per-node=8 --exclusive", {8, 4}: "--ntasks-per-node=4 --gpus-per-node=4 --exclusive", {0, 8}: "--ntasks-per-node=1", {0, 0}: "--ntasks-per-node=1",
	} {
		j := hostile()
		j.Hosts[0].GPUs, j.Hosts[1].GPUs = gpus[0], gpus[1]
		var got []string
		command := false
		for line := range strings.Lines(string(rendered(t, "slurm", j))) {
			option, found := strings.CutPrefix(line, "#SBATCH ")
			if found && command {
				t.Errorf("sbatch reads no options below the first command: %s", line)
			}
			command = command || !strings.HasPrefix(line, "#")
			if strings.Contains(option, "-per-node") || strings.Contains(option, "exclusive") {
				got = append(got, strings.TrimSpace(option))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%v: %q, want %s", gpus, got, want)
		}
	}
}

func TestSlurmsNamesOfNodes(t *testing.T) {
	for _, c := range []struct {
		hosts []Host
		want  string
	}{
		{[]Host{{Name: "a", Hostname: "a"}, {Name: "b", Hostname: "gpu2.example.org"}}, "a; gpu2.example.org gpu2 b"},
		{[]Host{{Name: "a", Hostname: "n.east"}, {Name: "b", Hostname: "n.west"}}, "n.east a; n.west b"},
		{[]Host{{Name: "a", Hostname: "localhost"}, {Name: "b", Hostname: "localhost"}}, "a; b"},
		{[]Host{{Name: "a", Hostname: "b"}, {Name: "b", Hostname: "c"}}, "b a; c"},
	} {
		var got []string
		for _, names := range (Job{Hosts: c.hosts}).nodeNames() {
			got = append(got, strings.Join(names, " "))
		}
		if !slices.Equal(got, strings.Split(c.want, "; ")) {
			t.Errorf("%q, want %s", got, c.want)
		}
	}
}
