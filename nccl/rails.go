package nccl

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// The first versions of NCCL that read the settings for direct cables.
func routesBySubnet() env.Version { return env.Lookup("NCCL_IB_SUBNET_AWARE_ROUTING").First }
func mergesByName() env.Version   { return env.Lookup("NCCL_NET_FORCE_MERGE").First }

// layout returns the settings that follow from the topology of the fabric.
func layout(f *fabric.Fabric, h *fabric.Host, ports []Port, at env.Version) (out Env, problems []string) {
	crossed, unmet := pairing(f, h, nil)
	switch {
	case len(cablesOf(f, h)) > 1:
		out, problems = directMesh(f, h, at)
	case len(crossed) > 0:
		out, problems = crossedOrder(f, h, crossed, at)
		problems = append(problems, unmet...)
	default:
		out, problems = merged(f, h, ports, at)
		problems = append(problems, unmet...)
	}
	problems = append(problems, apart(f, h)...)
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
			kind := "parallel"
			if crossed, _ := pairing(f, h, nil); len(crossed) > 0 {
				kind = "crossed"
			}
			return kind + " direct cables: a ring must stay on its own cable"
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
// NCCL merges only ports of one PCI card (NCCL_NET_MERGE_LEVEL is PORT), and takes these for two cards. If one
// of the devices in the list is not active, NCCL ends with invalid usage instead of using the other alone
// (ncclTopoForceMerge in src/graph/topo.cc, 2.24.3 to 2.30.7; net_ib lists only active ports).
func merged(f *fabric.Fabric, h *fabric.Host, ports []Port, at env.Version) (Env, []string) {
	if at.Known() && at.Before(mergesByName()) {
		return nil, nil
	}
	groups, inactive := map[string][]string{}, map[string]string{}
	for _, l := range f.Links {
		for _, r := range l.Endpoints {
			i := slices.IndexFunc(ports, func(p Port) bool { return p.NIC == r.NIC })
			switch {
			case r.Host != h.Name || l.PortGroup == "" || i < 0:
			case ports[i].HCA != "":
				groups[l.PortGroup] = append(groups[l.PortGroup], ports[i].HCA)
			case ports[i].inactive:
				inactive[l.PortGroup] = ports[i].Why
			}
		}
	}
	var lists, names, problems []string
	for group, devices := range groups {
		if why := inactive[group]; why != "" {
			problems = append(problems, fmt.Sprintf("%s, and port group %s has another half that is active: if both are merged by "+
				"NCCL_NET_FORCE_MERGE, "+
				"a job ends with invalid usage instead of running at half speed. Bring the half up, or set nccl.hca to the active one "+
				"and apply", why, group))
		}
		if len(devices) > 1 {
			slices.Sort(devices)
			lists, names = append(lists, strings.Join(slices.Compact(devices), ",")), append(names, group)
		}
	}
	slices.Sort(problems)
	if len(lists) == 0 {
		return nil, problems
	}
	slices.Sort(lists)
	slices.Sort(names)
	return Env{{"NCCL_NET_FORCE_MERGE", strings.Join(lists, ";"), "functions of one physical port (" + strings.Join(names, ", ") +
		"): by default NCCL merges only ports of one PCI card. If one of them is down, jobs end with invalid usage"}}, problems
}
