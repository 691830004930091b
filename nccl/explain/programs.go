package explain

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// value is what follows one of the words: an option's value, as -n 5 or --n=5, or ip's dev eth0.
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

// ncclTests reads options of nccl-tests (src/common.cu: -i is stepbytes, -n the iterations).
func (s *script) ncclTests(c command) {
	line := c.line()
	if i, ok := c.value("-i", "--stepbytes"); ok {
		costs := "It is added to the size at each step."
		if f, factor := c.value("-f", "--stepfactor"); factor && f != "1" {
			costs = "Beside -f it does nothing, and 20 iterations are run."
		}
		s.say(line, env.Warning, "Step where iterations were meant", fmt.Sprintf("-i %s is the step in bytes.", i), costs, fmt.Sprintf("Write -n %s for iterations.", i))
	}
	if v, ok := c.value("-c", "--check"); ok && v == "0" {
		s.say(line, env.Warning, "Results are not checked", "-c 0 switches the check of values off.", "Corrupt data passes for fast data.", "Leave it out.")
	}
	if t, ok := c.value("-t", "--nthreads"); ok && t != "1" {
		s.say(line, env.Note, "Threads instead of ranks", fmt.Sprintf("-t %s runs that many GPUs as threads of one process.", t), "Jobs run one process a GPU; this is another path through NCCL.", "Start one rank a GPU, with -t 1 -g 1.")
	}
}

// perftest is one line of ib_write_bw and its kin.
type perftest struct {
	line    int
	program string
	index   string // -x; "": none
	endless bool
}

func readPerftest(c command) perftest {
	p := perftest{line: c.line(), program: c.words[0].text, endless: c.has("--run_infinitely")}
	p.index, _ = c.value("-x", "--gid-index")
	return p
}

// perftestPairs judges lines of perftest; client and server must agree on symmetric options.
func perftestPairs(r *reading, all []perftest) {
	for i, p := range all {
		if p.index == "" {
			r.say(p.line, env.Note, "GID is left to the program", p.program+" without -x chooses a GID by its own rules.", "It may test another one than NCCL uses.", "Add -x with the index of the address that is meant; `fabricform show` lists them.")
		} else {
			r.say(p.line, env.Warning, "GID index is pinned", fmt.Sprintf("-x %s is right on this host, today.", p.index), "Indexes differ between ports and hosts, and move when addresses change or a port flaps.", "Look the index up by its address: `fabricform verify` does.")
		}
		for _, q := range all[:i] {
			if p.program == q.program && p.endless != q.endless {
				r.say(p.line, env.Error, "Ends that do not agree", fmt.Sprintf("--run_infinitely stands on one of the two ends (lines %d and %d).", q.line, p.line), "perftest's ends must have it alike; the run ends with an error or hangs.", "Give it to both, or to none.")
				break
			}
		}
		if i > maxFindings {
			return
		}
	}
}

// networks are addresses, routes and rules that a file sets by hand.
type networks struct {
	on     map[netip.Prefix]string // subnet -> netdev
	tables map[string]int          // routes' tables -> line
	ruled  map[string]bool         // tables that a rule names
}

const untilReboot = "It is gone after a reboot, and routes also after the link was down."

// ip reads ip(8).
func (n *networks) ip(r *reading, c command) {
	if n.on == nil {
		n.on, n.tables, n.ruled = map[netip.Prefix]string{}, map[string]int{}, map[string]bool{}
	}
	w := c.texts()
	adds := slices.Contains(w, "add") || slices.Contains(w, "replace")
	switch {
	case len(w) < 3 || !adds:
	case strings.HasPrefix("address", w[1]):
		n.address(r, c)
	case w[1] == "ro" || w[1] == "route" || w[1] == "r":
		n.route(r, c)
	case w[1] == "rule" || w[1] == "ru":
		if t, ok := c.value("lookup", "table"); ok {
			n.ruled[t] = true
		}
	}
}

func (n *networks) address(r *reading, c command) {
	r.say(c.line(), env.Warning, "Until the next reboot", strings.Join(c.texts()[:3], " ")+" sets the running kernel alone.", untilReboot, "Declare the address in a fabric file.")
	dev, _ := c.value("dev")
	for _, w := range c.texts() {
		p, err := netip.ParsePrefix(w)
		if err != nil {
			continue
		}
		if other := n.on[p.Masked()]; other != "" && dev != "" && other != dev {
			r.say(c.line(), env.Error, "Two NICs in one subnet", fmt.Sprintf("%s and %s both have addresses in %s.", other, dev, p.Masked()), "The kernel sends everything through the first one: a second cable carries nothing, and a test of it tests the first.", "Give each cable a subnet of its own, such as a /30.")
		}
		n.on[p.Masked()] = dev
	}
}

func (n *networks) route(r *reading, c command) {
	w := c.texts()
	i := slices.IndexFunc(w, func(s string) bool { return s == "add" || s == "replace" })
	if i+1 >= len(w) {
		return
	}
	r.say(c.line(), env.Warning, "Until the next reboot", strings.Join(w[:3], " ")+" sets the running kernel alone.", untilReboot, "Declare a policy_route in a fabric file.")
	if p, err := netip.ParsePrefix(w[i+1]); err == nil && p != p.Masked() {
		r.say(c.line(), env.Error, "Host bits set in a network", fmt.Sprintf("%s is an address, not a network.", p), "The kernel refuses it: Invalid prefix for given prefix length.", fmt.Sprintf("Write %s.", p.Masked()))
	}
	via, _ := c.value("via")
	src, _ := c.value("src")
	gateway, err1 := netip.ParseAddr(via)
	from, err2 := netip.ParseAddr(src)
	if err1 == nil && err2 == nil && gateway.Is4() && from.Is4() {
		if near, err := from.Prefix(16); err == nil && !near.Contains(gateway) {
			r.say(c.line(), env.Warning, "Gateway far from the source", fmt.Sprintf("via %s is in no network that a NIC with %s is likely to have.", via, src), "The kernel refuses a gateway that is not on the link: Nexthop has invalid gateway.", "Name a gateway on the NIC's own subnet.")
		}
		if !from.IsPrivate() && from.IsGlobalUnicast() {
			r.say(c.line(), env.Warning, "Public address on a fabric link", src+" is public address space.", "Its real owner cannot be reached from this host, and a leak shows.", "Use a private network, such as 10.0.0.0/8.")
		}
	}
	if t, ok := c.value("table"); ok && n.tables[t] == 0 {
		n.tables[t] = c.line()
	}
}

func (n *networks) finish(r *reading) {
	for _, table := range slices.Sorted(maps.Keys(n.tables)) {
		if !n.ruled[table] && table != "main" && table != "254" {
			r.say(n.tables[table], env.Error, "Table without a rule", fmt.Sprintf("No ip rule add sends anything to table %s.", table), "The route is never used.", "Add a rule for the source address; policy_route makes both.")
		}
	}
}

// other reads programs of which one thing is to know.
func (s *script) other(name string, c command) {
	text := strings.Join(c.texts(), " ")
	switch {
	case name == "mlnxofedinstall" && !c.has("--without-fw-update"):
		s.say(c.line(), env.Warning, "Changes firmware", "mlnxofedinstall updates the cards' firmware and removes the distribution's RDMA packages.", "A card that another tool expects at its old firmware is not there after the reboot.", "Add --without-fw-update, or declare ofed with firmware = \"update\".")
	case name == "mlxconfig" && strings.Contains(text, "LINK_TYPE") || name == "grep" && strings.HasPrefix(text, "grep LINK_TYPE"):
		s.say(c.line(), env.Note, "Ethernet-only cards have no LINK_TYPE", "ConnectX-4 Lx, -6 Lx and -6 Dx have no InfiniBand mode, and nothing to change.", "", "`fabricform show` says what a card is.")
	case name == "ibv_devinfo" || name == "ibstat":
		s.say(c.line(), env.Note, "transport and LID do not tell RoCE", name+" says \"transport: InfiniBand\" or \"Base lid: 0\" of every RoCE port.", "", "Look at link_layer: Ethernet is RoCE, and needs no subnet manager.")
	case name == "rpm" && strings.Contains(text, "rdma-core"):
		s.say(c.line(), env.Note, "rdma-core does not tell the driver", "MLNX_OFED ships an rdma-core of its own.", "Equal answers say nothing of the drivers.", "Compare ofed_info -s and the driver's version, too.")
	case name == "iperf3" && c.has("-c") && !c.has("-B"):
		s.say(c.line(), env.Warning, "Not bound to a NIC", "iperf3 -c goes where the routing table sends it.", "With several NICs it may measure another cable than the one that is meant.", "Add -B with the NIC's own address; `fabricform verify` proves each link by its counters.")
	case name == "modprobe" || name == "rdma" && c.has("add"):
		s.say(c.line(), env.Warning, "Until the next reboot", shorten(text)+" sets the running kernel alone.", "It is gone after a reboot.", "Declare rxe in a fabric file.")
	case name == "rsync" && len(c.words) > 1 && strings.HasPrefix(c.words[1].text, "-") && strings.Contains(c.words[1].text, "z"):
		s.say(c.line(), env.Note, "Compression and ssh are the limit", "rsync -z over ssh is bound by the processor.", "Its speed says nothing of the link.", "Measure with iperf3 -B or `fabricform verify`.")
	}
}
