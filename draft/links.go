package draft

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/cabling"
	"github.com/fabricform/fabricform/fabric"
)

// links drafts a link for each direct cable, for each pair of bonds whose members are cabled one to one, and for the VLANs on both. Its name is
// that of both hosts and of the first end's NIC.
func (w *writer) links() (out []*block) {
	if w.in.Report == nil {
		return nil
	}
	names := map[string]bool{}
	cables := map[[2]fabric.NICRef][][2]fabric.NICRef{} // of bonds
	for _, c := range w.in.Report.Cables {
		for _, lane := range w.lanes(c) {
			if ends := [2]fabric.NICRef{w.outer(lane[0]), w.outer(lane[1])}; ends == lane {
				out = append(out, w.link(names, lane[0], lane[1])...)
			} else {
				cables[ends] = append(cables[ends], lane)
			}
		}
	}
	for _, ends := range slices.SortedFunc(maps.Keys(cables), func(x, y [2]fabric.NICRef) int {
		return cmp.Or(cmp.Compare(x[0].String(), y[0].String()), cmp.Compare(x[1].String(), y[1].String()))
	}) {
		a, b := w.nic(ends[0]), w.nic(ends[1])
		if n := len(cables[ends]); a.Bond == nil || b.Bond == nil || len(a.Bond.NICs) != n || len(b.Bond.NICs) != n {
			for _, c := range cables[ends] {
				w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: members of a bond are cabled to more than one other bond, or to no bond", c[0], c[1]))
			}
			continue
		}
		w.pair(a, b, cables[ends])
		out = append(out, w.link(names, ends[0], ends[1])...)
	}
	return out
}

// lanes returns the pairs of NICs that a direct cable connects; the first of each is of the first host by its name. Of several functions of
// one port, as on a DGX Spark, those with a subnet in common are a pair, and then the others in their order. Their links have one port group.
func (w *writer) lanes(c [2]cabling.End) (out [][2]fabric.NICRef) {
	a, b := w.ends(c[0]), w.ends(c[1])
	if len(a)*len(b) == 0 {
		w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: a NIC is not imported", c[0], c[1]))
		return nil
	}
	if x, y := w.outer(a[0]), w.outer(b[0]); cmp.Or(cmp.Compare(x.Host, y.Host), cmp.Compare(x.NIC, y.NIC)) > 0 { // the report has hosts as they were named
		a, b = b, a
	}
	other := map[fabric.NICRef]fabric.NICRef{}
	for _, inCommon := range []bool{true, false} {
		for _, x := range a {
			i := slices.IndexFunc(b, func(y fabric.NICRef) bool { return !inCommon || w.subnetInCommon(x, y) })
			if _, has := other[x]; !has && i >= 0 {
				other[x] = b[i]
				b = slices.Delete(slices.Clone(b), i, i+1)
			}
		}
	}
	for _, x := range a {
		y, has := other[x]
		if !has {
			b = append(b, x)
			continue
		}
		out = append(out, [2]fabric.NICRef{x, y})
	}
	for _, x := range b {
		w.left = append(w.left, fmt.Sprintf("direct cable %s – %s: the other end of %s is not imported", c[0], c[1], x))
	}
	if len(out) > 1 {
		port := unique(w.ports, out[0][0].Host+"-"+out[0][1].Host+"-port")
		for _, lane := range out {
			w.port[lane[0]] = port
		}
	}
	return out
}

// subnetInCommon reports whether an address of each NIC is in one subnet.
func (w *writer) subnetInCommon(a, b fabric.NICRef) bool {
	return slices.ContainsFunc(w.nic(a).Addresses, func(p netip.Prefix) bool {
		return slices.ContainsFunc(w.nic(b).Addresses, func(q netip.Prefix) bool { return p.Masked() == q.Masked() })
	})
}

// pair orders the members of the second bond as the cables lead from the first one.
func (w *writer) pair(a, b *fabric.NIC, cables [][2]fabric.NICRef) {
	ordered := *b.Bond
	ordered.NICs = nil
	for _, m := range a.Bond.NICs {
		for _, c := range cables {
			if c[0].NIC == m.NIC {
				ordered.NICs = append(ordered.NICs, fabric.NICRef{NIC: c[1].NIC})
			}
		}
	}
	if len(ordered.NICs) == len(b.Bond.NICs) { // otherwise, a report says of one member that it has two cables
		b.Bond = &ordered
	}
}

// link drafts the link of two ends, and those of VLANs on both that have one ID.
func (w *writer) link(names map[string]bool, a, b fabric.NICRef) (out []*block) {
	label := unique(names, a.Host+"-"+b.Host+"-"+a.NIC)
	if p, q := mtuOf(w.nic(a)), mtuOf(w.nic(b)); p != q {
		w.leave("link "+label, fmt.Sprintf("The ends of the cable have different MTUs: %s has %d, but %s has %d. Set one MTU at both", a, p, b, q))
	}
	x := w.shared("link", label)
	subnets, swapped := pairSubnets(w.nic(a), w.nic(b))
	first, second := a, b
	if swapped {
		first, second = b, a
	}
	x.set("endpoints", refs{w.ref(first), w.ref(second)})
	if x.left == "" && len(subnets) > 0 {
		x.set("subnet", subnetText(subnets))
		w.byLink[a], w.byLink[b] = true, true
	}
	w.sharedMTU(x, first, second)
	if port := w.port[a]; port != "" {
		x.set("port_group", quoted(port))
	}
	out = append(out, x)
	byID := map[int]fabric.NICRef{}
	for _, u := range w.vlans[b] {
		byID[w.nic(u).VLAN.ID] = u
	}
	for _, v := range w.vlans[a] {
		if u, both := byID[w.nic(v).VLAN.ID]; both {
			out = append(out, w.link(names, v, u)...)
		}
	}
	return out
}

// outer is the bond that has the NIC as a member, or else the NIC itself.
func (w *writer) outer(r fabric.NICRef) fabric.NICRef {
	if bond, is := w.bond[r]; is {
		return bond
	}
	return r
}

// leave says why a block is a comment, unless a reason is known already.
func (w *writer) leave(key, why string) {
	if w.in.Left != nil && w.in.Left[key] == "" {
		w.in.Left[key] = why
	}
}

// mtuOf is the MTU that the NIC has.
func mtuOf(n *fabric.NIC) int { return cmp.Or(n.MTU, usualMTU) }

// usualMTU is the MTU of a new Ethernet device (ETH_DATA_LEN in the kernel's include/uapi/linux/if_ether.h).
const usualMTU = 1500

// shared is a link or network, which gives its NICs what they share, unless it is left out.
func (w *writer) shared(kind, label string) *block {
	return &block{kind: kind, label: label, left: w.in.Left[kind+" "+label]}
}

// sharedMTU gives a link or network the MTU that all its NICs have.
func (w *writer) sharedMTU(x *block, all ...fabric.NICRef) {
	mtu := w.nic(all[0]).MTU
	for _, r := range all {
		if x.left != "" || w.nic(r).MTU != mtu || mtu == 0 {
			return
		}
	}
	x.set("mtu", literal(cty.NumberIntVal(int64(mtu))))
	for _, r := range all {
		w.mtu[r] = true
	}
}

func subnetText(subnets []netip.Prefix) text {
	if len(subnets) == 1 {
		return quoted(subnets[0].String())
	}
	return list(subnets)
}

// pairSubnets returns one subnet for each address family, which together give two ends exactly the addresses that they have, or nil.
// swapped: the second end has the first addresses.
func pairSubnets(a, b *fabric.NIC) (out []netip.Prefix, swapped bool) {
	if len(a.Addresses) != len(b.Addresses) || len(a.Addresses) == 0 || !onePerFamily(a) {
		return nil, false
	}
	for i, p := range sorted(a.Addresses) {
		q := sorted(b.Addresses)[i]
		first, second := usable(p.Masked())
		here := p.Addr() == second
		if p.Masked() != q.Masked() || i > 0 && here != swapped ||
			!slices.Contains([][2]netip.Addr{{first, second}, {second, first}}, [2]netip.Addr{p.Addr(), q.Addr()}) {
			return nil, false
		}
		swapped = here
		out = append(out, p.Masked())
	}
	return out, swapped
}

func sorted(all []netip.Prefix) []netip.Prefix {
	return slices.SortedFunc(slices.Values(all), func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
}

func onePerFamily(n *fabric.NIC) bool {
	count := map[bool]int{}
	for _, p := range n.Addresses {
		count[p.Addr().Is4()]++
	}
	return count[true] <= 1 && count[false] <= 1
}

// usable returns the first two usable addresses of a subnet: both of a /31 or /127, else those behind its own.
func usable(p netip.Prefix) (first, second netip.Addr) {
	first = p.Addr()
	if p.Bits() < p.Addr().BitLen()-1 {
		first = first.Next()
	}
	return first, first.Next()
}

// networks drafts a network for each segment, under the name of its NICs.
func (w *writer) networks() (out []*block) {
	if w.in.Report == nil {
		return nil
	}
	names := map[string]bool{}
	for _, members := range w.segments() {
		out = append(out, w.network(names, members))
		byID := map[int][]fabric.NICRef{}
		for _, r := range members {
			for _, v := range w.vlans[r] {
				byID[w.nic(v).VLAN.ID] = append(byID[w.nic(v).VLAN.ID], v)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			for _, same := range w.agreeing(byID[id]) {
				if subnets, _ := w.sharedSubnets(same); subnets != nil {
					x := w.network(names, same)
					x.comments = append(x.comments, fmt.Sprintf("guessed from the addresses: what is between these ports carries VLAN %d", id))
					out = append(out, x)
				}
			}
		}
	}
	return out
}

// segments returns the NICs or bonds of each segment that can be members of one network: they have their addresses in the same subnets, and
// one MTU. Of ports with several functions, the first ones are together, and so on.
func (w *writer) segments() (out [][]fabric.NICRef) {
	for _, s := range w.in.Report.Segments {
		var lanes [][]fabric.NICRef
		for _, e := range s.Ends {
			for i, r := range w.ends(e) {
				if i == len(lanes) {
					lanes = append(lanes, nil)
				}
				if !slices.Contains(lanes[i], w.outer(r)) {
					lanes[i] = append(lanes[i], w.outer(r))
				}
			}
		}
		for _, lane := range lanes {
			out = append(out, w.agreeing(lane)...)
		}
	}
	return out
}

// agreeing divides members by their subnets and MTU. A member that agrees with none is alone in no network, and a comment says so.
func (w *writer) agreeing(members []fabric.NICRef) (out [][]fabric.NICRef) {
	by := map[string][]fabric.NICRef{}
	var order []string
	for _, r := range members {
		n := w.nic(r)
		key := fmt.Sprint(n.MTU)
		for _, p := range sorted(n.Addresses) {
			key += " " + p.Masked().String()
		}
		if by[key] == nil {
			order = append(order, key)
		}
		by[key] = append(by[key], r)
	}
	for _, key := range order {
		switch {
		case len(by[key]) > 1:
			out = append(out, by[key])
		case len(members) > 1:
			r := by[key][0]
			var others []string
			for _, o := range members {
				if o != r {
					others = append(others, o.String())
				}
			}
			w.comments[r] = append(w.comments[r], fmt.Sprintf("in no network: no NIC that it is connected with declares the same MTU and subnets (%s)", names(others)))
		}
	}
	return out
}

// network drafts the network of its members.
func (w *writer) network(names map[string]bool, members []fabric.NICRef) *block {
	slices.SortFunc(members, func(a, b fabric.NICRef) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.NIC, b.NIC)) })
	name := members[0].NIC
	if slices.ContainsFunc(members, func(r fabric.NICRef) bool { return r.NIC != name }) {
		name = "segment"
	}
	x := w.shared("network", unique(names, name))
	var all refs
	for _, r := range members {
		all = append(all, w.ref(r))
	}
	x.set("members", all)
	if subnets, numbers := w.sharedSubnets(members); x.left == "" && subnets != nil {
		x.set("subnet", subnetText(subnets))
		for i, r := range members {
			w.number[r] = numbers[i]
		}
	}
	w.sharedMTU(x, members...)
	return x
}

// sharedSubnets returns the subnets, one for each family, in which each member has exactly the address of its number.
func (w *writer) sharedSubnets(members []fabric.NICRef) (subnets []netip.Prefix, numbers []int) {
	for _, r := range members {
		n := w.nic(r)
		if len(n.Addresses) == 0 || !onePerFamily(n) {
			return nil, nil
		}
		var own []netip.Prefix
		number := 0
		for i, p := range sorted(n.Addresses) {
			own = append(own, p.Masked())
			at, ok := offset(p)
			if !ok || i > 0 && at != number {
				return nil, nil
			}
			number = at
		}
		if subnets == nil {
			subnets = own
		}
		if !slices.Equal(own, subnets) {
			return nil, nil
		}
		numbers = append(numbers, number)
	}
	return subnets, numbers
}

// offset returns the number of an address in its subnet. It is from 1 to 65535.
func offset(p netip.Prefix) (int, bool) {
	base, raw := p.Masked().Addr().AsSlice(), p.Addr().AsSlice()
	n := 0
	for i := range raw {
		d := int(raw[i]) - int(base[i])
		if d != 0 && i < len(raw)-2 {
			return 0, false
		}
		n = n<<8 + d
	}
	return n, n > 0
}
