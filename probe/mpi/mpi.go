// Package mpi knows MPI's launchers. It parses the release of an mpirun, builds the arguments and environment that
// start ranks on hosts, and parses the commands that mpirun gives to a remote shell. It starts nothing: package
// probe does.
package mpi

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// The supported kinds of MPI. Their mpirun can use any program as its remote shell.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
)

// Release is the kind and version of an mpirun.
type Release struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

func (r Release) String() string { return r.Kind + " " + r.Version }

var (
	// Release 4 prints OpenRTE if it is called by another name than mpirun.
	openVersion  = regexp.MustCompile(`(?m)^\S+ \((?:Open MPI|OpenRTE)\) ([0-9][0-9A-Za-z.]{0,20})`)
	hydraVersion = regexp.MustCompile(`(?m)^HYDRA build details:\s*\n\s+Version:\s+([0-9][0-9A-Za-z.]{0,20})`)
)

// ParseRelease parses the output of `mpirun --version`.
func ParseRelease(out []byte) (Release, error) {
	if m := openVersion.FindSubmatch(out); m != nil {
		return Release{OpenMPI, string(m[1])}, nil
	}
	if m := hydraVersion.FindSubmatch(out); m != nil {
		return Release{MPICH, string(m[1])}, nil
	}
	return Release{}, fmt.Errorf("it belongs neither to Open MPI nor to MPICH")
}

// Host is a host that runs ranks of a job.
type Host struct {
	Address netip.Addr `json:"address"` // IPv4; the other hosts reach it there
	Ranks   int        `json:"ranks"`
}

// Launch is one program that mpirun starts on all hosts. Hosts are in the order of their ranks; mpirun runs on the
// first.
type Launch struct {
	Release Release `json:"release"`
	Hosts   []Host  `json:"hosts"`
	// Networks are the networks that the launcher and the ranks use.
	Networks []netip.Prefix `json:"networks"`
}

// Check returns an error if a job cannot be launched.
func (l Launch) Check() error {
	seen := map[netip.Addr]bool{}
	for _, h := range l.Hosts {
		if !h.Address.Is4() || seen[h.Address] || h.Ranks < 1 || h.Ranks > 256 {
			return fmt.Errorf("%d ranks at %s: each host needs its own IPv4 address and 1 to 256 ranks", h.Ranks, h.Address)
		}
		seen[h.Address] = true
	}
	for _, n := range l.Networks {
		if !n.Addr().Is4() || n != n.Masked() {
			return fmt.Errorf("%s is not an IPv4 network", n)
		}
	}
	if len(l.Hosts) < 2 || len(l.Networks) == 0 || l.Release.Kind != OpenMPI && l.Release.Kind != MPICH {
		return fmt.Errorf("%s cannot start ranks on %d hosts over %d networks", l.Release, len(l.Hosts), len(l.Networks))
	}
	return nil
}

// Args returns mpirun's arguments for a program with its arguments.
func (l Launch) Args(program ...string) []string {
	hosts, world := make([]string, len(l.Hosts)), 0
	for i, h := range l.Hosts {
		hosts[i] = h.Address.String() + ":" + strconv.Itoa(h.Ranks)
		world += h.Ranks
	}
	list, n := strings.Join(hosts, ","), strconv.Itoa(world)
	// Release 5 of Open MPI does not recognize this host by its address when it counts slots, but it knows
	// localhost. Daemons stay in the foreground (session attached), so that they end with their parent.
	here := "localhost" + strings.TrimPrefix(list, l.Hosts[0].Address.String())
	args := []string{"-host", here, "-np", n, "--bind-to", "none", "--leave-session-attached"}
	if l.Release.Kind == MPICH {
		// Each host's helper sets the environment of its ranks. The first host's environment must not replace it.
		args = []string{"-genvnone", "-localhost", l.Hosts[0].Address.String(), "-hosts", list, "-n", n, "-bind-to", "none"}
	}
	return append(args, program...)
}

// The ports on which Open MPI's ranks listen. By default they start at 1024, which firewalls block. These are the
// kernel's default ephemeral ports, which MPICH uses anyway.
const (
	firstPort = 32768
	lastPort  = 60999
)

// Env returns mpirun's environment, in addition to that of its ranks. agent is the program that mpirun must run as
// its remote shell; its folder is in PATH.
func (l Launch) Env(agent string) []string {
	if l.Release.Kind == MPICH {
		return []string{"HYDRA_LAUNCHER=rsh", "HYDRA_LAUNCHER_EXEC=" + agent}
	}
	var networks []string
	for _, n := range l.Networks {
		networks = append(networks, n.String())
	}
	over, many := strings.Join(networks, ","), strconv.Itoa(len(l.Hosts))
	var out []string
	// Release 4 reads the first list, in which the launcher is called rsh. Release 5 uses PRRTE, which reads the
	// second list. Daemons stay in the foreground, so every host needs an agent at the same time. Only the first
	// host starts daemons (no tree spawn).
	for _, v := range []string{"plm=rsh", "plm_rsh_agent=" + agent, "plm_rsh_no_tree_spawn=1", "plm_rsh_num_concurrent=" + many,
		"plm_rsh_assume_same_shell=0", "oob_tcp_if_include=" + over} {
		out = append(out, "OMPI_MCA_"+v)
	}
	for _, v := range []string{"plm=ssh", "plm_ssh_agent=" + agent, "plm_ssh_no_tree_spawn=1", "plm_ssh_num_concurrent=" + many,
		"plm_ssh_assume_same_shell=0", "prte_if_include=" + over} {
		out = append(out, "PRTE_MCA_"+v)
	}
	// MPI's own messages are few and small. TCP leaves the RDMA devices and GPUs to NCCL, and ranks that wait without
	// spinning leave the processors to NCCL's proxy threads.
	for _, v := range []string{"mpi_yield_when_idle=1", "pml=ob1", "btl=tcp,self", "coll=^hcoll,ucc", "btl_tcp_if_include=" + over,
		fmt.Sprintf("btl_tcp_port_min_v4=%d", firstPort), fmt.Sprintf("btl_tcp_port_range_v4=%d", lastPort-firstPort)} {
		out = append(out, "OMPI_MCA_"+v)
	}
	return append(out, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
}

// RankEnv returns the variables that one host's ranks need for MPI itself. netdev is the interface over which they meet.
func RankEnv(netdev string) []string {
	return []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=" + netdev, "FI_PROVIDER=tcp", "FI_TCP_IFACE=" + netdev}
}

// notHere matches Open MPI's warning about networks of other hosts that this host does not have. There can be so
// many that they would hide why the ranks ended.
var notHere = regexp.MustCompile(`WARNING: An invalid value was given for [a-z_]*_if_include\.\s+This\s+value will be ignored\.\s+Local host: .*\s+Value: .*\s+Message: +Did not find interface matching this subnet\n`)

// Reason returns in one line why ranks ended, as mpirun or its daemons report it. Hydra prints the reason among the
// ranks' output, in a frame of equals signs.
func Reason(stdout, stderr []byte, most int) string {
	var out []string
	for line := range strings.Lines(clean(stdout)) {
		if text, framed := strings.CutPrefix(line, "=   "); framed && len(out) < 3 {
			out = append(out, text)
		}
	}
	if out == nil {
		for line := range strings.Lines(notHere.ReplaceAllString(clean(stderr), "")) {
			if strings.Trim(line, "-=* \n") != "" {
				out = append(out, line)
			}
		}
	}
	text := strings.Join(strings.Fields(strings.Join(out, " ")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// clean replaces control characters with spaces, except newlines.
func clean(text []byte) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(string(text), "�"))
}
