package netif

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Apply makes the bond or changes its options, and then changes its members one by one. What needs the bond to be down comes in one go.
func (p bond) Apply(ctx context.Context, h host.Host, want DeviceSpec, changes []resource.Change) error {
	snap, err := resource.Gather(ctx, h, p, want)
	if err != nil {
		return err
	}
	options := map[string]string{}
	for _, c := range changes {
		switch {
		case c.Attribute == attrDevice:
			if err := makeBond(h, snap, want); err != nil {
				return err
			}
			if snap, err = resource.Gather(ctx, h, p, want); err != nil {
				return err
			}
		case bondOptionOf(c.Attribute) != nil:
			options[c.Attribute] = c.To
		}
	}
	l := exactLink(snap, want.Name)
	if l == nil {
		return fmt.Errorf("device %s does not exist any more", want.Name)
	}
	if err := setBond(ctx, h, *l, options); err != nil {
		return err
	}
	for _, c := range changes {
		if c.Attribute != attrMember {
			continue
		}
		if err := changeMember(ctx, h, *l, c.From+c.To, c.To != ""); err != nil {
			return err
		}
	}
	return nil
}

// makeBond makes a bond with all declared options. It gets the MAC of its first member at once: the kernel gives it to a bond with the first
// member, and udev may give it another one before that.
func makeBond(h host.Host, snap *facts.Snapshot, want DeviceSpec) error {
	var data, more []attr
	first, err := snap.Find(want.Bond.Members[0])
	if err != nil {
		return err
	}
	if mac, err := net.ParseMAC(cmp.Or(first.PermMAC, first.MAC)); err == nil {
		more = append(more, attr{iflaAddress, mac})
	}
	for _, o := range bondOptions {
		if to, declared := o.declared(want.Bond); declared {
			a, err := o.encode(to)
			if err != nil {
				return err
			}
			data = append(data, a)
		}
	}
	return makeDevice(h, want.Name, KindBond, 0, want.MTU, data, more...)
}

// setBond sets the options that differ. Another mode needs a bond without members, which return afterwards. A bond that loses its last member
// gets a random MAC (__bond_release_one in bond_main.c), so it gets its own back.
func setBond(ctx context.Context, h host.Host, l host.Link, options map[string]string) error {
	now := bondValues(&l)
	var live, down []attr
	mode := false
	for _, o := range bondOptions {
		to, is := options[o.attribute]
		if !is || to == now[o.attribute] {
			continue
		}
		a, err := o.encode(to)
		if err != nil {
			return err
		}
		if o.down {
			down = append(down, a)
		} else {
			live = append(live, a)
		}
		mode = mode || o.attribute == attrMode
	}
	if down == nil && live == nil {
		return nil
	}
	if down == nil {
		return setOptions(h, l, live...)
	}
	links, err := h.Links(ctx)
	if err != nil {
		return err
	}
	if l.Up {
		if err := h.SetUp(l.Index, false); err != nil {
			return err
		}
	}
	var released []host.Link
	for _, m := range links {
		if mode && m.Master == l.Index {
			if err := release(h, m); err != nil {
				return err
			}
			released = append(released, m)
		}
	}
	errs := []error{setOptions(h, l, append(down, live...)...)}
	if mac, err := net.ParseMAC(l.MAC); err == nil && released != nil {
		errs = append(errs, setMAC(h, l, mac))
	}
	for _, m := range released {
		errs = append(errs, enslave(h, m, l.Index))
	}
	if l.Up {
		errs = append(errs, h.SetUp(l.Index, true))
	}
	return errors.Join(errs...)
}

// changeMember adds a member to a bond, or removes it, unless this is so already.
func changeMember(ctx context.Context, h host.Host, bond host.Link, name string, add bool) error {
	links, err := h.Links(ctx)
	if err != nil {
		return err
	}
	for _, m := range links {
		switch is := m.Master == bond.Index; {
		case m.Name != name || is == add:
		case add:
			return enslave(h, m, bond.Index)
		default:
			return release(h, m)
		}
	}
	return nil
}

// Apply makes the VLAN, makes it again, or changes its map of priorities.
func (p vlan) Apply(ctx context.Context, h host.Host, want DeviceSpec, changes []resource.Change) error {
	snap, err := resource.Gather(ctx, h, p, want)
	if err != nil {
		return err
	}
	got, err := p.Observe(snap, want)
	if err != nil {
		return err
	}
	again := false
	for _, c := range changes {
		again = again || c.Attribute != attrMap
	}
	if !again {
		return setOptions(h, *got.Link, egressMap(got.Link.VLAN.Egress, want.VLAN.PriorityMap))
	}
	on, err := snap.Find(want.VLAN.On)
	if err != nil {
		return err
	}
	if got.Link == nil {
		return makeVLAN(h, want.Name, on.Index, want.MTU, want.VLAN.ID, want.VLAN.PriorityMap)
	}
	mtu, egress := want.MTU, want.VLAN.PriorityMap
	if egress == nil {
		egress = got.Link.VLAN.Egress
	}
	if mtu == 0 {
		mtu = min(got.Link.MTU, on.MTU)
	}
	return remakeVLAN(ctx, h, *got.Link, on.Index, mtu, want.VLAN.ID, egress)
}

// remakeVLAN makes a VLAN again with another ID or on another device, which the kernel cannot change in place. It is up if it was, and has its
// sysctls and addresses: they may be of others, and then no record of ours brings them back. Link-local addresses and those of routers come by themselves.
func remakeVLAN(ctx context.Context, h host.Host, l host.Link, on, mtu, id int, egress map[int]int) error {
	addrs, err := h.Addrs(ctx)
	if err != nil {
		return err
	}
	sysctls, err := readSysctls(ctx, h, reached{links: []host.Link{l}})
	if err != nil {
		return err
	}
	if err := removeDevice(ctx, h, l); err != nil {
		return err
	}
	if err := makeVLAN(h, l.Name, on, mtu, id, egress); err != nil {
		return err
	}
	links, err := h.Links(ctx)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(links, func(now host.Link) bool { return now.Name == l.Name })
	if i < 0 {
		return fmt.Errorf("device %s does not exist any more", l.Name)
	}
	for _, s := range sysctls {
		now, err := h.Sysctl(ctx, s.Path)
		if err != nil || sameSysctl(now, s.Value) || path.Base(s.Path) == "mtu" { // IPv6 is off, or its MTU follows that of the VLAN
			continue
		}
		if err := h.SetSysctl(s.Path, s.Value); err != nil {
			return err
		}
	}
	if l.Up {
		if err := h.SetUp(links[i].Index, true); err != nil {
			return err
		}
	}
	for _, a := range addrs {
		six := a.Prefix.Addr().Is6()
		if a.Index != l.Index || a.Dynamic || six && (a.Prefix.Addr().IsLinkLocalUnicast() || mtu < smallestIPv6MTU) {
			continue
		}
		a.Index = links[i].Index
		if err := h.AddAddr(a); err != nil {
			return err
		}
	}
	return nil
}

func makeVLAN(h host.Host, name string, on, mtu, id int, egress map[int]int) error {
	data := []attr{{vlanID, binary.NativeEndian.AppendUint16(nil, uint16(id))}}
	if len(egress) > 0 {
		data = append(data, egressMap(nil, egress))
	}
	return makeDevice(h, name, KindVLAN, on, mtu, data)
}

// ApplyUndo removes the bond or a member, or sets the earlier option. A bond that is gone has neither.
func (bond) ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	l := exactLink(snap, a.Thing())
	if l == nil || l.Kind != KindBond {
		return nil
	}
	attribute, key, _ := strings.Cut(a.Value(), " ")
	switch {
	case attribute == attrDevice && to == "":
		return removeDevice(ctx, h, *l)
	case attribute == attrMember:
		return changeMember(ctx, h, *l, key, to != "")
	}
	if to = cmp.Or(to, newBond[attribute]); to == "" {
		return nil // the option came with the bond, and goes with it
	}
	return setBond(ctx, h, *l, map[string]string{attribute: to})
}

// ApplyUndo removes the VLAN, makes it again with its earlier ID or on its earlier device, or sets its earlier map.
func (vlan) ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	l := exactLink(snap, a.Thing())
	if l == nil || l.Kind != KindVLAN || l.VLAN == nil {
		return nil
	}
	switch {
	case a.Value() == attrDevice && to == "":
		return removeDevice(ctx, h, *l)
	case a.Value() == attrMap:
		wanted, err := parsePriorityMap(to)
		if err != nil {
			return err
		}
		return setOptions(h, *l, egressMap(l.VLAN.Egress, wanted))
	case to == "":
		return nil // the value came with the VLAN, and goes with it
	}
	id, on := l.VLAN.ID, l.Parent
	if a.Value() == attrOn {
		below := exactLink(snap, to)
		if below == nil {
			return fmt.Errorf("device %s does not exist", to)
		}
		on = below.Index
	} else if _, err := fmt.Sscan(to, &id); err != nil {
		return fmt.Errorf("VLAN ID %q: %w", to, err)
	}
	return remakeVLAN(ctx, h, *l, on, l.MTU, id, l.VLAN.Egress)
}
