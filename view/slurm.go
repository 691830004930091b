package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
)

// SlurmTopology returns a topology.conf for Slurm's topology/tree (topology.conf(5)). The files name NICs, cables and subnets, but no
// switch: hosts that are on the same segments share a leaf, and a spine joins the leaves that networks and cables join. Comments say what
// this leaves open. Names of hosts contain no character that has a meaning in the file (fabric.IsName).
func SlurmTopology(f *fabric.Fabric) string {
	t := newSlurmTree(f)
	var b strings.Builder
	line := func(format string, a ...any) { fmt.Fprintf(&b, format+"\n", a...) }
	line("# fabricform render slurm-topology, fabric %s", f.Name)
	line("# TopologyPlugin=topology/tree in slurm.conf. Nodes have the names of the files' hosts, which must be their NodeName there.")
	line("# The files name no switches. A leaf stands for the switches of the hosts that are on the same segments; which of them share")
	line("# a chassis, and how many switches lie between leaves, is not known.")
	if len(t.others) > 0 {
		line("# Not used, because they are not for training: %s.", strings.Join(t.others, ", "))
	}
	if len(t.alone) > 0 {
		line("# In no network and on no cable, so Slurm gives them only jobs of one node: %s. Add them to a switch if they are on one.",
			slurmNames(t.alone))
	}
	leaf, spine, roots := 0, 0, 0
	for _, group := range t.groups {
		first := leaf + 1
		for _, l := range group {
			leaf++
			line("# leaf%d: %s", leaf, planner.Names(l.segments))
			line("SwitchName=leaf%d Nodes=%s", leaf, slurmNames(l.hosts))
		}
		if roots++; leaf > first {
			spine++
			line("SwitchName=spine%d Switches=leaf[%d-%d]", spine, first, leaf)
		}
	}
	if roots > 1 {
		line("# Nothing in the files joins the %d groups above with each other: Slurm gives no job nodes of two of them.", roots)
	}
	return b.String()
}

// slurmNames returns names as a host list of Slurm.
func slurmNames(names []string) string { return strings.ReplaceAll(planner.Names(names), ", ", ",") }

// slurmTree is what a fabric's files say about switches.
type slurmTree struct {
	groups [][]slurmLeaf // leaves that are joined
	alone  []string      // hosts on no segment
	others []string      // networks and links for other purposes
}

// slurmLeaf is hosts that are on the same segments.
type slurmLeaf struct{ hosts, segments []string }

func newSlurmTree(f *fabric.Fabric) slurmTree {
	var t slurmTree
	training := func(role string) bool { return role == "training" }
	every := !slices.ContainsFunc(f.Networks, func(n *fabric.Network) bool { return training(n.Role) }) &&
		!slices.ContainsFunc(f.Links, func(l *fabric.Link) bool { return training(l.Role) })

	joined, cabled := components{}, components{}
	on := map[string]map[string]bool{} // host -> its segments
	add := func(host, segment string) {
		if on[host] == nil {
			on[host] = map[string]bool{}
		}
		on[host][segment] = true
	}
	for _, n := range f.Networks {
		if !every && !training(n.Role) {
			t.others = append(t.others, "network "+n.Title())
			continue
		}
		for _, m := range n.Members {
			add(m.Host, segmentOf(f, n, m))
			joined.join(n.Members[0].Host, m.Host)
		}
	}
	var cables []fabric.NICRef
	for _, l := range f.Links {
		if !every && !training(l.Role) {
			t.others = append(t.others, "link "+l.Title())
			continue
		}
		joined.join(l.Endpoints[0].Host, l.Endpoints[1].Host)
		cabled.join(l.Endpoints[0].Host, l.Endpoints[1].Host)
		cables = append(cables, l.Endpoints...)
	}
	for _, end := range cables {
		add(end.Host, "direct cables with "+cabled.root(end.Host))
	}

	leaves, order := map[string][]*slurmLeaf{}, []string{}
	for _, h := range f.Hosts {
		if on[h.Name] == nil {
			t.alone = append(t.alone, h.Name)
			continue
		}
		root, segments := joined.root(h.Name), slices.Sorted(maps.Keys(on[h.Name]))
		if leaves[root] == nil {
			order = append(order, root)
		}
		at := slices.IndexFunc(leaves[root], func(l *slurmLeaf) bool { return slices.Equal(l.segments, segments) })
		if at < 0 {
			at = len(leaves[root])
			leaves[root] = append(leaves[root], &slurmLeaf{segments: segments})
		}
		leaves[root][at].hosts = append(leaves[root][at].hosts, h.Name)
	}
	for _, root := range order {
		var group []slurmLeaf
		for _, l := range leaves[root] {
			group = append(group, *l)
		}
		t.groups = append(t.groups, group)
	}
	return t
}

// segmentOf names the segment of a network's member: the members of a routed network are on the segments of their subnets.
func segmentOf(f *fabric.Fabric, n *fabric.Network, m fabric.NICRef) string {
	segment := "network " + n.Name
	if !n.Routed {
		return segment
	}
	if nic := f.NIC(m); nic != nil && len(nic.Addresses) > 0 {
		return segment + " " + nic.Addresses[0].Masked().String()
	}
	return segment + " at " + m.String()
}

// components joins names into groups, each with one name as its root.
type components map[string]string

func (c components) root(name string) string {
	for c[name] != "" {
		name = c[name]
	}
	return name
}

func (c components) join(a, b string) {
	if a, b = c.root(a), c.root(b); a != b {
		c[max(a, b)] = min(a, b)
	}
}
