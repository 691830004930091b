// Package mpi is the language of MPI's launchers: what mpirun says of its release, how it is told to start ranks on
// hosts, and what it would have a remote shell do there. It is pure: probe starts the programs.
package mpi

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// Kinds of MPI whose mpirun asks a program of our choice to start its daemons.
const (
	OpenMPI = "Open MPI"
	MPICH   = "MPICH"
)

// Release is who made an mpirun.
type Release struct {
	Kind    string `json:"kind"`
	Version string `json:"version"`
}

func (r Release) String() string { return r.Kind + " " + r.Version }

var (
	// Called by another name than mpirun, release 4 says OpenRTE.
	openVersion  = regexp.MustCompile(`(?m)^\S+ \((?:Open MPI|OpenRTE)\) ([0-9][0-9A-Za-z.]{0,20})`)
	hydraVersion = regexp.MustCompile(`(?m)^HYDRA build details:\s*\n\s+Version:\s+([0-9][0-9A-Za-z.]{0,20})`)
)

// ParseRelease reads what `mpirun --version` prints.
func ParseRelease(out []byte) (Release, error) {
	if m := openVersion.FindSubmatch(out); m != nil {
		return Release{OpenMPI, string(m[1])}, nil
	}
	if m := hydraVersion.FindSubmatch(out); m != nil {
		return Release{MPICH, string(m[1])}, nil
	}
	return Release{}, fmt.Errorf("it is neither Open MPI's nor MPICH's")
}

// Host has ranks of a job.
type Host struct {
	Address netip.Addr `json:"address"` // IPv4, by which the others reach it
	Ranks   int        `json:"ranks"`
}

// Launch is one program that mpirun starts on all hosts, which are in the order of their ranks. mpirun itself runs on
// the first.
type Launch struct {
	Release Release `json:"release"`
	Hosts   []Host  `json:"hosts"`
	// Networks are those over which launcher and ranks talk to each other.
	Networks []netip.Prefix `json:"networks"`
}

// Check says why a job cannot be launched; nil: it can.
func (l Launch) Check() error {
	seen := map[netip.Addr]bool{}
	for _, h := range l.Hosts {
		if !h.Address.Is4() || seen[h.Address] || h.Ranks < 1 || h.Ranks > 256 {
			return fmt.Errorf("%d ranks at %s: a host of MPI's has an IPv4 address of its own and 1 to 256 ranks", h.Ranks, h.Address)
		}
		seen[h.Address] = true
	}
	for _, n := range l.Networks {
		if !n.Addr().Is4() || n != n.Masked() {
			return fmt.Errorf("%s is no network of IPv4", n)
		}
	}
	if len(l.Hosts) < 2 || len(l.Networks) == 0 || l.Release.Kind != OpenMPI && l.Release.Kind != MPICH {
		return fmt.Errorf("%s cannot start ranks on %d hosts over %d networks", l.Release, len(l.Hosts), len(l.Networks))
	}
	return nil
}

// Args are mpirun's, for a program with its arguments.
func (l Launch) Args(program ...string) []string {
	hosts, world := make([]string, len(l.Hosts)), 0
	for i, h := range l.Hosts {
		hosts[i] = h.Address.String() + ":" + strconv.Itoa(h.Ranks)
		world += h.Ranks
	}
	list, n := strings.Join(hosts, ","), strconv.Itoa(world)
	// Release 5 of Open MPI does not know this host by its address again when it counts slots. Its
	// daemons stay in the foreground (session attached), so that they end with who started them.
	here := "localhost" + strings.TrimPrefix(list, l.Hosts[0].Address.String())
	args := []string{"-host", here, "-np", n, "--bind-to", "none", "--leave-session-attached"}
	if l.Release.Kind == MPICH {
		// Each host's helper sets its ranks' environment: the first host's is not to go in its place.
		args = []string{"-genvnone", "-localhost", l.Hosts[0].Address.String(), "-hosts", list, "-n", n, "-bind-to", "none"}
	}
	return append(args, program...)
}

// Ports that Open MPI's ranks listen on: it begins at 1024 otherwise, which no firewall lets through. MPICH takes the
// kernel's, of which these are the default.
const (
	firstPort = 32768
	lastPort  = 60999
)

// Env is mpirun's environment, beside what its ranks get. agent is the program that it asks in the place of a remote
// shell, in a folder of PATH.
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
	// Release 4 calls its launcher rsh and reads the first list, release 5 has PRRTE, which reads the second. As
	// daemons stay, as many agents are needed at once as there are hosts. No host starts daemons on others (tree spawn).
	for _, v := range []string{"plm=rsh", "plm_rsh_agent=" + agent, "plm_rsh_no_tree_spawn=1", "plm_rsh_num_concurrent=" + many,
		"plm_rsh_assume_same_shell=0", "oob_tcp_if_include=" + over} {
		out = append(out, "OMPI_MCA_"+v)
	}
	for _, v := range []string{"plm=ssh", "plm_ssh_agent=" + agent, "plm_ssh_no_tree_spawn=1", "plm_ssh_num_concurrent=" + many,
		"plm_ssh_assume_same_shell=0", "prte_if_include=" + over} {
		out = append(out, "PRTE_MCA_"+v)
	}
	// MPI's own messages are few and small. Over TCP they leave RDMA devices and GPUs to NCCL, and processors to its
	// proxies where ranks wait without spinning.
	for _, v := range []string{"mpi_yield_when_idle=1", "pml=ob1", "btl=tcp,self", "coll=^hcoll,ucc", "btl_tcp_if_include=" + over,
		fmt.Sprintf("btl_tcp_port_min_v4=%d", firstPort), fmt.Sprintf("btl_tcp_port_range_v4=%d", lastPort-firstPort)} {
		out = append(out, "OMPI_MCA_"+v)
	}
	return append(out, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1")
}

// RankEnv is the environment that one host's ranks need for MPI itself; netdev is the interface that they meet over.
func RankEnv(netdev string) []string {
	return []string{"UCX_TLS=tcp,self", "UCX_NET_DEVICES=" + netdev, "FI_PROVIDER=tcp", "FI_TCP_IFACE=" + netdev}
}

// notHere is what Open MPI says on each host of each network that the host is not in, and that others of the job are:
// it would leave no room for why ranks ended.
var notHere = regexp.MustCompile(`WARNING: An invalid value was given for [a-z_]*_if_include\.\s+This\s+value will be ignored\.\s+Local host: .*\s+Value: .*\s+Message: +Did not find interface matching this subnet\n`)

// Reason is why ranks ended, as mpirun and its daemons say it, in one line: Hydra prints it among the ranks' output, in a
// frame of equals signs.
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

// clean leaves no control characters but ends of lines.
func clean(text []byte) string {
	return strings.Map(func(c rune) rune {
		if c != '\n' && (c < ' ' || c >= 0x7f && c < 0xa0) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(string(text), "�"))
}
