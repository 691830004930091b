package launch

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// script collects lines.
type script struct{ bytes.Buffer }

func (s *script) line(format string, a ...any) { fmt.Fprintf(&s.Buffer, format+"\n", a...) }

// masterPort is torchrun's default; 29500/tcp must be open on the first host.
const masterPort = 29500

func torchrun(j Job, i int) []byte {
	var s script
	h := j.Hosts[i]
	s.line("#!/bin/sh")
	s.line("# Node %d of %d: sh FILE train.py …", i, len(j.Hosts))
	s.Write(must(nccl.RenderShell(h.Env)))
	if h.Socket != "" {
		s.line("# Gloo uses the same interface; it accepts only whole names.")
		s.line("export GLOO_SOCKET_IFNAME=%s", nccl.Quote(h.Socket))
	}
	each := "gpu" // one rank for each GPU
	if h.GPUs > 0 {
		each = fmt.Sprint(h.GPUs)
	}
	s.line(`exec torchrun --nnodes=%d --node-rank=%d --nproc-per-node=%s --master-addr=%s --master-port=%d "$@"`, len(j.Hosts), i, each, nccl.Quote(j.master()), masterPort)
	return s.Bytes()
}

func docker(j Job, i int) []byte {
	var s script
	h := j.Hosts[i]
	s.line("#!/bin/sh")
	s.line("# sh FILE IMAGE COMMAND …")
	s.line(`# The host's network and devices; unlimited locked memory for RDMA.`)
	options := []string{"--rm", "--gpus=all", "--network=host", "--ipc=host", "--ulimit", "memlock=-1:-1", "--cap-add=IPC_LOCK"}
	if h.RDMA {
		options = append(options, "--device=/dev/infiniband")
	}
	if h.File != "" {
		s.line("# NCCL reads /etc/nccl.conf in the container, not on the host.")
		options = append(options, "-v", nccl.Quote(h.File+":/etc/nccl.conf:ro"))
	} else {
		for _, v := range h.Env {
			options = append(options, "-e", nccl.Quote(v.Name+"="+v.Value))
		}
	}
	s.line("exec docker run %s \"$@\"", strings.Join(options, " "))
	return s.Bytes()
}

// wrapper returns an sh program that sets the variables that differ per host and then executes its
// arguments; "" if no variable differs.
func (j Job) wrapper(rest []nccl.Env) string {
	var s script
	any := false
	s.line(`case "$(uname -n)" in`)
	for i, h := range j.Hosts {
		s.line("%s|%s.*)", nccl.Quote(h.Hostname), nccl.Quote(h.Hostname))
		for _, v := range rest[i] {
			any = true
			s.line("  export %s=%s", v.Name, nccl.Quote(v.Value))
		}
		s.line("  ;;")
	}
	s.line(`*) echo "no NCCL settings for $(uname -n)" >&2; exit 1 ;;`)
	s.line("esac")
	s.WriteString(`exec "$@"`)
	if !any {
		return ""
	}
	return s.String()
}

func mpirun(j Job) []byte {
	common, rest := j.common()
	common, rest = heldBack(common, rest)
	var s script
	ranks := 0
	s.line("#!/bin/sh")
	s.line("# sh FILE ./all_reduce_perf -b 8 -e 1G -f 2 -g 1")
	s.line("set -eu")
	// The host list is a deleted file behind a descriptor, so nothing remains on disk when the script or mpirun
	// ends, even on a full disk. mpirun replaces the shell, so that a signal to the script reaches it. A pipe would
	// not work, because mpirun opens the list several times. -host would not work either: Open MPI does not accept
	// IPv6 addresses there, and release 5 does not recognize this host by its address.
	s.line("hosts=$(mktemp)")
	s.line(`exec 3<>"$hosts"`)
	s.line(`rm "$hosts"`)
	s.line("cat >&3 <<'EOF'")
	for _, h := range j.Hosts {
		s.line("%s slots=%d", h.Address, h.slots())
		ranks += h.slots()
	}
	s.line("EOF")
	for _, v := range common {
		s.line("%s", nccl.Comment(v.Name+": "+v.Reason))
	}
	fmt.Fprintf(&s.Buffer, `exec mpirun -np %d --hostfile /dev/fd/3 --bind-to none --mca pml ob1 --mca btl tcp,self`, ranks)
	if n := j.managementNetwork(); n.IsValid() {
		// MPI only starts the ranks, so it uses the management network.
		fmt.Fprintf(&s.Buffer, " \\\n  --mca btl_tcp_if_include %s --mca oob_tcp_if_include %s", n, n)
	}
	for _, v := range common {
		s.WriteString(" \\\n  -x " + nccl.Quote(v.Name+"="+v.Value))
	}
	if w := j.wrapper(rest); w != "" {
		s.WriteString(" \\\n  sh -c " + nccl.Quote(w) + " sh")
	}
	s.line(` "$@"`)
	return s.Bytes()
}

// heldBack moves values with a semicolon to the settings of each host: for Open MPI, a semicolon ends the value
// of an -x.
func heldBack(common nccl.Env, rest []nccl.Env) (nccl.Env, []nccl.Env) {
	var plain nccl.Env
	for _, v := range common {
		if !strings.Contains(v.Value, ";") {
			plain = append(plain, v)
			continue
		}
		for i := range rest {
			rest[i] = append(rest[i], v)
		}
	}
	return plain, rest
}

func slurm(j Job) []byte {
	common, rest := j.common()
	var s script
	s.line("#!/bin/bash")
	s.line("#SBATCH --nodes=%d", len(j.Hosts))
	s.line("#SBATCH --ntasks-per-node=%d", j.Hosts[0].slots())
	if j.Hosts[0].GPUs > 0 {
		s.line("#SBATCH --gpus-per-node=%d", j.Hosts[0].GPUs)
	}
	s.Write(must(nccl.RenderShell(common)))
	s.line("# Exported before srun, because in srun --export=NAME=VALUE a comma ends the value.")
	s.WriteString("exec srun --export=ALL")
	if w := j.wrapper(rest); w != "" {
		s.WriteString(" sh -c " + nccl.Quote(w) + " sh")
	}
	s.line(` "$@"`)
	return s.Bytes()
}

// slurmProlog renders a TaskProlog: slurmd reads each line "export NAME=VALUE" of its output literally.
func slurmProlog(j Job) []byte {
	var s script
	s.line("#!/bin/sh")
	s.line("# TaskProlog=FILE in slurm.conf, or srun --task-prolog=FILE")
	s.line(`case "$(uname -n)" in`)
	for _, h := range j.Hosts {
		s.line("%s|%s.*)", nccl.Quote(h.Hostname), nccl.Quote(h.Hostname))
		for _, v := range h.Env {
			s.line("  %s", nccl.Comment(v.Reason))
			s.line("  printf '%%s\\n' %s", nccl.Quote("export "+v.Name+"="+v.Value))
		}
		s.line("  ;;")
	}
	s.line("esac")
	return s.Bytes()
}
