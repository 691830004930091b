package nccl

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// directMesh returns the settings for three or more hosts that are cabled without a switch. A NIC reaches
// only one neighbour, so NCCL must choose the NIC by the peer's subnet (ncclIbFindDevBySubnet in
// src/transport/net_ib/connect.cc).
func directMesh(f *fabric.Fabric, h *fabric.Host, at env.Version) (out Env, problems []string) {
	if at.Known() && at.Before(routesBySubnet) {
		problems = append(problems, fmt.Sprintf("direct cables to several hosts need NCCL %s or later, which can choose the NIC by the peer's subnet; this host has %s", routesBySubnet, at))
	}
	for _, peer := range uncabled(f, h.Name) {
		problems = append(problems, fmt.Sprintf("no cable connects %s and %s: any two hosts can become neighbours in NCCL's rings and trees, and RDMA cannot be forwarded by a third host", h.Name, peer))
	}
	out = Env{
		{"NCCL_IB_MERGE_NICS", "0", "each NIC is cabled to a different neighbour and must not be merged with another"},
		{"NCCL_NET_PLUGIN", "none", "only NCCL's own transport can choose a NIC by subnet, plugins cannot"},
		{"NCCL_IB_SUBNET_AWARE_ROUTING", "1", "each NIC is cabled to a different neighbour: NCCL must use the one in the peer's subnet"},
	}
	bits, problem := prefixLength(f)
	if problem != "" {
		return out, append(problems, problem)
	}
	if bits > 0 && bits != 24 { // NCCL's default
		out = append(out, Setting{"NCCL_IB_SUBNET_PREFIX_LEN", strconv.Itoa(bits), "the prefix length of the cables' subnets; NCCL's default is 24"})
	}
	return out, problems
}

// uncabled returns the hosts with training cables that have no cable to this host.
func uncabled(f *fabric.Fabric, host string) []string {
	joined := map[string]bool{host: true}
	all := map[string]bool{}
	for _, l := range f.Links {
		if l.Role != training {
			continue
		}
		for _, end := range l.Endpoints {
			all[end.Host] = true
		}
		if peer := neighbour(l, host); peer != "" {
			joined[peer] = true
		}
	}
	maps.DeleteFunc(all, func(host string, _ bool) bool { return joined[host] })
	return slices.Sorted(maps.Keys(all))
}

// prefixLength returns one prefix length that distinguishes the IPv4 subnets of all cables; 0: no IPv4.
func prefixLength(f *fabric.Fabric) (bits int, problem string) {
	seen := map[string]string{} // subnet -> link
	for _, l := range f.Links {
		for _, p := range ipv4Subnets(f, l) {
			if bits == 0 || p < bits {
				bits = p
			}
		}
	}
	for _, l := range f.Links {
		for _, r := range l.Endpoints {
			n := f.NIC(r)
			if n == nil || l.Role != training {
				continue
			}
			for _, a := range ofFamily(n, false) {
				p, err := a.Prefix(bits)
				if err != nil {
					continue
				}
				if other, ok := seen[p.String()]; ok && other != l.Name {
					return 0, fmt.Sprintf("links %s and %s are both in %s: NCCL compares one prefix length for all cables, so use subnets of the same length, or subnets that differ in their first bits", other, l.Name, p)
				}
				seen[p.String()] = l.Name
			}
		}
	}
	return bits, ""
}

// ipv4Subnets returns the prefix lengths of the IPv4 addresses at both ends of a training cable.
func ipv4Subnets(f *fabric.Fabric, l *fabric.Link) (out []int) {
	for _, r := range l.Endpoints {
		n := f.NIC(r)
		if n == nil || l.Role != training {
			continue
		}
		for _, a := range n.Addresses {
			if a.Addr().Is4() {
				out = append(out, a.Bits())
			}
		}
	}
	return out
}
