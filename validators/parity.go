package validators

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// aspect is what hosts that work together have in common. of is empty where a host has none of it.
type aspect struct {
	name string
	of   func(*facts.Snapshot) string
	// optional: hosts without it are no difference, because not every host needs it.
	optional bool
	verdict  Verdict // of a difference
	cause    string  // what a difference leads to, and what to do
}

// aspects are compared in this order.
var aspects = []aspect{
	{"kernel", func(s *facts.Snapshot) string { return s.System.Kernel }, false, Warn,
		"drivers and Soft-RoCE behave as their kernel does: boot the same one everywhere before you compare results"},
	{"driver stack", func(s *facts.Snapshot) string { return s.Stack.String() }, false, Fail,
		"stacks name devices and fill GID tables differently: declare the same ofed block on all hosts"},
	{"rdma-core", packaged("rdma-core"), false, Warn, "user space and drivers are tested together: pin one version, such as ofed { packages = [\"rdma-core=VERSION\"] }"},
	{"perftest", packaged("perftest"), false, Warn, "releases of perftest choose GIDs differently, and some refuse each other: install the same one"},
	{"NCCL", func(s *facts.Snapshot) string { return libraries(s.NCCL) }, true, Warn,
		"ranks with different releases of NCCL refuse each other, or read NCCL_ variables differently"},
	{"GPU driver", func(s *facts.Snapshot) string { return s.GPUDriver }, true, Warn, "a CUDA release that runs on one host may not start on the other"},
}

// packaged is a package's version. Vendors' stacks have an rdma-core of their own: where stacks
// differ, it differs, too.
func packaged(name string) func(*facts.Snapshot) string {
	return func(s *facts.Snapshot) string {
		if s.Stack == nil {
			return ""
		}
		return s.Stack.Packages[name].Version
	}
}

func libraries(ls []facts.Library) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Version)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " and ")
}

// parity holds the hosts against each other.
func (r *run) parity() []Result {
	hosts := slices.Sorted(maps.Keys(r.snapshots))
	if len(hosts) < 2 {
		return nil
	}
	if r.snapshots[hosts[0]].System.Lab {
		return []Result{{Check: "parity", Host: some(hosts), Verdict: Skip, What: "versions", Cause: "hosts of a namespace lab share one machine's kernel and packages"}}
	}
	var out []Result
	for _, a := range aspects {
		by := map[string][]string{}
		for _, h := range hosts {
			if v := a.of(r.snapshots[h]); v != "" || !a.optional {
				by[v] = append(by[v], h)
			}
		}
		if res, any := compare(a, by); any {
			out = append(out, res)
		}
	}
	return append(append(out, r.firmware(hosts)...), r.unfinished(hosts)...)
}

// firmware compares cards with the same PSID: the firmware of another board is another program.
func (r *run) firmware(hosts []string) (out []Result) {
	boards := map[string]map[string][]string{}
	for _, h := range hosts {
		for _, d := range r.snapshots[h].RDMA {
			if d.Virtual || d.Board == "" || d.Firmware == "" {
				continue
			}
			if boards[d.Board] == nil {
				boards[d.Board] = map[string][]string{}
			}
			if by := boards[d.Board]; !slices.Contains(by[d.Firmware], h) {
				by[d.Firmware] = append(by[d.Firmware], h)
			}
		}
	}
	for _, board := range slices.Sorted(maps.Keys(boards)) {
		a := aspect{name: "firmware of " + board, verdict: Warn, cause: "flash the later one on all cards of this board, or declare ofed { firmware = \"update\" } with a bundle of MLNX_OFED that has it"}
		if res, any := compare(a, boards[board]); any {
			out = append(out, res)
		}
	}
	return out
}

// unfinished are hosts on which an installation of what matters here broke off.
func (r *run) unfinished(hosts []string) (out []Result) {
	for _, h := range hosts {
		s := r.snapshots[h].Stack
		if s == nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(s.Packages)) {
			if p := s.Packages[name]; p.Unfinished != "" && facts.OfStack(name) {
				out = append(out, Result{Check: "parity", Host: h, Verdict: Fail, What: name, Measured: p.Unfinished, Expected: "installed",
					Cause: "an installation broke off there: `fabricform apply` finishes it where an ofed block is declared; by hand: dpkg --configure -a"})
			}
		}
	}
	return out
}

// compare judges the hosts by value; false where no host has any.
func compare(a aspect, by map[string][]string) (Result, bool) {
	values := slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		if d := len(by[y]) - len(by[x]); d != 0 {
			return d
		}
		return strings.Compare(x, y)
	})
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return Result{}, false
	}
	res := Result{Check: "parity", What: a.name, Verdict: Pass, Measured: values[0], Host: some(by[values[0]])}
	if len(values) == 1 {
		return res, true
	}
	var said, odd []string
	for i, v := range values {
		name := v
		if v == "" {
			name = "none"
		}
		said = append(said, fmt.Sprintf("%s on %s", name, some(by[v])))
		if i > 0 {
			odd = append(odd, by[v]...)
		}
	}
	slices.Sort(odd)
	return Result{Check: "parity", What: a.name, Verdict: a.verdict, Host: some(slices.Compact(odd)), Measured: strings.Join(said, ", "), Expected: "the same on all hosts", Cause: a.cause}, true
}
