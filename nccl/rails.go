package nccl

import (
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// The first versions of NCCL that read the settings for direct cables.
var (
	routesBySubnet = env.Lookup("NCCL_IB_SUBNET_AWARE_ROUTING").First
	mergesByName   = env.Lookup("NCCL_NET_FORCE_MERGE").First
)

// layout returns the settings that follow from the topology of the fabric.
func layout(f *fabric.Fabric, h *fabric.Host, ports []Port, at env.Version) (out Env, problems []string) {
	switch {
	case len(cablesOf(f, h)) > 1:
		more, wrong := directMesh(f, h, at)
		out, problems = append(out, more...), append(problems, wrong...)
	case slices.ContainsFunc(ports, func(p Port) bool { return p.HCA != "" }):
		out = append(out, merged(f, h, ports, at)...)
	}
	if why := OneRail(f, h); why != "" {
		out = append(out, Setting{"NCCL_CROSS_NIC", "0", why})
	}
	return out, problems
}

// cablesOf counts the training cables from a host to each neighbour.
func cablesOf(f *fabric.Fabric, h *fabric.Host) map[string]int {
	cables := map[string]int{}
	for _, l := range f.Links {
		if peer := neighbour(l, h.Name); peer != "" && l.Role == training {
			cables[peer]++
		}
	}
	return cables
}

// OneRail returns the reason why NCCL's rings must enter and leave the host's peers by the same NIC
// (NCCL_CROSS_NIC=0), or "".
func OneRail(f *fabric.Fabric, h *fabric.Host) string {
	for _, n := range cablesOf(f, h) {
		if n > 1 {
			return "parallel direct cables: a ring must stay on its own cable"
		}
	}
	if rails(f, h) > 1 {
		return "each rail is a separate network: a ring must stay on its rail"
	}
	return ""
}

// neighbour returns the host at the other end of a link, or "" if the host is at neither end.
func neighbour(l *fabric.Link, host string) string {
	for i, end := range l.Endpoints {
		if end.Host == host && len(l.Endpoints) == 2 {
			return l.Endpoints[1-i].Host
		}
	}
	return ""
}

// rails counts the training networks in which the host has exactly one NIC.
func rails(f *fabric.Fabric, h *fabric.Host) (count int) {
	for _, w := range f.Networks {
		mine := 0
		for _, m := range w.Members {
			if m.Host == h.Name {
				mine++
			}
		}
		if w.Role == training && mine == 1 {
			count++
		}
	}
	return count
}

// merged merges the functions of one physical port, which the files declare as a port group. By default
// NCCL merges only ports of one PCI card (NCCL_NET_MERGE_LEVEL is PORT), and takes these for two cards.
func merged(f *fabric.Fabric, h *fabric.Host, ports []Port, at env.Version) Env {
	if at.Known() && at.Before(mergesByName) {
		return nil
	}
	groups := map[string][]string{}
	for _, l := range f.Links {
		for _, r := range l.Endpoints {
			i := slices.IndexFunc(ports, func(p Port) bool { return p.NIC == r.NIC && p.HCA != "" })
			if r.Host == h.Name && l.PortGroup != "" && i >= 0 {
				groups[l.PortGroup] = append(groups[l.PortGroup], ports[i].HCA)
			}
		}
	}
	var lists, names []string
	for group, devices := range groups {
		if len(devices) > 1 {
			slices.Sort(devices)
			lists, names = append(lists, strings.Join(slices.Compact(devices), ",")), append(names, group)
		}
	}
	if len(lists) == 0 {
		return nil
	}
	slices.Sort(lists)
	slices.Sort(names)
	return Env{{"NCCL_NET_FORCE_MERGE", strings.Join(lists, ";"), "functions of one physical port (" + strings.Join(names, ", ") + "): by default NCCL merges only ports of one PCI card"}}
}
