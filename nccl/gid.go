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

// choosesGID is the first version of NCCL that chooses a GID; earlier versions use index 0.
var choosesGID = env.Version{Major: 2, Minor: 21, Patch: 5}

// narrow sets an address range on the ports if NCCL would otherwise choose a GID that is not a declared
// address, because a NIC also has addresses that the files do not declare, or that is of another netdev on
// the same port, such as the NIC below a VLAN. NCCL takes one range for all devices. The range of the whole
// fabric is tried first, because it is the same on all hosts. A range in nccl.env stays as it is.
func narrow(f *fabric.Fabric, ports []Port) {
	var free []*Port
	astray := false
	for i := range ports {
		if p := &ports[i]; p.HCA != "" && p.Pin == nil && len(p.gids) > 0 {
			free = append(free, p)
			astray = astray || !p.right(p.Select)
		}
	}
	if !astray {
		return
	}
	for _, r := range []netip.Prefix{around(fabricAddresses(f, free[0].Select.IPv6)), around(portAddresses(free))} {
		fits := r.IsValid() && !free[0].ranged
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
			p.GID, p.Wrong = PredictGID(p.gids, p.Select)
		}
		return
	}
	for _, p := range free {
		if p.Wrong == "" && !p.right(p.Select) {
			g := slot(p.gids, p.GID)
			is, not, on := g.Addr.Unmap().String(), "a declared address", p.Netdev
			if !g.Of(p.Netdev) {
				is, not, on = is+" of "+g.Netdev, "an address of "+p.Netdev, g.Netdev
			}
			p.Wrong = fmt.Sprintf("NCCL would use GID %d, which is %s and not %s, and no one address range excludes it: remove that "+
				"address from %s", p.GID, is, not, on)
			if p.ranged {
				p.Wrong = fmt.Sprintf("NCCL would use GID %d, which is %s and not %s: remove NCCL_IB_ADDR_RANGE from nccl.env, or "+
					"correct it", p.GID, is, not)
			}
		}
	}
}

// right reports whether NCCL would choose an address of the NIC's own netdev, and a declared one if the
// files declare any.
func (p *Port) right(s GIDSelection) bool {
	index, wrong := PredictGID(p.gids, s)
	g := slot(p.gids, index)
	return wrong == "" && g.Of(p.Netdev) && (len(p.own) == 0 || slices.Contains(p.own, g.Addr.Unmap()))
}

// slot returns the GID of that index; an empty one if there is none.
func slot(gids []facts.GID, index int) facts.GID {
	for _, g := range gids {
		if g.Index == index {
			return g
		}
	}
	return facts.GID{Index: index}
}

// fabricAddresses returns the addresses of all NICs that carry collectives.
func fabricAddresses(f *fabric.Fabric, ipv6 bool) (out []netip.Addr) {
	for _, h := range f.Hosts {
		for _, n := range f.ForCollectives(h) {
			out = append(out, ofFamily(n, ipv6)...)
		}
	}
	return out
}

func portAddresses(ports []*Port) (out []netip.Addr) {
	for _, p := range ports {
		out = append(out, p.own...)
	}
	return out
}

// around returns the smallest network that contains all addresses. It is invalid for no addresses, or for
// two address families.
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

// gidSettings returns the settings under which NCCL chooses the predicted GIDs. NCCL has one setting for
// all devices, so devices that need different settings are a problem.
func gidSettings(ports []Port, at env.Version) (out Env, problems []string) {
	first := ports[0]
	for _, p := range ports[1:] {
		if p.Select.IPv6 != first.Select.IPv6 {
			problems = append(problems, fmt.Sprintf("%s and %s need GIDs of different address families, but NCCL uses one family for "+
				"all devices", first.NIC, p.NIC))
		}
		if p.Select.version() != first.Select.version() {
			problems = append(problems, fmt.Sprintf("%s and %s need different RoCE versions, but NCCL uses one version for all devices",
				first.NIC, p.NIC))
		}
		if (p.Pin == nil) != (first.Pin == nil) || p.Pin != nil && *p.Pin != *first.Pin {
			problems = append(problems, fmt.Sprintf("%s and %s pin different GID indexes, but NCCL uses one index for all devices",
				first.NIC, p.NIC))
		}
	}
	if first.Pin != nil {
		return Env{{"NCCL_IB_GID_INDEX", strconv.Itoa(*first.Pin), "pinned in the files and checked on every device"}}, problems
	}
	if at.Known() && at.Before(choosesGID) && len(first.gids) > 0 {
		for _, p := range ports[1:] {
			if p.GID != first.GID {
				problems = append(problems, fmt.Sprintf("NCCL %s uses one GID index for all devices, but %s needs %d and %s needs %d: "+
					"upgrade to %s or later, which chooses per device", at, first.NIC, first.GID, p.NIC, p.GID, choosesGID))
			}
		}
		return Env{{"NCCL_IB_GID_INDEX", strconv.Itoa(first.GID),
			fmt.Sprintf("NCCL %s would use index 0; %s and later choose by address", at, choosesGID)}}, problems
	}
	if first.Select.IPv6 {
		out = append(out, Setting{"NCCL_IB_ADDR_FAMILY", "AF_INET6", "gid.family = \"ipv6\" is declared; NCCL's default is IPv4"})
	}
	if first.Select.version() == 1 {
		out = append(out, Setting{"NCCL_IB_ROCE_VERSION_NUM", "1", "gid.version = 1 is declared; NCCL's default is RoCE v2"})
	}
	if r := first.Select.Range; r.IsValid() && !first.ranged {
		out = append(out, Setting{"NCCL_IB_ADDR_RANGE", r.String(),
			"an RDMA port also has other addresses, and this range contains only the declared ones"})
	}
	return out, problems
}
