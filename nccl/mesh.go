package nccl

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// directMesh returns the settings for three or more hosts that are cabled without a switch. A NIC reaches
// only one neighbour, so NCCL must choose the NIC by the peer's subnet (ncclIbFindDevBySubnet in
// src/transport/net_ib/connect.cc).
func directMesh(f *fabric.Fabric, h *fabric.Host, at env.Version) (out Env, problems []string) {
	if at.Known() && at.Before(routesBySubnet()) {
		problems = append(problems, fmt.Sprintf("direct cables to several hosts need NCCL %s or later, which can choose the NIC by the "+
			"peer's subnet; this host has %s", routesBySubnet(), at))
	}
	out, wrong := bySubnet(f, "each NIC is cabled to a different neighbour")
	return out, append(problems, wrong...)
}

// crossedOrder returns the settings for hosts whose NICs are joined in another order than that of their PCI addresses, such
// as two hosts with crossed cables. Only the choice by subnet connects the right ones.
func crossedOrder(f *fabric.Fabric, h *fabric.Host, peers []string, at env.Version) (out Env, problems []string) {
	if at.Known() && at.Before(routesBySubnet()) {
		problems = append(problems, fmt.Sprintf("the NICs of %s are joined to those of %s in another order, but NCCL %s connects them "+
			"in order, first to first: swap the cables or rails at one end, or install %s or later, which can choose the NIC by the "+
			"peer's subnet",
			h.Name, strings.Join(peers, ", "), at, routesBySubnet()))
	}
	out, wrong := bySubnet(f, fmt.Sprintf("the NICs are joined to those of %s in another order (NCCL before %s ignores this: then swap "+
		"the cables or rails at one end)", strings.Join(peers, ", "), routesBySubnet()))
	return out, append(problems, wrong...)
}

// bySubnet returns the settings under which NCCL uses the NIC in the peer's subnet.
func bySubnet(f *fabric.Fabric, why string) (out Env, problems []string) {
	out = Env{
		{"NCCL_IB_MERGE_NICS", "0", why + ": it must not be merged with another"},
		{"NCCL_NET_PLUGIN", "none", "only NCCL's own transport can choose a NIC by subnet, plugins cannot"},
		{"NCCL_IB_SUBNET_AWARE_ROUTING", "1", why + ": NCCL must use the NIC in the peer's subnet"},
	}
	bits, problem := prefixLength(f)
	if problem != "" {
		return out, []string{problem}
	}
	if bits > 0 && bits != 24 { // NCCL's default
		out = append(out, Setting{"NCCL_IB_SUBNET_PREFIX_LEN", strconv.Itoa(bits),
			"the prefix length of the subnets; NCCL's default is 24"})
	}
	return out, nil
}

// apart returns a problem for each host with training cables that RDMA packets of this host cannot get to, if this host or a neighbour of it
// is cabled to several hosts. Other cables are pairs of hosts for jobs of their own.
func apart(f *fabric.Fabric, h *fabric.Host) (problems []string) {
	near := cablesOf(f, h)
	several := func(o *fabric.Host) bool { return (o == h || near[o.Name] > 0) && len(cablesOf(f, o)) > 1 }
	if !slices.ContainsFunc(f.Hosts, several) {
		return nil
	}
	for _, peer := range uncabled(f, h.Name) {
		problems = append(problems, fmt.Sprintf("no cable connects %s and %s: any two hosts can become neighbours in NCCL's rings and "+
			"trees, and RDMA cannot be forwarded by a third host", h.Name, peer))
	}
	return problems
}

// uncabled returns the hosts with training cables that have no cable to this host, and no training network in common with it.
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
	}
	for _, s := range segments(f) {
		if slices.ContainsFunc(s.nics, func(r fabric.NICRef) bool { return r.Host == host }) {
			for _, r := range s.nics {
				joined[r.Host] = true
			}
		}
	}
	maps.DeleteFunc(all, func(host string, _ bool) bool { return joined[host] })
	return slices.Sorted(maps.Keys(all))
}

// segment is a cable or a network for collectives.
type segment struct {
	name string
	nics []fabric.NICRef
}

func segments(f *fabric.Fabric) (out []segment) {
	for _, l := range f.Links {
		if l.Role == training {
			out = append(out, segment{"link " + l.Name, l.Endpoints})
		}
	}
	for _, w := range f.Networks {
		if w.Role == training {
			out = append(out, segment{"network " + w.Name, w.Members})
		}
	}
	return out
}

// prefixLength returns one prefix length that distinguishes the IPv4 subnets of all cables and networks; 0: no IPv4. Of IPv6 addresses,
// NCCL compares the first 64 bits (gidSameSubnet in src/transport/net_ib/connect.cc, 2.30.7).
func prefixLength(f *fabric.Fabric) (bits int, problem string) {
	each := func(do func(s segment, p netip.Prefix)) {
		for _, s := range segments(f) {
			for _, r := range s.nics {
				if n := f.NIC(r); n != nil {
					of, _ := selection(f, f.Host(r.Host), n, env.Version{})
					for _, p := range n.Addresses {
						if p.Addr().Is6() == of.IPv6 {
							do(s, p)
						}
					}
				}
			}
		}
	}
	each(func(_ segment, p netip.Prefix) {
		if p.Addr().Is4() && (bits == 0 || p.Bits() < bits) {
			bits = p.Bits()
		}
	})
	seen := map[netip.Prefix]string{} // subnet -> segment
	each(func(s segment, p netip.Prefix) {
		length, rule := bits, "one prefix length for all subnets, so use subnets of the same length, or subnets that differ in their first bits"
		if p.Addr().Is6() {
			length, rule = 64, "the first 64 bits of IPv6 addresses, so use a /64 for each"
		}
		p = netip.PrefixFrom(p.Addr(), length).Masked()
		if other, ok := seen[p]; ok && other != s.name && problem == "" {
			problem = fmt.Sprintf("%s and %s are both in %s: NCCL compares %s", other, s.name, p, rule)
		}
		seen[p] = s.name
	})
	return bits, problem
}
