package config

import (
	"cmp"
	"math/big"
	"net/netip"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/fabric"
)

// readNamed reads all links, or all networks. It reports a second one of the same name.
func (l *loader) readNamed(what string, read func(*hclsyntax.Block, instance)) {
	seen := map[string]bool{}
	for _, k := range l.blocks[what] {
		insts, _ := l.expand(k, scope{})
		for _, i := range insts {
			if seen[i.name] {
				l.duplicate(k.DefRange(), "Duplicate "+what+" name", "Another %s is named %q. %s", what, i.name, another(what, i))
			}
			seen[i.name] = true
			if i.on {
				read(k, i)
			}
		}
	}
}

func (l *loader) link(k *hclsyntax.Block, i instance) {
	n := &fabric.Link{Block: l.place(k), Name: i.name, BlockName: k.Labels[0]}
	spec := language().block("link")
	spec.defaults(value(n))
	n.Validate = l.f.Validate
	n.Invalid = !l.attributes(spec, k.Body, i.s, value(n), nil)
	l.thresholds(sub(k.Body, "validate"), i.s, &n.Validate)
	if n.ExpectGbps == 0 {
		n.ExpectGbps = n.SpeedGbps
	}
	if n.Invalid {
		for _, r := range n.Endpoints {
			l.nics[r].Invalid = true // its address may come from the invalid link
		}
		return
	}
	if len(n.Endpoints) != 2 {
		l.errorf(l.ranges[n.At("endpoints")], "Link needs two NICs",
			"Link %s has %d. Write endpoints = [host.a.nic.rail0, host.b.nic.rail0]; for three or more NICs, use a network.",
			n.Title(), len(n.Endpoints))
		return
	}
	for _, r := range n.Endpoints {
		if l.off[r] {
			l.warnf(l.ranges[n.At("endpoints")], "Link skipped", "%s is disabled, so link %s is skipped.", r, n.Title())
			return
		}
	}
	subnet := l.linkSubnet(n)
	if a, b := l.nics[n.Endpoints[0]], l.nics[n.Endpoints[1]]; len(n.Subnet) > 0 && a.AddressesSet && b.AddressesSet && a != b {
		l.errorf(l.ranges[n.At("subnet")], "Conflicting addresses", "%s and %s have addresses, but link %s also assigns them some from %s. "+
			"Remove subnet, or addresses at both ends.", a.Ref(), b.Ref(), n.Title(), n.Subnet[0])
		subnet = false
	}
	for at, r := range n.Endpoints {
		nic := l.nics[r]
		if nic.MTU == 0 {
			nic.MTU = n.MTU
		}
		nic.Invalid = nic.Invalid || !subnet
		for _, s := range n.Subnet {
			if !subnet {
				break
			}
			l.give(nic, s, uint64(at)+first(s), "link "+n.Title())
		}
	}
	l.families(n.Subnet, n.Block)
	l.f.Links = append(l.f.Links, n)
}

// linkSubnet reports whether a link's subnets have two addresses, and are those of no earlier link.
func (l *loader) linkSubnet(n *fabric.Link) bool {
	at := l.ranges[n.At("subnet")]
	for _, s := range n.Subnet {
		if s.IsSingleIP() {
			l.errorf(at, "Subnet too small", "Link %s needs two addresses, but %s has one. Use a larger subnet, such as %s.",
				n.Title(), s, netip.PrefixFrom(s.Addr(), s.Bits()-1).Masked())
			return false
		}
		for _, o := range l.f.Links {
			if slices.Contains(o.Subnet, s) {
				l.errorf(at, "Subnet used twice", "Links %s and %s both have subnet %s. Give each link its own subnet; with for_each, "+
					"compute it from each.key or each.value, for example with cidrsubnet().", o.Title(), n.Title(), s)
				return false
			}
		}
	}
	return true
}

// first returns the number of the first usable address of a subnet. A /31 (RFC 3021) and a /127
// (RFC 6164) use both addresses. Elsewhere number 0 is the network address, or in IPv6 the
// subnet-router anycast address.
func first(s netip.Prefix) uint64 {
	if s.Bits() >= s.Addr().BitLen()-1 {
		return 0
	}
	return 1
}

// give adds the n-th address of a subnet to a NIC.
func (l *loader) give(nic *fabric.NIC, s netip.Prefix, n uint64, from string) {
	if nic.AttrPos["addresses"] != (fabric.Pos{}) {
		l.errorf(l.ranges[nic.At("addresses")], "Conflicting addresses",
			"%s has addresses, but %s also assigns it one from %s. Keep one.", nic.Ref(), from, s)
		nic.Invalid = true
		return
	}
	host := s.Addr().BitLen() - s.Bits()
	size := new(big.Int).Lsh(big.NewInt(1), uint(host))
	last := new(big.Int).Sub(size, big.NewInt(1))
	k := new(big.Int).SetUint64(n)
	broadcast := s.Addr().Is4() && host > 1 && k.Cmp(last) == 0
	if k.Cmp(last) > 0 || broadcast {
		l.errorf(l.ranges[nic.At("host_number")], "Subnet too small",
			"%s: %s has no host number %d. Use a larger subnet or a smaller host_number.", nic.Ref(), s, n)
		nic.Invalid = true
		return
	}
	nic.AddressesSet = true
	nic.Addresses = append(nic.Addresses, netip.PrefixFrom(addBig(s.Addr(), k), s.Bits()))
}

// families reports two subnets of the same address family.
func (l *loader) families(subnets []netip.Prefix, b fabric.Block) {
	if len(subnets) > 2 || len(subnets) == 2 && subnets[0].Addr().Is4() == subnets[1].Addr().Is4() {
		l.errorf(l.ranges[b.At("subnet")], "Two subnets of one family", "subnet takes one network, or one IPv4 and one IPv6 network.")
	}
}

func (l *loader) network(k *hclsyntax.Block, i instance) {
	n := &fabric.Network{Block: l.place(k), Name: i.name, BlockName: k.Labels[0]}
	spec := language().block("network")
	spec.defaults(value(n))
	n.Validate = l.f.Validate
	n.Invalid = !l.attributes(spec, k.Body, i.s, value(n), nil)
	l.thresholds(sub(k.Body, "validate"), i.s, &n.Validate)
	if n.ExpectGbps == 0 {
		n.ExpectGbps = n.SpeedGbps
	}
	n.Members = slices.DeleteFunc(n.Members, func(r fabric.NICRef) bool { return l.off[r] })
	slices.SortStableFunc(n.Members, func(a, b fabric.NICRef) int { return strings.Compare(a.String(), b.String()) })
	for _, r := range n.Members {
		nic := l.nics[r]
		if n.Invalid {
			nic.Invalid = true // its addresses may come from the invalid network
			continue
		}
		if nic.MTU == 0 {
			nic.MTU = n.MTU
		}
		if nic.HostNumber == 0 {
			continue
		}
		if n.Routed && len(n.Subnet) > 0 {
			continue // reported below, once for the network
		}
		for _, s := range n.Subnet {
			l.give(nic, s, uint64(nic.HostNumber), "network "+n.Title())
		}
	}
	if n.Routed && len(n.Subnet) > 0 {
		l.errorf(l.ranges[n.At("subnet")], "Routed network with a subnet",
			"Each member of a routed network has its own subnet. Remove subnet and set addresses on the NICs, or remove routed.")
		n.Invalid = true
	}
	l.families(n.Subnet, n.Block)
	l.f.Networks = append(l.f.Networks, n)
}

// giveMTU gives the members of a bond its MTU, as the kernel does (bond_change_mtu in drivers/net/bonding/bond_main.c).
func (l *loader) giveMTU() {
	for _, h := range l.f.Hosts {
		for _, b := range h.NICs {
			for _, n := range h.Members(b) {
				n.MTU = cmp.Or(n.MTU, b.MTU)
			}
		}
	}
}

func (l *loader) loginMesh(k *hclsyntax.Block, i instance) {
	m := &fabric.LoginMesh{Block: l.place(k), Name: i.name}
	m.Invalid = !l.attributes(language().block("login_mesh"), k.Body, i.s, value(m), nil)
	m.Hosts = slices.DeleteFunc(m.Hosts, func(r fabric.HostRef) bool { return l.f.Host(string(r)) == nil }) // disabled ones
	slices.Sort(m.Hosts)
	l.f.LoginMeshes = append(l.f.LoginMeshes, m)
}

// thresholds overrides inherited thresholds with those of validate blocks. Only attributes that are
// set override; the defaults of a nested block do not.
func (l *loader) thresholds(blocks []*hclsyntax.Block, s scope, v *fabric.Validate) {
	spec := language().block("validate")
	for _, k := range blocks {
		l.attributes(spec, k.Body, s, value(v), nil)
		for _, kind := range spec.blocks {
			for _, inner := range sub(k.Body, kind.name) {
				l.attributes(kind, inner.Body, s, value(v).FieldByIndex(kind.field), nil)
			}
		}
	}
}
