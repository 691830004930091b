package nccl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
)

// Findings are what is good to know of a host's GPUs and NICs: a rail that is not its GPU's nearest NIC,
// and the half of a port that nothing uses. They are warnings: NCCL runs, and slower.
func Findings(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) []string {
	ports := Ports(f, h, snap)
	return append(Misplaced(snap.Topology(), devices(ports)), halves(h, ports, snap)...)
}

// devices are the ports' RDMA devices, in the order of rails.
func devices(ports []Port) (out []string) {
	for _, p := range ports {
		if p.HCA != "" {
			out = append(out, p.HCA)
		}
	}
	return out
}

// Misplaced finds rails that are not the nearest of their GPU. Of n GPUs and n rails, rail i is GPU i's;
// where GPUs share rails evenly, they do so in order.
func Misplaced(t facts.Topology, rails []string) (out []string) {
	if len(rails) < 2 || len(t.GPUs)%len(rails) != 0 {
		return nil
	}
	each := len(t.GPUs) / len(rails)
	for i, gpu := range t.GPUs {
		rail := rails[i/each]
		nearest, distance := t.Nearest(gpu, rails)
		here := t.From[gpu][rail]
		if here == "" || len(nearest) == 0 || slices.Contains(nearest, rail) {
			continue
		}
		out = append(out, fmt.Sprintf("rail %d (%s) is %s from %s, whose nearest is %s (%s): NCCL takes the nearest, so that this host uses another rail for the same rank than hosts where they agree",
			i/each, rail, here, gpu, strings.Join(nearest, ", "), distance))
	}
	return out
}

// halves finds functions of a port that are not in the fabric: a DGX Spark's port is two PCI functions in
// different PCI domains, each with half of the lanes. They sit at the same place of their domain and have
// neighbouring MAC addresses.
func halves(h *fabric.Host, ports []Port, snap *facts.Snapshot) (out []string) {
	for _, n := range h.NICs {
		i := slices.IndexFunc(ports, func(p Port) bool { return p.NIC == n.Name && p.HCA != "" })
		l := Netdev(snap, n)
		if i < 0 || l == nil || n.Single {
			continue
		}
		for _, other := range snap.Links {
			used := slices.ContainsFunc(h.NICs, func(o *fabric.NIC) bool { m := Netdev(snap, o); return m != nil && m.Name == other.Name })
			if sibling(*l, other) && !used {
				out = append(out, fmt.Sprintf("%s (%s) is one half of a port, and %s is the other, which no NIC of the files is: a job gets half of the port's speed. Declare it, or set single = true on %s", n.Name, l.Name, other.Name, n.Name))
			}
		}
	}
	return out
}

func sibling(a, b host.Link) bool {
	domainA, restA, okA := strings.Cut(a.PCI, ":")
	domainB, restB, okB := strings.Cut(b.PCI, ":")
	macA, macB := a.PermMAC, b.PermMAC
	if macA == "" || macB == "" {
		macA, macB = a.MAC, b.MAC
	}
	const block = len("aa:bb:cc:dd:ee:f") // all but the last four bits
	return okA && okB && domainA != domainB && restA == restB && a.Driver == b.Driver && len(macA) > block && len(macB) > block && macA[:block] == macB[:block]
}
