package fabric

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// kernelMTU is the MTU of a new bond (ETH_DATA_LEN of include/uapi/linux/if_ether.h).
const kernelMTU = 1500

// checkMade checks the bonds and VLANs of a host.
func (c *checker) checkMade(h *Host) {
	bonds := map[NICRef]*NIC{}
	for _, n := range h.NICs {
		if n.Bond != nil && !n.Invalid {
			c.checkBond(h, n, bonds)
		}
	}
	tags := map[string]*NIC{}
	for _, n := range h.NICs {
		if n.VLAN != nil && !n.Invalid {
			c.checkVLAN(h, n, bonds, tags)
		}
	}
	c.checkMadeSysctls(h)
	c.checkMembers(h, bonds)
	for _, x := range h.RXE {
		if n := c.nics[x.NIC]; n != nil && !x.Invalid && n.VLAN != nil {
			// rxe_newlink in the kernel's drivers/infiniband/sw/rxe/rxe.c
			c.errorf(x.At("nic"), "Soft-RoCE on a VLAN", "The kernel adds no Soft-RoCE device to a VLAN, and that of the NIC below also serves its VLANs. "+
				"Write nic = %s.", c.reference(n.VLAN.On))
		}
	}
}

// checkMadeSysctls reports keys of a bond or VLAN in the map of its host, which is set before the device is made.
func (c *checker) checkMadeSysctls(h *Host) {
	for _, key := range slices.Sorted(maps.Keys(h.Sysctl)) {
		for _, n := range h.NICs {
			family, last, is := strings.Cut(key, ".conf."+n.Netdev+".")
			if is && !n.Invalid && (n.Bond != nil || n.VLAN != nil) && (family == "net.ipv4" || family == "net.ipv6") {
				c.errorf(h.At("sysctl"), "Setting of a device that a block makes", "%s is set before %s makes %s. Write sysctl = { %q = … } in that block.", key,
					n.Kind()+" "+strconv.Quote(n.Name), n.Netdev, strings.TrimPrefix(family, "net.")+".conf."+last)
			}
		}
	}
}

// reference writes a reference to a NIC of the same host.
func (c *checker) reference(r NICRef) string {
	if n := c.nics[r]; n != nil {
		return n.Kind() + "." + r.NIC
	}
	return "nic." + r.NIC
}

// onlyLACP are the attributes that only LACP uses.
var onlyLACP = []string{"lacp_rate", "min_links"}

func (c *checker) checkBond(h *Host, n *NIC, bonds map[NICRef]*NIC) {
	if len(n.Bond.NICs) == 0 {
		c.errorf(n.At("nics"), "Bond without NICs", "Bond %s of host %s has no member. Write nics = [nic.p0, nic.p1].", n.Name, h.Name)
	}
	for _, attr := range onlyLACP {
		if _, set := n.AttrPos[attr]; set && n.Bond.Mode != "802.3ad" {
			c.errorf(n.At(attr), "Setting that the mode does not use", "%s belongs to LACP, but bond %s has mode = %q. Remove %s, or write mode = \"802.3ad\".",
				attr, n.Name, n.Bond.Mode, attr)
		}
	}
	if _, set := n.AttrPos["xmit_hash"]; set && !n.Bond.Hashes() {
		c.errorf(n.At("xmit_hash"), "Setting that the mode does not use", "Bond %s has mode = %q, which does not choose a member by xmit_hash. Remove it.",
			n.Name, n.Bond.Mode)
	}
	if n.Bond.MinLinks != nil && *n.Bond.MinLinks > len(n.Bond.NICs) {
		c.errorf(n.At("min_links"), "More links than NICs", "Bond %s has %d NICs, so %d of them can never work and the bond would never have a carrier. "+
			"Write min_links = %d or less.", n.Name, len(n.Bond.NICs), *n.Bond.MinLinks, len(n.Bond.NICs))
	}
	for _, r := range n.Bond.NICs {
		m := c.nics[r]
		switch {
		case m == nil || m.Invalid:
		case bonds[r] == n:
			c.errorf(n.At("nics"), "Duplicate member", "%s is listed twice in bond %s. Remove one.", r, n.Name)
		case bonds[r] != nil:
			c.errorf(n.At("nics"), "NIC in two bonds", "%s is a member of bonds %s and %s. A NIC has one bond.", r, bonds[r].Name, n.Name)
		default:
			bonds[r] = n
			c.checkBondMember(m, n)
		}
	}
}

// checkBondMember reports what a member of a bond cannot have.
func (c *checker) checkBondMember(m, bond *NIC) {
	ref := "bond." + bond.Name
	for _, attr := range []string{"addresses", "host_number"} {
		if _, set := m.AttrPos[attr]; set {
			c.errorf(m.At(attr), "Member of a bond with an address", "%s is a member of %s, and the bond has the addresses. Move %s to %s.", m.Ref(), ref, attr, ref)
			c.said[m.Ref()] = true
		}
	}
	if l := c.cable[m.Ref()]; l != nil {
		c.errorf(l.At("endpoints"), "Member of a bond in a link", "%s is a member of %s, which has the addresses and carries the traffic. "+
			"Write host.%s.%s instead: its members are the cables.", m.Ref(), ref, m.Host, ref)
		c.said[m.Ref()] = true
	}
	if w := c.net[m.Ref()]; w != nil {
		c.errorf(w.At("members"), "Member of a bond in a network", "%s is a member of %s, which has the addresses and carries the traffic. "+
			"Write host.%s.%s instead.", m.Ref(), ref, m.Host, ref)
		c.said[m.Ref()] = true
	}
	if m.Match.RDMA != "" {
		c.errorf(m.At("match"), "Member of a bond found by its RDMA device", "%s is a member of %s, and RoCE LAG replaces the RDMA devices of its members "+
			"by one of the bond. Write match = { pci = … }, { mac = … } or netdev.", m.Ref(), ref)
	}
	if !m.Up {
		c.errorf(m.At("up"), "Member of a bond that is down", "%s is a member of %s and would carry nothing. Remove up = false, or remove the NIC from the bond.",
			m.Ref(), ref)
	}
	if m.MTU != bond.MTU && (m.MTU != 0 || bond.MTU != 0) {
		where := "remove it: members take the bond's"
		if bond.MTU == 0 {
			where = fmt.Sprintf("move it to %s: members take the bond's", ref)
		}
		c.errorf(m.At("mtu"), "MTU differs from the bond's", "%s has mtu %d, and %s has %s. The kernel gives all members the MTU of the bond; %s.", m.Ref(), m.MTU,
			ref, shownMTU(bond.MTU), where)
	}
	if q := m.QoS; bond.QoS != nil && q != bond.QoS && q != nil && !q.Invalid && !bond.QoS.Invalid {
		c.errorf(m.At("qos"), "Class differs from the bond's", "%s has qos.%s, but %s has qos.%s, and its packets leave by this port. Remove qos here: members take the bond's.",
			m.Ref(), q.Name, ref, bond.QoS.Name)
	}
}

func shownMTU(mtu int) string {
	if mtu == 0 {
		return "none"
	}
	return fmt.Sprint(mtu)
}

func (c *checker) checkVLAN(h *Host, n *NIC, bonds map[NICRef]*NIC, tags map[string]*NIC) {
	on := c.nics[n.VLAN.On]
	if on == nil || on.Invalid {
		return
	}
	if b := bonds[n.VLAN.On]; b != nil {
		c.errorf(n.At("on"), "VLAN on a member of a bond", "%s is a member of bond %s. A VLAN on it would have one cable. Write on = bond.%s.",
			n.VLAN.On, b.Name, b.Name)
		return
	}
	if n.Up && !on.Up {
		c.errorf(n.At("on"), "VLAN on a NIC that is down", "%s is on %s, which has up = false, and the kernel takes no VLAN up on it. Remove up = false there, or write it here, too.",
			n.Ref(), on.Ref())
	}
	tag := fmt.Sprintf("%s %d", n.VLAN.On, n.VLAN.ID)
	if o := tags[tag]; o != nil {
		c.errorf(n.At("id"), "VLAN ID used twice", "VLANs %s and %s of host %s both have id %d on %s. Give each its own id, or remove one.",
			o.Name, n.Name, h.Name, n.VLAN.ID, n.VLAN.On.NIC)
	}
	tags[tag] = n
	parent := on.MTU
	if parent == 0 && on.Bond != nil && n.MTU > kernelMTU {
		c.errorf(n.At("mtu"), "VLAN larger than what carries it", "%s has mtu %d, and %s has none. Write mtu = %d there: the kernel refuses a VLAN with a larger MTU than "+
			"that of the device that carries it.", n.Ref(), n.MTU, on.Ref(), n.MTU)
	} else if parent != 0 && n.MTU > parent {
		c.errorf(n.At("mtu"), "VLAN larger than what carries it", "%s has mtu %d, but %s has %d. Write mtu = %d or less here, or raise that of %s: the tag is not part of the MTU.",
			n.Ref(), n.MTU, on.Ref(), parent, parent, c.reference(n.VLAN.On))
	}
	for _, p := range h.Ports(n) {
		if q := cmp.Or(p.QoS, n.QoS); n.QoS != nil && q != n.QoS && !q.Invalid && !n.QoS.Invalid {
			c.errorf(n.At("qos"), "Class differs from the port's", "%s has qos.%s, but its packets leave by %s, which has qos.%s. Use one class for both.",
				n.Ref(), n.QoS.Name, p.Ref(), q.Name)
			return
		}
	}
}

// checkMadeEnds reports ends of a cable that never understand each other. A NIC block may be an existing bond or VLAN, so it is not compared.
func (c *checker) checkMadeEnds(l *Link, a, b *NIC) {
	pos := l.At("endpoints")
	if made, other := a, b; (a.VLAN == nil) != (b.VLAN == nil) {
		if a.VLAN == nil {
			made, other = b, a
		}
		c.warnf(pos, "VLAN at one end of a link", "%s sends packets with the tag of VLAN %d, and %s receives them only if it is a VLAN with this ID that "+
			"others made, or a switch between them takes the tag away. Otherwise write a vlan block there.", made.Ref(), made.VLAN.ID, other.Ref())
	}
	if a.VLAN != nil && b.VLAN != nil {
		if a.VLAN.ID != b.VLAN.ID {
			c.errorf(pos, "VLAN IDs differ at the ends of a link", "%s has id %d, and %s has id %d, so neither receives what the other sends. Write the same id.",
				a.Ref(), a.VLAN.ID, b.Ref(), b.VLAN.ID)
		}
		a, b = c.nics[a.VLAN.On], c.nics[b.VLAN.On]
	}
	if a == nil || b == nil || a.Bond == nil || b.Bond == nil {
		return
	}
	if m, n := len(a.Bond.NICs), len(b.Bond.NICs); m != n {
		c.errorf(pos, "Bonds of different size at the ends of a link", "%s has %d NICs, and %s has %d. Each of them is one end of a cable of link %s: give both bonds "+
			"the same number.", a.Ref(), m, b.Ref(), n, l.Title())
	}
	if (a.Bond.Mode == "802.3ad") != (b.Bond.Mode == "802.3ad") {
		c.errorf(pos, "LACP at one end of a link", "%s has mode = %q, and %s has mode = %q. LACP needs both ends: write the same mode.",
			a.Ref(), a.Bond.Mode, b.Ref(), b.Bond.Mode)
	}
}

// checkMembers reports uses of a bond's member that only the bond itself can have.
func (c *checker) checkMembers(h *Host, bonds map[NICRef]*NIC) {
	use := func(r NICRef, at Pos, what string) {
		if b := bonds[r]; b != nil {
			c.errorf(at, "Member of a bond", "%s uses %s, a member of bond %s, which has the addresses. Write bond.%s.", what, r, b.Name, b.Name)
		}
	}
	for _, x := range h.RXE {
		use(x.NIC, x.At("nic"), "rxe "+x.Name)
	}
	for _, r := range h.Routes {
		use(r.NIC, r.At("nic"), "route "+r.Name)
	}
	for _, p := range h.Policy {
		use(p.NIC, p.At("nic"), "policy_route "+p.Name)
	}
	nccl, from := h.NCCL, h.NCCL.Block
	if nccl.HCA == nil {
		nccl, from = c.f.NCCL, c.f.NCCL.Block
	}
	for _, r := range nccl.HCA {
		use(r, from.At("hca"), "nccl")
	}
}
