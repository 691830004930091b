package fabric

import "slices"

// Bond is what makes a NIC a bond: several NICs that act as one. The kernel makes the device.
type Bond struct {
	// The members: `[nic.p0, nic.p1]`. They have no addresses of their own, and take the bond's MTU and class of traffic. Across a direct
	// link, the first member at one end is cabled to the first one at the other end, and so on.
	NICs []NICRef `ff:"nics,required"`
	// How members share the traffic. `"802.3ad"` is LACP: a switch or the other host then needs it, too.
	Mode string `ff:"mode,required,one=balance-rr|active-backup|balance-xor|broadcast|802.3ad|balance-tlb|balance-alb"`
	// How often the LACP partner is asked to send: every second (`"fast"`) or every 30 seconds. Default: unchanged, `"slow"` for a new bond.
	LACPRate string `ff:"lacp_rate,one=slow|fast"`
	// What decides which member sends a packet. `"layer3+4"` spreads connections, and Soft-RoCE's queue pairs. NICs spread RDMA by themselves. Default: unchanged,
	// `"layer2"` for a new bond.
	XmitHash string `ff:"xmit_hash,one=layer2|layer2+3|layer3+4|encap2+3|encap3+4|vlan+srcmac"`
	// How often members are checked for a carrier, in milliseconds. Without this check, a bond keeps sending over a dead member.
	MIIMon int `ff:"miimon,min=1,max=10000,default=100"`
	// How many members must work, so that an LACP bond has a carrier. Default: unchanged, 0 for a new bond, which means 1.
	MinLinks *int `ff:"min_links,min=0,max=255"`
}

// Hashes reports whether the mode chooses the member of a packet by XmitHash.
func (b *Bond) Hashes() bool {
	return slices.Contains([]string{"balance-xor", "802.3ad", "balance-tlb"}, b.Mode)
}

// VLAN is what makes a NIC a VLAN: the tagged traffic of a NIC or bond. The kernel makes the device.
type VLAN struct {
	// The NIC or bond that carries the VLAN: `nic.rail0` or `bond.b0`.
	On NICRef `ff:"on,required"`
	// VLAN ID.
	ID int `ff:"id,required,min=1,max=4094"`
	// The priority in the tag (PCP, 0 to 7) of sent packets, by the kernel's priority of the packet (0 to 7). RDMA CM and sockets take the
	// latter from the type of service. Priorities that are not in the map get PCP 0. Default: unchanged.
	PriorityMap map[int]int `ff:"priority_map,min=0,max=7"`
}

// BondBlock is the language's bond block: a bond with the attributes of a NIC. The model has it as a NIC.
type BondBlock struct {
	Bond
	// Interface name, at most 15 bytes. Default: the name of the block; with for_each, the key.
	Netdev string `ff:"netdev"`
	NIC    `ff:"without=netdev|match|single"`
}

// VLANBlock is the language's vlan block: a VLAN with the attributes of a NIC. The model has it as a NIC.
type VLANBlock struct {
	VLAN
	// Interface name, at most 15 bytes. Default: the name of the block; with for_each, the key.
	Netdev string `ff:"netdev"`
	NIC    `ff:"without=netdev|match|single"`
}

// Kind is the kind of block that declares the NIC: nic, bond or vlan.
func (n *NIC) Kind() string {
	switch {
	case n.Bond != nil:
		return "bond"
	case n.VLAN != nil:
		return "vlan"
	}
	return "nic"
}

// Below returns the references of a bond to its members, or of a VLAN to what carries it.
func (n *NIC) Below() []NICRef {
	switch {
	case n.Bond != nil:
		return n.Bond.NICs
	case n.VLAN != nil:
		return []NICRef{n.VLAN.On}
	}
	return nil
}

// Members returns the NICs of a bond, in their order; none if the NIC is not a bond.
func (h *Host) Members(bond *NIC) (out []*NIC) {
	if bond.Bond == nil {
		return nil
	}
	for _, r := range bond.Bond.NICs {
		if n := h.NIC(r.NIC); n != nil && r.Host == h.Name {
			out = append(out, n)
		}
	}
	return out
}

// BondOf returns the bond that has the NIC as a member, or nil.
func (h *Host) BondOf(n *NIC) *NIC {
	for _, b := range h.NICs {
		if b.Bond == nil {
			continue
		}
		for _, r := range b.Bond.NICs {
			if r == n.Ref() {
				return b
			}
		}
	}
	return nil
}

// Ports returns the NICs that carry the traffic of a NIC: of a bond its members, of a VLAN those of the NIC below it, and otherwise the NIC
// itself.
func (h *Host) Ports(n *NIC) []*NIC {
	if n.VLAN != nil {
		if on := h.NIC(n.VLAN.On.NIC); on != nil && on.VLAN == nil {
			return h.Ports(on)
		}
		return nil
	}
	if n.Bond != nil {
		return h.Members(n)
	}
	return []*NIC{n}
}
