package nccl

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// NCCL connects the NICs of two hosts by their order: a ring that leaves one host by its second NIC enters the next by
// its second (graph/search.cc and graph/connect.cc), and the order is that of PCI addresses (ncclIbCompareDevs in
// src/transport/net_ib/init.cc, from 2.29.7 on; before, the order of libibverbs, which is usually the same).

// Miswired returns the hosts whose NICs are cabled to the host's in another order than the files say, by the PCI
// addresses that the hosts really have.
func Miswired(f *fabric.Fabric, h *fabric.Host, snaps map[string]*facts.Snapshot) (out []string) {
	if len(cablesOf(f, h)) > 1 {
		return nil // all settings for another order are there
	}
	declared, _ := pairing(f, h, nil)
	found, _ := pairing(f, h, snaps)
	for _, peer := range found {
		if len(declared) == 0 {
			out = append(out, fmt.Sprintf("the NICs of %s and %s are joined in another order than that of their PCI addresses, by which "+
				"NCCL connects them, "+
				"and their interface names do not show it: match these NICs by pci, and apply", h.Name, peer))
		}
	}
	return out
}

// pairing compares the NICs of the host with those of each host that it shares a cable or network with. crossed are the
// hosts whose NICs are joined to this one's in another order; problems name NICs that are joined to none. The order is
// that of the snapshots of both hosts, or else that of the files.
func pairing(f *fabric.Fabric, h *fabric.Host, snaps map[string]*facts.Snapshot) (crossed, problems []string) {
	for _, peer := range f.Hosts {
		here, there := snaps[h.Name], snaps[peer.Name]
		if here == nil || there == nil {
			here, there = nil, nil
		}
		mine, theirs := inOrder(f, h, here), inOrder(f, peer, there)
		if peer == h || len(cablesOf(f, peer)) > 1 || !slices.ContainsFunc(mine, func(n *fabric.NIC) bool { return meets(f, n, theirs) }) {
			continue
		}
		alone := append(unmet(f, mine, theirs, peer.Name), unmet(f, theirs, mine, h.Name)...)
		problems = append(problems, alone...)
		for i := range min(len(mine), len(theirs)) {
			if len(alone) == 0 && !reaches(f, mine[i], theirs[i]) {
				crossed = append(crossed, peer.Name)
				break
			}
		}
	}
	return crossed, problems
}

// crosses reports a declared NCCL_CROSS_NIC that lets NCCL connect NICs that nothing joins. derived are the other settings:
// a choice by subnet prevents it.
func crosses(f *fabric.Fabric, h *fabric.Host, derived Env) []string {
	v := f.NCCLOf(h).Env["NCCL_CROSS_NIC"]
	if _, chooses := derived.Get("NCCL_IB_SUBNET_AWARE_ROUTING"); chooses || env.ParseNumber(v).Value == 0 {
		return nil
	}
	mine := inOrder(f, h, nil)
	for _, peer := range f.Hosts {
		theirs := inOrder(f, peer, nil)
		if peer == h || !slices.ContainsFunc(mine, func(n *fabric.NIC) bool { return meets(f, n, theirs) }) {
			continue
		}
		for _, n := range mine {
			for _, o := range theirs {
				if !reaches(f, n, o) {
					return []string{fmt.Sprintf("nccl.env sets NCCL_CROSS_NIC = %s, with which NCCL may connect %s to %s, but nothing "+
						"joins them: remove it", v, n.Ref(), o.Ref())}
				}
			}
		}
	}
	return nil
}

// unmet returns a problem for each NIC that reaches none of another host's.
func unmet(f *fabric.Fabric, nics, others []*fabric.NIC, host string) (out []string) {
	for _, n := range nics {
		if !slices.ContainsFunc(others, func(o *fabric.NIC) bool { return reaches(f, n, o) }) {
			out = append(out, fmt.Sprintf("%s reaches no NIC of %s, but NCCL may use any NIC of a host for any other host: join it to "+
				"%s, declare a route, or leave it out of nccl.hca", n.Ref(), host, host))
		}
	}
	return out
}

func meets(f *fabric.Fabric, n *fabric.NIC, others []*fabric.NIC) bool {
	return slices.ContainsFunc(others, func(o *fabric.NIC) bool { return joined(f, n, o) })
}

// joined reports whether two NICs are on one cable or network.
func joined(f *fabric.Fabric, a, b *fabric.NIC) bool {
	both := func(refs []fabric.NICRef) bool {
		return slices.Contains(refs, a.Ref()) && slices.Contains(refs, b.Ref())
	}
	return slices.ContainsFunc(f.Links, func(l *fabric.Link) bool { return both(l.Endpoints) }) ||
		slices.ContainsFunc(f.Networks, func(w *fabric.Network) bool { return both(w.Members) })
}

// reaches reports whether packets of one NIC get to another: on one cable or network, or by a declared route.
func reaches(f *fabric.Fabric, from, to *fabric.NIC) bool {
	if joined(f, from, to) {
		return true
	}
	h := f.Host(from.Host)
	covers := func(r fabric.Route) bool {
		return slices.ContainsFunc(to.Addresses, func(p netip.Prefix) bool { return r.To.Contains(p.Addr()) })
	}
	return slices.ContainsFunc(h.Routes, func(r *fabric.MainRoute) bool { return r.NIC == from.Ref() && covers(r.Route) }) ||
		slices.ContainsFunc(h.Policy, func(p *fabric.PolicyRoute) bool {
			return p.NIC == from.Ref() && slices.ContainsFunc(p.Routes, covers)
		})
}

// inOrder returns the host's NICs for collectives in the order of their PCI addresses. Without a snapshot, the order is
// that of declared PCI addresses or of interface names, which follow them; NICs that are matched in another way
// keep the order of their names in the files.
func inOrder(f *fabric.Fabric, h *fabric.Host, snap *facts.Snapshot) []*fabric.NIC {
	nics := f.ForCollectives(h)
	for _, by := range []struct {
		key     func(*fabric.NIC) string
		compare func(a, b string) int
	}{
		{func(n *fabric.NIC) string { return pciOf(n, snap) }, strings.Compare}, // hexadecimal, of fixed width
		{func(n *fabric.NIC) string { return n.Match.PCI }, strings.Compare},
		{func(n *fabric.NIC) string { return n.Netdev }, natural},
	} {
		if !slices.ContainsFunc(nics, func(n *fabric.NIC) bool { return by.key(n) == "" }) {
			slices.SortStableFunc(nics, func(a, b *fabric.NIC) int { return by.compare(by.key(a), by.key(b)) })
			return nics
		}
	}
	return nics
}

// pciOf returns the PCI address of a NIC, or of the RDMA device below a VLAN; "" if it is unknown.
func pciOf(n *fabric.NIC, snap *facts.Snapshot) string {
	if snap == nil {
		return ""
	}
	l := Netdev(snap, n)
	if l == nil {
		return ""
	}
	if on := snap.RDMAOn(l.Name); l.PCI == "" && len(on) > 0 {
		if below := snap.Link(on[0].Netdev); below != nil {
			return below.PCI
		}
	}
	return l.PCI
}

// natural compares names so that numbers in them count by their value: eth2 is before eth10.
func natural(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			n, m := strings.TrimLeft(a[:x], "0"), strings.TrimLeft(b[:y], "0")
			if c := cmp.Or(cmp.Compare(len(n), len(m)), strings.Compare(n, m)); c != 0 {
				return c
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return cmp.Compare(a[0], b[0])
		}
		a, b = a[1:], b[1:]
	}
	return cmp.Compare(len(a), len(b))
}

// digits counts the digits at the beginning of a text.
func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}
