package nccl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
)

// Findings returns warnings about a host's GPUs and NICs: a rail that is not the nearest NIC of its GPU,
// or an unused half of a port. NCCL runs with them, but more slowly.
func Findings(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) []string {
	ports := Ports(f, h, snap)
	return append(Misplaced(snap.Topology(), devices(ports)), halves(h, ports, snap)...)
}

// devices returns the RDMA devices of the ports, in the order of rails.
func devices(ports []Port) (out []string) {
	for _, p := range ports {
		if p.HCA != "" {
			out = append(out, p.HCA)
		}
	}
	return out
}

// Misplaced reports rails that are not the nearest NIC of their GPU. With n GPUs and n rails, rail i
// belongs to GPU i. If several GPUs share a rail, consecutive GPUs share it.
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
		out = append(out, fmt.Sprintf("rail %d (%s) is %s from %s, whose nearest NIC is %s (%s): NCCL uses the nearest, so the same "+
			"rank may use different rails on different hosts",
			i/each, rail, here, gpu, strings.Join(nearest, ", "), distance))
	}
	return out
}

// halves reports functions of a port that are not in the fabric.
func halves(h *fabric.Host, ports []Port, snap *facts.Snapshot) (out []string) {
	for _, n := range h.NICs {
		i := slices.IndexFunc(ports, func(p Port) bool { return p.NIC == n.Name && p.HCA != "" })
		l := Netdev(snap, n)
		if i < 0 || l == nil || n.Single {
			continue
		}
		for _, other := range snap.Links {
			used := slices.ContainsFunc(h.NICs, func(o *fabric.NIC) bool { m := Netdev(snap, o); return m != nil && m.Name == other.Name })
			if facts.OnePort(*l, other) && !used {
				out = append(out, fmt.Sprintf("%s (%s) is one half of a port, and its other half, %s, is not declared: a job gets half "+
					"of the port's speed. Declare the other half, or set single = true on %s", n.Name, l.Name, other.Name, n.Name))
			}
		}
	}
	return out
}
