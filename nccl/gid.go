package nccl

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/nccl/env"
)

// choosesGID is the first NCCL that looks for a GID by itself; earlier ones take index 0.
var choosesGID = env.Version{Major: 2, Minor: 21, Patch: 5}

// narrow gives the ports an address range where NCCL would otherwise take a GID that is no declared
// address: a NIC may have addresses that somebody else gave it. NCCL takes one range for all devices.
// The whole fabric's is tried first, because it is the same on all hosts.
func narrow(f *fabric.Fabric, ports []Port) {
	var free []*Port
	astray := false
	for i := range ports {
		if p := &ports[i]; p.HCA != "" && p.Pin == nil && len(p.gids) > 0 && len(p.declared) > 0 {
			free = append(free, p)
			astray = astray || !p.right(p.Select)
		}
	}
	if !astray {
		return
	}
	for _, r := range []netip.Prefix{around(fabricAddresses(f, free[0].Select.IPv6)), around(portAddresses(free))} {
		fits := r.IsValid() && r.Bits() > 0
		for _, p := range free {
			s := p.Select
			s.Range = r
			fits = fits && p.right(s)
		}
		if !fits {
			continue
		}
		for _, p := range free {
			p.Select.Range = r
			p.GID, p.Wrong = Predict(p.gids, p.Select)
		}
		return
	}
	for _, p := range free {
		if p.Wrong == "" && !p.right(p.Select) {
			p.Wrong = fmt.Sprintf("GID %d is %s, which is no declared address, and no one address range tells NCCL apart from it: remove that address from %s", p.GID, address(p.gids, p.GID), p.Netdev)
		}
	}
}

// right says whether NCCL would choose a declared address.
func (p *Port) right(s Selection) bool {
	index, wrong := Predict(p.gids, s)
	return wrong == "" && slices.Contains(p.declared, address(p.gids, index))
}

func address(gids []facts.GID, index int) netip.Addr {
	for _, g := range gids {
		if g.Index == index {
			return g.Addr.Unmap()
		}
	}
	return netip.Addr{}
}

// fabricAddresses are those of all NICs that carry collectives.
func fabricAddresses(f *fabric.Fabric, ipv6 bool) (out []netip.Addr) {
	for _, h := range f.Hosts {
		for _, n := range Chosen(f, h) {
			out = append(out, ofFamily(n, ipv6)...)
		}
	}
	return out
}

func portAddresses(ports []*Port) (out []netip.Addr) {
	for _, p := range ports {
		out = append(out, p.declared...)
	}
	return out
}

// around is the smallest network that holds all addresses; invalid for none, or for two families.
func around(all []netip.Addr) netip.Prefix {
	if len(all) == 0 {
		return netip.Prefix{}
	}
	out := netip.PrefixFrom(all[0], all[0].BitLen())
	for _, a := range all {
		if a.Is4() != all[0].Is4() {
			return netip.Prefix{}
		}
		for !out.Contains(a) {
			out = netip.PrefixFrom(out.Addr(), out.Bits()-1).Masked()
		}
	}
	return out
}

// gidSettings tells NCCL what the prediction took for granted. NCCL has one setting for all its
// devices, so that devices which need different ones are a problem.
func gidSettings(ports []Port, at env.Version) (out Env, problems []string) {
	first := ports[0]
	for _, p := range ports[1:] {
		if p.Select.IPv6 != first.Select.IPv6 {
			problems = append(problems, fmt.Sprintf("%s and %s want GIDs of different families, and NCCL takes one for all devices", first.NIC, p.NIC))
		}
		if p.Select.version() != first.Select.version() {
			problems = append(problems, fmt.Sprintf("%s and %s want different RoCE versions, and NCCL takes one for all devices", first.NIC, p.NIC))
		}
		if (p.Pin == nil) != (first.Pin == nil) || p.Pin != nil && *p.Pin != *first.Pin {
			problems = append(problems, fmt.Sprintf("%s and %s have different pins of the GID index, and NCCL takes one for all devices", first.NIC, p.NIC))
		}
	}
	if first.Pin != nil {
		return Env{{"NCCL_IB_GID_INDEX", strconv.Itoa(*first.Pin), "pinned in the files, and checked on every device"}}, problems
	}
	if at.Known() && at.Before(choosesGID) && len(first.gids) > 0 {
		for _, p := range ports[1:] {
			if p.GID != first.GID {
				problems = append(problems, fmt.Sprintf("NCCL %s takes one GID index for all devices, and %s needs %d, %s %d: upgrade to %s or later, which chooses by itself", at, first.NIC, first.GID, p.NIC, p.GID, choosesGID))
			}
		}
		return Env{{"NCCL_IB_GID_INDEX", strconv.Itoa(first.GID), fmt.Sprintf("NCCL %s takes index 0 without it; %s and later choose by themselves", at, choosesGID)}}, problems
	}
	if first.Select.IPv6 {
		out = append(out, Setting{"NCCL_IB_ADDR_FAMILY", "AF_INET6", "gid.family = \"ipv6\" is declared; NCCL looks for IPv4 by itself"})
	}
	if first.Select.version() == 1 {
		out = append(out, Setting{"NCCL_IB_ROCE_VERSION_NUM", "1", "gid.version = 1 is declared; NCCL looks for RoCE v2 by itself"})
	}
	if r := first.Select.Range; r.IsValid() {
		out = append(out, Setting{"NCCL_IB_ADDR_RANGE", r.String(), "a NIC has other addresses, too, and this holds the declared ones alone"})
	}
	return out, problems
}
