package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// slurm renders a script for sbatch. Slurm chooses the nodes: the job may run on some of the hosts, and the first node of the job,
// not of the files, is the one that torch's ranks connect to.
//
// Slurm gives a task one CPU unless the job asks for more, and all CPUs of its nodes to a job with --exclusive (sbatch(1)). How many
// CPUs a rank needs is not known, so the job takes them all, also where GPUs are left because another host has fewer: Slurm's
// --cpus-per-gpu and --cpus-per-task need a number.
//
// It has no --nodelist, because sbatch refuses that together with fewer --nodes ("invalid number of nodes", Slurm 22.05). A node
// that is not a host of the fabric is refused before a rank starts.
func slurm(j Job) []byte {
	j.Hosts = slices.Clone(j.Hosts)
	for i, h := range j.Hosts {
		j.Hosts[i].Env = slices.Concat(h.Env, h.openMPI())
	}
	common, rest := j.common()
	names := j.nodeNames()
	fewest := slices.MinFunc(j.Hosts, func(a, b Host) int { return a.GPUs - b.GPUs })
	most := slices.MaxFunc(j.Hosts, func(a, b Host) int { return a.GPUs - b.GPUs })
	var s script
	s.line("#!/bin/bash")
	s.line("#SBATCH --nodes=%d", len(j.Hosts))
	s.line("#SBATCH --ntasks-per-node=%d", fewest.slots())
	if fewest.GPUs > 0 {
		s.line("#SBATCH --gpus-per-node=%d", fewest.GPUs)
		s.line("# Whole nodes: without this, Slurm would give each rank one CPU for NCCL's threads and its own.")
		s.line("#SBATCH --exclusive")
	}
	if slices.ContainsFunc(j.Hosts, func(h Host) bool { return h.RDMA }) {
		s.line("# RDMA locks memory, and Slurm would take that limit from the host on which sbatch runs.")
		s.line("#SBATCH --propagate=NONE")
	}
	s.line("# sbatch FILE ./all_reduce_perf -b 8 -e 1G -f 2 -g 1")
	s.line("# sbatch --nodes=2 FILE python3 train.py …")
	if fewest.GPUs != most.GPUs {
		s.line("%s", nccl.Comment(fmt.Sprintf("Slurm runs the same number of ranks on each node: %s has %d GPUs, %s has %d.", fewest.Name, fewest.GPUs, most.Name, most.GPUs)))
	}
	s.line("set -eu")
	s.line(`[ $# -gt 0 ] || { echo "no program given: sbatch FILE PROGRAM …" >&2; exit 2; }`)
	s.line(`nodes=$(scontrol show hostnames "$SLURM_JOB_NODELIST")`)
	s.line("MASTER_ADDR=")
	s.line("for node in $nodes; do")
	s.line("  case $node in")
	short := make([]string, len(j.Hosts))
	for i, h := range j.Hosts {
		short[i] = h.short()
		if len(names[i]) > 0 {
			s.line("  %s) address=%s ;;", pattern(names[i]), nccl.Quote(h.ranksAddress()))
		}
	}
	unknown := "is not a host of fabric " + j.Fabric + ": name nodes that are, as in sbatch --nodes=… --nodelist=" + strings.Join(short, ",")
	s.line(`  *) echo "Slurm chose node $node, which" %s >&2; exit 1 ;;`, nccl.Quote(unknown))
	s.line("  esac")
	s.line("  MASTER_ADDR=${MASTER_ADDR:-$address}")
	s.line("done")
	s.line("# A port for each job: two jobs may share the first node.")
	s.line("export MASTER_ADDR MASTER_PORT=$((%d + SLURM_JOB_ID %% 100))", masterPort)
	s.Write(must(nccl.RenderShell(common)))
	s.line("# MPI's ranks find each other by PMIx, which torch does not need. For another plugin of srun --mpi=list: SLURM_MPI_TYPE=pmi2 sbatch FILE …")
	// A plugin is a line of its own, behind "srun: " up to 21.08. From 22.05 on, a last line has those of single versions, and contains the
	// word pmix whether or not there is such a plugin (plugrack_print_mpi_plugins in src/common/plugrack.c, 20.11 to 26.05).
	s.line("plugins=$(srun --mpi=list 2>&1 || true)")
	s.line(`mpi=$(echo "$plugins" | grep -Eo '(^|[[:blank:]])pmix$' || echo "$plugins" | grep -Eo 'pmix_v[0-9]+' | sort -V | tail -n 1)`)
	s.line("mpi=${SLURM_MPI_TYPE:-${mpi##*[[:blank:]]}}")
	s.line("# Exported before srun, because in srun --export=NAME=VALUE a comma ends the value. Since 22.05, srun does not take --cpus-per-task")
	s.line("# from sbatch. By default, srun may bind each rank to one CPU, which all its threads would share.")
	s.line(`exec srun --export=ALL --kill-on-bad-exit=1 ${mpi:+--mpi="$mpi"} --cpu-bind="${SLURM_CPU_BIND:-none}" ${SLURM_CPUS_PER_TASK:+--cpus-per-task="$SLURM_CPUS_PER_TASK"} \`)
	s.line(`  sh -c %s sh "$@"`, nccl.Quote(string(slurmRank(names, rest))))
	return s.Bytes()
}

// slurmRank returns the sh program of each rank: it sets what torch reads, and what differs between the hosts. Hosts with the same
// settings share a branch, because Linux limits an argument to 128 KiB.
func slurmRank(names [][]string, rest []nccl.Env) []byte {
	var s script
	s.line("export RANK=$SLURM_PROCID WORLD_SIZE=$SLURM_NTASKS LOCAL_RANK=$SLURM_LOCALID")
	var settings []string
	alike := map[string][]string{} // settings -> names of the nodes
	for i, own := range rest {
		var exports script
		for _, v := range own {
			exports.line("  export %s=%s", v.Name, nccl.Quote(v.Value))
		}
		if text := exports.String(); text != "" && len(names[i]) > 0 {
			if alike[text] == nil {
				settings = append(settings, text)
			}
			alike[text] = append(alike[text], names[i]...)
		}
	}
	if len(settings) > 0 {
		s.line("case $SLURMD_NODENAME in")
		for _, text := range settings {
			s.line("%s)\n%s  ;;", pattern(alike[text]), text)
		}
		s.line("esac")
	}
	s.WriteString(`exec "$@"`)
	return s.Bytes()
}

// slurmProlog renders a TaskProlog: slurmd reads each line "export NAME=VALUE" of its output literally, up to the end of the line
// (_proc_stdout in src/slurmd/slurmstepd/task.c). It runs on every node of the cluster, so that it says nothing on those that the
// fabric does not have, and nothing of UCX, which other jobs use as well. slurmd's exports replace the variables of a job: those that
// the job sets, which the prolog has in its own environment, are left out.
func slurmProlog(j Job) []byte {
	var s script
	s.line("#!/bin/sh")
	s.line("# TaskProlog=FILE in slurm.conf, or srun --task-prolog=FILE")
	s.line("case $SLURMD_NODENAME in")
	names := j.nodeNames()
	for i, h := range j.Hosts {
		if len(names[i]) == 0 {
			continue
		}
		s.line("%s)", pattern(names[i]))
		for _, v := range slices.Concat(h.Env, h.torch()) {
			s.line("  %s", nccl.Comment(v.Reason))
			s.line(`  [ "${%s+x}" ] || printf '%%s\n' %s`, v.Name, nccl.Quote("export "+v.Name+"="+v.Value))
		}
		s.line("  ;;")
	}
	s.line("esac")
	return s.Bytes()
}

// openMPI returns the setting that keeps Open MPI, where it runs over TCP, off interfaces that do not join the hosts, such as those
// of containers: it tries all of them, and waits. mpirun has an option for that, and srun does not.
func (h Host) openMPI() nccl.Env {
	if h.Socket == "" {
		return nil
	}
	return h.unless(nccl.Env{{Name: "OMPI_MCA_btl_tcp_if_include", Value: h.Socket, Reason: "Open MPI over TCP starts the ranks on the same interface"}})
}

// nodeNames returns the names by which Slurm may know each host (NodeName in slurm.conf, SLURMD_NODENAME in a job): the hostname, the
// hostname without its domain, which is slurmd's default, or the name in the files. A name of several hosts belongs to none.
func (j Job) nodeNames() [][]string {
	out := make([][]string, len(j.Hosts))
	taken := map[string]bool{}
	for _, name := range []func(Host) string{func(h Host) string { return h.Hostname }, Host.short, func(h Host) string { return h.Name }} {
		hosts := map[string]int{}
		for _, h := range j.Hosts {
			hosts[name(h)]++
		}
		for i, h := range j.Hosts {
			if n := name(h); hosts[n] == 1 && !taken[n] {
				out[i] = append(out[i], n)
			}
		}
		for n := range hosts {
			taken[n] = true
		}
	}
	return out
}

// short returns the hostname without its domain.
func (h Host) short() string {
	name, _, _ := strings.Cut(h.Hostname, ".")
	return name
}

// pattern returns a pattern of a shell's case that matches these names alone.
func pattern(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = nccl.Quote(n)
	}
	return strings.Join(quoted, "|")
}
