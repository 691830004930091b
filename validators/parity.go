package validators

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
)

// The items of the check.
const (
	Version    Item = "version"  // of a kernel, a library, a driver
	Firmware   Item = "firmware" // of RDMA devices with one board
	Installing Item = "installation"
)

// aspect is a property that hosts which work together should share. of returns "" if a host does not have
// it.
type aspect struct {
	item Item
	name string
	of   func(*facts.Snapshot) string
	// optional: hosts without it are ignored, because not every host needs it.
	optional bool
	verdict  Verdict // of a difference
	cause    string  // what a difference leads to
	cure     string
}

// aspects are compared in this order.
var aspects = []aspect{
	{Version, "kernel", func(s *facts.Snapshot) string { return s.System.Kernel }, false, Warn,
		"drivers and Soft-RoCE behave as their kernel does", "boot the same kernel everywhere before you compare results"},
	{Version, facts.DriverStack, version(facts.DriverStack), false, Fail,
		"stacks name devices and fill GID tables differently", "declare the same ofed block on all hosts"},
	{Version, "rdma-core", version("rdma-core"), false, Warn,
		"user space and drivers are tested together", "pin one version, such as ofed { packages = [\"rdma-core=VERSION\"] }"},
	{Version, "perftest", version("perftest"), false, Warn,
		"releases of perftest choose GIDs differently, and some refuse each other", "install the same release everywhere"},
	{Version, "NCCL", func(s *facts.Snapshot) string { return libraries(s.NCCL) }, true, Warn,
		"ranks with different releases of NCCL refuse each other, or read NCCL_ variables differently",
		"install the same release everywhere"},
	{Version, "GPU driver", func(s *facts.Snapshot) string { return s.GPUDriver }, true, Warn,
		"a CUDA release that runs on one host may not start on the other", "install the same driver everywhere"},
}

// version returns the version of a driver stack or a package. Vendors' stacks include their own rdma-core, so
// it differs wherever the stacks differ.
func version(name string) func(*facts.Snapshot) string {
	return func(s *facts.Snapshot) string { return s.Versions[name].Installed }
}

func libraries(ls []facts.Library) string {
	var out []string
	for _, l := range ls {
		out = append(out, l.Version)
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " and ")
}

// parity compares the hosts with each other.
func (r *run) parity(context.Context, []*trial) []Result {
	hosts := slices.Sorted(maps.Keys(r.snapshots))
	if len(hosts) < 2 {
		return nil
	}
	if r.snapshots[hosts[0]].System.Lab {
		res := Result{Check: CheckParity, Item: Version, Subject: Subject{Kind: SubjectHosts}, Hosts: hosts}
		return []Result{res.skips(InLab, "hosts of a namespace lab share one machine's kernel and packages")}
	}
	var out []Result
	for _, a := range aspects {
		by := map[string][]string{}
		for _, h := range hosts {
			if v := a.of(r.snapshots[h]); v != "" || !a.optional {
				by[v] = append(by[v], h)
			}
		}
		out = append(out, compare(a, by)...)
	}
	return slices.Concat(out, r.firmware(hosts), r.unfinished(hosts))
}

// firmware compares cards with the same PSID: other boards have other firmware.
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
		a := aspect{item: Firmware, name: board, verdict: Warn,
			cure: "flash the later one on all cards of this board, " +
				"or declare ofed { firmware = \"update\" } with a bundle of MLNX_OFED that has it"}
		out = append(out, compare(a, boards[board])...)
	}
	return out
}

// unfinished returns the hosts on which an installation of such a package was interrupted.
func (r *run) unfinished(hosts []string) (out []Result) {
	for _, h := range hosts {
		versions := r.snapshots[h].Versions
		for _, name := range slices.Sorted(maps.Keys(versions)) {
			if v := versions[name]; v.Unfinished != "" {
				res := Result{Check: CheckParity, Item: Installing, Subject: onHost(h), Host: h, Object: name, Found: v.Unfinished,
					Wanted: "installed"}
				out = append(out, res.fails("an installation was interrupted on this host",
					"if an ofed block is declared, run "+r.options.Invocation.Hint("apply")+"; otherwise run `dpkg --configure -a`"))
			}
		}
	}
	return out
}

// compare groups the hosts by value. It returns no result if no host has a value.
func compare(a aspect, by map[string][]string) []Result {
	values := slices.SortedFunc(maps.Keys(by), func(x, y string) int {
		return cmp.Or(len(by[y])-len(by[x]), strings.Compare(x, y))
	})
	if len(values) == 0 || len(values) == 1 && values[0] == "" {
		return nil
	}
	res := Result{Check: CheckParity, Item: a.item, Object: a.name, Subject: Subject{Kind: SubjectHosts}, Verdict: Pass}
	if len(values) == 1 {
		res.Found, res.Hosts = values[0], by[values[0]]
		return []Result{res}
	}
	for i, v := range values {
		res.FoundOn = append(res.FoundOn, FoundOn{v, by[v]})
		if i > 0 {
			res.Hosts = append(res.Hosts, by[v]...)
		}
	}
	slices.Sort(res.Hosts)
	res.Hosts = slices.Compact(res.Hosts)
	res.Verdict, res.Wanted, res.Cause, res.Cure = a.verdict, "the same on all hosts", a.cause, a.cure
	return []Result{res}
}
