package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// value returns the value of an option, as in -n 5, --n=5 or, for ip, dev eth0.
func (c command) value(options ...string) (string, bool) {
	for i, w := range c.words {
		name, v, joined := strings.Cut(w.text, "=")
		if !slices.Contains(options, name) {
			continue
		}
		if joined {
			return v, true
		}
		if i+1 < len(c.words) {
			return c.words[i+1].text, true
		}
	}
	return "", false
}

func (c command) has(option string) bool { return slices.Contains(c.texts(), option) }

// isNCCLTest reports whether a program is one of nccl-tests. mlnx_perf is none: it shows an interface's counters.
func isNCCLTest(name string) bool {
	return strings.HasSuffix(name, "_perf") && name != "mlnx_perf"
}

// ncclTests checks options of nccl-tests (src/common.cu: -i is stepbytes, -n the iterations).
func (s *script) ncclTests(c command) {
	line := c.line()
	if _, counted := c.value("-n", "--iters"); counted {
		// -i is meant
	} else if i, ok := c.value("-i", "--stepbytes"); ok {
		costs := "Each step adds it to the size."
		if f, factor := c.value("-f", "--stepfactor"); factor && f != "1" {
			costs = "With -f it has no effect, and 20 iterations run."
		}
		s.say(line, env.Warning, "Step instead of iterations", fmt.Sprintf("-i %s is the step in bytes.", i), costs, fmt.Sprintf("Write -n %s for iterations.", i))
	}
	if v, ok := c.value("-c", "--check"); ok && v == "0" {
		s.say(line, env.Warning, "Results are not checked", "-c 0 disables the check of values.", "Corrupt data is not detected.", "Remove it.")
	}
	if t, ok := c.value("-t", "--nthreads"); ok && t != "1" {
		s.say(line, env.Note, "Threads instead of ranks", fmt.Sprintf("-t %s runs that many GPUs as threads of one process.", t), "Jobs run one process per GPU, which takes another path through NCCL.", "Start one rank per GPU, with -t 1 -g 1.")
	}
}

// perftest is one command line of ib_write_bw or another program of perftest.
type perftest struct {
	line    int
	program string
	index   string // -x; "": none
	class   bool   // has a traffic class
	endless bool
}

func readPerftest(c command) perftest {
	p := perftest{line: c.line(), program: c.words[0].text, endless: c.has("--run_infinitely")}
	p.index, _ = c.value("-x", "--gid-index")
	_, p.class = c.value("-T", "--tos", "--tclass")
	return p
}

// perftestPairs checks command lines of perftest. Client and server must agree on symmetric options.
func perftestPairs(r *reading, all []perftest) {
	for i, p := range all {
		if p.index == "" {
			r.say(p.line, env.Note, "No GID index", p.program+" without -x chooses a GID by its own rules.", "It may test another GID than NCCL uses.", "Add -x with the index of the intended address; `fabricform show` lists the indexes.")
		} else if !r.plugged { // EFA has one GID, and perftest asks for its index
			r.say(p.line, env.Warning, "GID index is pinned", fmt.Sprintf("-x %s may be right only on this host and today.", p.index), "Indexes differ between ports and hosts, and change when addresses change or a port flaps.", "Look up the index by address, as `fabricform verify` does.")
		}
		for _, q := range all[:i] {
			if p.program == q.program && p.endless != q.endless {
				r.say(p.line, env.Error, "Options of client and server differ", fmt.Sprintf("Only one of the two ends has --run_infinitely (lines %d and %d).", q.line, p.line), "perftest needs it on both ends; otherwise the run fails or hangs.", "Set it on both ends or on neither.")
				break
			}
		}
		if i > maxFindings {
			return
		}
	}
}

// networks collects the addresses, routes and rules that a file sets by hand.
type networks struct {
	on     map[netip.Prefix][]string // subnet -> netdevs of one host
	tables map[string]int            // table of a route -> line
	ruled  map[string]bool           // tables that a rule refers to
	latest int                       // line of the latest address
}

// maxNICs limits the NICs of one host in one subnet.
const maxNICs = 16

const untilReboot = "A reboot removes it; routes are also removed when the link goes down."

// ip reads ip(8). It reports whether the command adds something.
// It says whether ip adds something. hosts are lines that name a host.
func (n *networks) ip(r *reading, c command, hosts []int) bool {
	if n.on == nil {
		n.on, n.tables, n.ruled = map[netip.Prefix][]string{}, map[string]int{}, map[string]bool{}
	}
	w := c.texts()
	if len(w) < 3 || !slices.Contains(w, "add") && !slices.Contains(w, "replace") {
		return false
	}
	switch {
	case strings.HasPrefix("address", w[1]):
		n.address(r, c, hosts)
	case w[1] == "ro" || w[1] == "route" || w[1] == "r":
		n.route(r, c)
	case w[1] == "rule" || w[1] == "ru":
		if t, ok := c.value("lookup", "table"); ok {
			n.ruled[t] = true
		}
	}
	return true
}

func (n *networks) address(r *reading, c command, hosts []int) {
	if i, _ := slices.BinarySearch(hosts, n.latest); i < len(hosts) && hosts[i] < c.line() {
		clear(n.on) // another host's commands begin
	}
	n.latest = c.line()
	r.say(c.line(), env.Warning, "Until the next reboot", strings.Join(c.texts()[:3], " ")+" changes only the running kernel.", untilReboot, "Declare the address in a fabric file.")
	dev, _ := c.value("dev")
	for _, w := range c.texts() {
		p, err := netip.ParsePrefix(w)
		if err != nil {
			continue
		}
		here := n.on[p.Masked()]
		if slices.Contains(here, dev) {
			here = nil // the same commands, for another host
		}
		if len(here) > 0 && dev != "" {
			r.say(c.line(), env.Error, "Two NICs in one subnet", fmt.Sprintf("%s and %s both have addresses in %s.", here[0], dev, p.Masked()), "The kernel sends all traffic through the first: the second cable carries nothing, and a test of it measures the first.", "Give each cable its own subnet, such as a /30.")
		}
		if len(here) < maxNICs {
			n.on[p.Masked()] = append(here, dev)
		}
	}
}

func (n *networks) route(r *reading, c command) {
	w := c.texts()
	i := slices.IndexFunc(w, func(s string) bool { return s == "add" || s == "replace" })
	if i+1 >= len(w) {
		return
	}
	r.say(c.line(), env.Warning, "Until the next reboot", strings.Join(w[:3], " ")+" changes only the running kernel.", untilReboot, "Declare a policy_route in a fabric file.")
	if p, err := netip.ParsePrefix(w[i+1]); err == nil && p != p.Masked() {
		r.say(c.line(), env.Error, "Host bits set in a network", fmt.Sprintf("%s is an address, not a network.", p), "The kernel rejects it: Invalid prefix for given prefix length.", fmt.Sprintf("Write %s.", p.Masked()))
	}
	via, _ := c.value("via")
	src, _ := c.value("src")
	gateway, err1 := netip.ParseAddr(via)
	from, err2 := netip.ParseAddr(src)
	if err1 == nil && err2 == nil && gateway.Is4() && from.Is4() {
		if near, err := from.Prefix(16); err == nil && !near.Contains(gateway) {
			r.say(c.line(), env.Warning, "Gateway far from the source", fmt.Sprintf("via %s is probably in no subnet of the NIC with %s.", via, src), "The kernel rejects a gateway that is not on the link: Nexthop has invalid gateway.", "Use a gateway in the NIC's own subnet.")
		}
		if !from.IsPrivate() && from.IsGlobalUnicast() {
			r.say(c.line(), env.Warning, "Public address on a fabric link", src+" is public address space.", "This host can no longer reach its real owner, and packets may leak to the Internet.", "Use a private network, such as 10.0.0.0/8.")
		}
	}
	if t, ok := c.value("table"); ok && n.tables[t] == 0 {
		n.tables[t] = c.line()
	}
}

func (n *networks) finish(r *reading, shown map[string]int) {
	for _, table := range slices.Sorted(maps.Keys(n.tables)) {
		switch {
		case n.ruled[table] || table == "main" || table == "254":
		case shown[table] > 0:
			r.say(n.tables[table], env.Error, "Rule that no command adds", fmt.Sprintf("Line %d shows a rule for table %s, but no ip rule add makes it.", shown[table], table), "On another host, and after a reboot, the route is never used.", "Add the rule together with the route, or declare a policy_route, which adds both.")
		default:
			r.say(n.tables[table], env.Error, "Table without a rule", fmt.Sprintf("No ip rule refers to table %s.", table), "The route is never used.", "Add a rule for the source address, or declare a policy_route, which adds both.")
		}
	}
}

// other adds findings about other well-known programs. It reports whether there is a rule for the command.
func (s *script) other(name string, c command) bool {
	text := strings.Join(c.texts(), " ")
	switch {
	case name == "mlnxofedinstall" && !c.has("--without-fw-update"):
		s.say(c.line(), env.Warning, "Changes firmware", "mlnxofedinstall updates the cards' firmware and removes the distribution's RDMA packages.", "New firmware takes effect at the next reboot, and tools that expect the old version may fail.", "Add --without-fw-update, or declare ofed with firmware = \"update\".")
	case name == "mlxconfig" && strings.Contains(text, "LINK_TYPE") || name == "grep" && strings.HasPrefix(text, "grep LINK_TYPE"):
		s.say(c.line(), env.Note, "Ethernet-only cards have no LINK_TYPE", "ConnectX-4 Lx, -6 Lx and -6 Dx have no InfiniBand mode, so there is nothing to change.", "", "`fabricform show` names the model of a card.")
	case name == "ibv_devinfo" || name == "ibstat":
		s.say(c.line(), env.Note, "transport and LID do not identify RoCE", name+" prints \"transport: InfiniBand\" or \"Base lid: 0\" for every RoCE port.", "", "Check link_layer: Ethernet means RoCE, which needs no subnet manager.")
	case name == "rpm" && strings.Contains(text, "rdma-core"):
		s.say(c.line(), env.Note, "rdma-core does not identify the driver", "MLNX_OFED contains its own rdma-core.", "Hosts with equal rdma-core can have different drivers.", "Also compare ofed_info -s and the version of the driver.")
	case name == "iperf3" && c.has("-c") && !c.has("-B"):
		s.say(c.line(), env.Warning, "Not bound to a NIC", "iperf3 -c follows the routing table.", "With several NICs it may measure the wrong cable. A 25G link carries 23.5 Gb/s of TCP at MTU 1500, and 24.7 at 9000.", "Add -B with the NIC's own address; `fabricform verify` proves each link by its counters.")
	case name == "modprobe" && (c.has("rdma_rxe") || c.has("siw")) || name == "rdma" && c.has("add"):
		s.say(c.line(), env.Warning, "Until the next reboot", shorten(text)+" changes only the running kernel.", "A reboot removes it.", "Declare rxe in a fabric file.")
	case name == "rsync" && len(c.words) > 1 && strings.HasPrefix(c.words[1].text, "-") && strings.Contains(c.words[1].text, "z"):
		s.say(c.line(), env.Note, "Limited by compression and ssh", "rsync -z over ssh is limited by the processor.", "Its speed does not show the speed of the link.", "Measure with iperf3 -B or `fabricform verify`.")
	default:
		return false
	}
	return true
}
