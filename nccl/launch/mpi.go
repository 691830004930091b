package launch

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl"
)

// beginMPI begins a script for a launcher of MPI that starts its daemons by ssh. The list of hosts, with a line for each of where the
// launcher logs in and the number of ranks, is descriptor 3. beginMPI also returns the number of all ranks.
func (j Job) beginMPI(at func(Host) string, line string, common nccl.Env) (s *script, ranks int) {
	s = new(script)
	s.line("#!/bin/sh")
	where := ""
	if j.User != "" {
		where = "As " + j.User + " on one of these hosts: "
	}
	s.line("# %ssh FILE ./all_reduce_perf -b 8 -e 1G -f 2 -g 1", where)
	s.line("set -eu")
	s.line(`[ $# -gt 0 ] || { echo "no program given: sh FILE PROGRAM …" >&2; exit 2; }`)
	if j.MPIRun != "" {
		prefix := path.Dir(path.Dir(j.MPIRun))
		s.line("export LD_LIBRARY_PATH=%s${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}", nccl.Quote(path.Join(prefix, "lib")+":"+path.Join(prefix, "lib64")))
	}
	j.checkLogins(s, at)
	// The host list is a deleted file behind a descriptor, so nothing remains on disk when the script or mpirun
	// ends, even on a full disk. mpirun replaces the shell, so that a signal to the script reaches it. A pipe would
	// not work, because mpirun opens the list several times. -host would not work either: Open MPI does not accept
	// IPv6 addresses there, and release 5 does not recognize this host by its address.
	s.line("hosts=$(mktemp)")
	s.line(`exec 3<>"$hosts"`)
	s.line(`rm "$hosts"`)
	s.line("cat >&3 <<'EOF'")
	for _, h := range j.Hosts {
		s.line(line, at(h), h.slots())
		ranks += h.slots()
	}
	s.line("EOF")
	for _, v := range common {
		s.line("%s", nccl.Comment(v.Name+": "+v.Reason))
	}
	return s, ranks
}

// checkLogins has the script log in to each other host, all at once, before it starts the launcher. The launcher itself would wait: for
// the answer to a question that ssh asks on the terminal, and Hydra for a daemon that could not be started (MPICH 4.0 to 4.2). timeout(1)
// also ends a login whose shell hangs, which ConnectTimeout of ssh_config(5) does not.
func (j Job) checkLogins(s *script, at func(Host) string) {
	if len(j.Hosts) == 1 {
		return
	}
	cure := "ssh ADDRESS, as the user of the job, must ask for neither a password nor a host key"
	if j.User != "" {
		cure = "to see the cause: fabricform verify -only login"
	}
	s.line("# The launcher could wait without end for a login that fails, so each other host is tried first.")
	s.line("try() {")
	s.line(`  timeout 30 ssh -n -x -o BatchMode=yes -o ConnectTimeout=10 -- "$2" true >/dev/null && return`)
	s.line(`  echo "cannot log in from $(uname -n) to host $1: ssh $2 true" >&2`)
	s.line("  return 1")
	s.line("}")
	s.line("logins= failed=")
	for _, h := range j.Hosts {
		own := nccl.Quote(h.Hostname)
		s.line(`case "$(uname -n)" in %s|%s.*) ;; *) try %s %s & logins="$logins $!" ;; esac`, own, own, nccl.Quote(h.Name), nccl.Quote(at(h)))
	}
	s.line(`for login in $logins; do wait "$login" || failed=1; done`)
	s.line(`[ -z "$failed" ] || { echo %s >&2; exit 1; }`, nccl.Quote("nothing was started; "+cure))
}

// endMPI ends the command with what each host sets for itself, and the program.
func (j Job) endMPI(s *script, rest []nccl.Env) []byte {
	if w := j.wrapper(rest); w != "" {
		s.WriteString(" \\\n  sh -c " + nccl.Quote(w) + " sh")
	}
	s.line(` "$@"`)
	return s.Bytes()
}

// launcher returns the launcher that the files declare, or the one in PATH.
func (j Job) launcher(name string) string {
	if j.MPIRun == "" {
		return name
	}
	return nccl.Quote(j.MPIRun)
}

// The ports on which Open MPI's ranks listen. By default they start at 1024, which firewalls block. These are the
// kernel's default ephemeral ports, which MPICH uses anyway.
const (
	firstPort = 32768
	lastPort  = 60999
)

// mpirun renders a script for Open MPI 4 and 5. MPI only starts the ranks, and its own messages are few and small: TCP over the
// management network, or where NCCL bootstraps, leaves the RDMA devices and GPUs to NCCL, and ranks that wait without spinning leave the processors to NCCL's
// proxy threads.
func mpirun(j Job) []byte {
	common, rest := j.common()
	common, rest = splitSemicolons(common, rest)
	s, ranks := j.beginMPI(Host.At, "%s slots=%d", common)
	if j.User == "root" { // Open MPI 4 reads OMPI's, and 5 PRTE's
		s.line("export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_ALLOW_RUN_AS_ROOT=1 PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	}
	fmt.Fprintf(&s.Buffer, "exec %s ${LD_LIBRARY_PATH:+-x LD_LIBRARY_PATH} -np %d --hostfile /dev/fd/3", j.launcher("mpirun"), ranks)
	options := openMPIOptions(j.launchNetworks())
	if n := strings.Join(j.launchNetworks(), ","); n != "" {
		options = append(options, "--mca oob_tcp_if_include "+n)
	}
	for _, option := range options {
		s.WriteString(" \\\n  " + option)
	}
	for _, v := range common {
		s.WriteString(" \\\n  -x " + nccl.Quote(v.Name+"="+v.Value))
	}
	return j.endMPI(s, rest)
}

// openMPIOptions returns options of mpirun, for ranks that exchange messages in these networks; nil: in any.
func openMPIOptions(networks []string) []string {
	out := []string{"--bind-to none", "--mca pml ob1 --mca btl tcp,self --mca coll ^hcoll,ucc --mca mpi_yield_when_idle 1",
		fmt.Sprintf("--mca btl_tcp_port_min_v4 %d --mca btl_tcp_port_range_v4 %d", firstPort, lastPort-firstPort)}
	if networks != nil {
		out = append(out, "--mca btl_tcp_if_include "+strings.Join(networks, ","))
	}
	return out
}

// splitSemicolons moves values with a semicolon to the settings of each host: for Open MPI, a semicolon ends the value
// of an -x.
func splitSemicolons(common nccl.Env, rest []nccl.Env) (nccl.Env, []nccl.Env) {
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

// HydraAt returns where Hydra logs in to a host.
func (h Host) HydraAt() string {
	if at := h.At(); !strings.Contains(at, ":") {
		return at
	}
	return h.Name
}

// hydra renders a script for MPICH's launcher, which MVAPICH and Intel MPI also have.
// A host of the list is HOST:RANKS, cut at the first colon (HYDU_process_mfile_token in MPICH's
// lib/utils/args.c, 4.0 to 5.0), so a host with an IPv6 address is written by its name. Hydra finds this host by its own IPv4
// addresses (mpl_host.c), and its daemons and ranks connect to each other at the addresses of the list (mpiexec.c, pmip_cb.c):
// -iface is not needed, and could not be right for hosts whose interfaces have different names. The value of -genv is a word of
// its own and may be any text. The variables of the caller, such as LD_LIBRARY_PATH, go to all ranks.
//
// With ch4:ofi, libfabric's provider tcp would choose an interface by itself (fi_tcp(7)). With ch3, each rank uses the address that
// Hydra gives it, and refuses MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE beside it (ifname_and_hostname in netmod/tcp/tcp_init.c).
func hydra(j Job) []byte {
	j.Hosts = slices.Clone(j.Hosts)
	for i, h := range j.Hosts {
		j.Hosts[i].Env = slices.Concat(h.Env, h.libfabric())
	}
	common, rest := j.common()
	s, ranks := j.beginMPI(Host.HydraAt, "%s:%d", common)
	fmt.Fprintf(&s.Buffer, "exec %s -f /dev/fd/3 -n %d -bind-to none", j.launcher("mpiexec.hydra"), ranks)
	for _, v := range common {
		s.WriteString(" \\\n  -genv " + v.Name + " " + nccl.Quote(v.Value))
	}
	return j.endMPI(s, rest)
}

// libfabric returns the setting of libfabric, on which MPICH may run, for the interface of NCCL's sockets.
func (h Host) libfabric() nccl.Env {
	if h.Socket == "" {
		return nil
	}
	return h.unless(nccl.Env{{Name: "FI_TCP_IFACE", Value: h.Socket, Reason: "MPICH over libfabric and TCP starts the ranks on the same interface"}})
}
