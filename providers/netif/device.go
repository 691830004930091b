package netif

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// bond and vlan make devices. Their other settings, such as MTU and addresses, are those of a NIC: a resource of KindNIC with the same name
// comes after the device. The undo of a device comes before that of NICs, so that members have left a bond when their addresses return.
type (
	bond struct{}
	vlan struct{}
)

// DeviceStatus is a found bond or VLAN.
type DeviceStatus struct {
	Name    string
	Link    *host.Link // nil: it does not exist
	Below   []string   // the wanted members of a bond, in their order, or the wanted device below a VLAN
	Members []string   // those that it has now
}

// Absent reports whether the device does not exist.
func (s *DeviceStatus) Absent() bool { return s.Link == nil }

// Values of the attribute device.
const (
	attrDevice = "device"
	attrMember = "member"
	attrMTU    = "mtu"
	attrOn     = "on"
	attrID     = "id"
	attrMap    = "priority_map"
)

// modules is the part of a snapshot that says whether the kernel can make devices of the kind: "", or why not.
func modules(kind string) facts.Part[string] { return facts.Part[string](kind) }

// kernelModules are the modules of the kinds.
var kernelModules = map[string]string{KindBond: "bonding", KindVLAN: "8021q"}

// gatherModule finds out whether the kernel has the module of the kind, loaded, built in, or where modprobe(8) finds it: the kernel loads it
// by itself.
func gatherModule(ctx context.Context, r host.Reader, snap *facts.Snapshot, kind string) {
	module := kernelModules[kind]
	why := ""
	if _, err := r.ReadDir(ctx, "/sys/module/"+module); err != nil {
		known := ""
		for _, list := range []string{"modules.dep", "modules.builtin"} {
			if text, err := r.ReadFile(ctx, "/lib/modules/"+snap.System.Kernel+"/"+list); err == nil {
				known += "\n" + string(text)
			}
		}
		has := strings.Contains(known, "/"+module+".ko") ||
			slices.ContainsFunc(snap.Links, func(l host.Link) bool { return l.Kind == kind && !l.Planned })
		switch {
		case has:
		case snap.System.Lab:
			why = fmt.Sprintf("a namespace lab shares the kernel of its machine, which lacks the module %s: use `fabricform lab up -backend vm`, "+
				"whose hosts have their own kernels", module)
		default:
			why = fmt.Sprintf("the kernel %s of this host lacks the module %s: boot the distribution's standard kernel", snap.System.Kernel, module)
		}
	}
	modules(kind).Put(snap, why)
}

// Part says whether the kernel can make bonds.
func (bond) Part() facts.AnyPart { return modules(KindBond) }

// Part says whether the kernel can make VLANs.
func (vlan) Part() facts.AnyPart { return modules(KindVLAN) }

// Gather finds out whether the kernel can make bonds.
func (bond) Gather(ctx context.Context, r host.Reader, look resource.Look[DeviceSpec]) error {
	gatherModule(ctx, r, look.Snapshot, KindBond)
	return nil
}

// Gather finds out whether the kernel can make VLANs.
func (vlan) Gather(ctx context.Context, r host.Reader, look resource.Look[DeviceSpec]) error {
	gatherModule(ctx, r, look.Snapshot, KindVLAN)
	return nil
}

// predict adds the declared devices that do not exist yet to the snapshot, so that what refers to them can be planned. Their indexes are
// negative, and no device of the kernel has such an index.
func predict(snap *facts.Snapshot, wants []NICSpec) {
	for _, kind := range []string{KindBond, KindVLAN} { // a VLAN may be on a bond
		for _, want := range wants {
			d := want.Device
			if d == nil || d.Kind() != kind || exactLink(snap, d.Name) != nil {
				continue
			}
			l := host.Link{Index: -1 - len(snap.Links), Name: d.Name, Kind: kind, MTU: cmp.Or(want.MTU, kernelMTU), Planned: true}
			if d.VLAN != nil {
				if on, err := snap.Find(d.VLAN.On); err == nil {
					l.Parent, l.MTU = on.Index, cmp.Or(want.MTU, on.MTU)
				}
			}
			snap.Links = append(snap.Links, l)
		}
	}
}

// kernelMTU is the MTU of a new bond (ETH_DATA_LEN of include/uapi/linux/if_ether.h).
const kernelMTU = 1500

// exactLink returns the link of that name, or nil. An alternative name does not count: the kernel would make a device beside it.
func exactLink(snap *facts.Snapshot, name string) *host.Link {
	i := slices.IndexFunc(snap.Links, func(l host.Link) bool { return l.Name == name })
	if i < 0 {
		return nil
	}
	return &snap.Links[i]
}

// device finds the device of a kind. It returns an error if another device has its name, or if the kernel cannot make it.
func device(snap *facts.Snapshot, want DeviceSpec, kind string) (*DeviceStatus, error) {
	s := &DeviceStatus{Name: want.Name}
	l := exactLink(snap, want.Name)
	switch {
	case l == nil || l.Planned:
		if why := modules(kind).Of(snap); why != "" {
			return nil, errors.New(why)
		}
		if other := snap.Link(want.Name); other != nil && !other.Planned {
			return nil, fmt.Errorf("%s is an alternative name of %s: set netdev to another name", want.Name, other.Name)
		}
	case l.Kind != kind:
		return nil, fmt.Errorf("device %s exists already, and is %s: set netdev to another name, or remove the device", want.Name, described(l.Kind))
	case l.VLAN != nil && l.VLAN.Protocol != vlanProtocol:
		return nil, fmt.Errorf("VLAN %s exists already with protocol %s instead of %s: set netdev to another name, or remove it", want.Name, l.VLAN.Protocol, vlanProtocol)
	default:
		s.Link = l
	}
	return s, nil
}

// vlanProtocol is that of our VLANs. On one device, the kernel keeps the IDs of each protocol apart (net/8021q/vlan.h).
const vlanProtocol = "802.1q"

func described(kind string) string {
	if kind == "" {
		return "a NIC"
	}
	return "of kind " + kind
}

// Observe finds the bond and its wanted members.
func (bond) Observe(snap *facts.Snapshot, want DeviceSpec) (*DeviceStatus, error) {
	s, err := device(snap, want, KindBond)
	if err != nil {
		return nil, err
	}
	for i, m := range want.Bond.Members {
		l, err := snap.Find(m)
		if err != nil {
			return nil, err
		}
		if i == 0 && s.Link == nil && onManagement(snap, l.Name) { // -allow=management needs both paths at the same time
			return nil, fmt.Errorf("%s carries your SSH connection, and %s would have its MAC address beside it: name another member first in nics, "+
				"so that the path over the bond works before %s joins it", l.Name, want.Name, l.Name)
		}
		if master := snap.LinkByIndex(l.Master); master != nil && master.Name != want.Name {
			ours := ""
			if master.Kind == KindBond {
				ours = fmt.Sprintf(". If these files moved it, apply once without it in %s; if they gave the bond another name, write netdev = %q", want.Name, master.Name)
			}
			return nil, fmt.Errorf("%s is a member of %s, and a NIC has one bond or bridge: remove it there first%s", l.Name, master.Name, ours)
		}
		for _, above := range snap.Links {
			if above.Kind == KindVLAN && above.Parent == l.Index && !above.Planned {
				return nil, fmt.Errorf("VLAN %s is on %s, which is a member of a bond: remove the VLAN, and make it on %s. If these files moved it, "+
					"apply once without its block", above.Name, l.Name, want.Name)
			}
		}
		s.Below = append(s.Below, l.Name)
	}
	if s.Link != nil {
		s.Members = members(snap.Links, s.Link.Index)
	}
	return s, nil
}

// members returns the names of a bond's members.
func members(links []host.Link, bond int) (out []string) {
	for _, l := range links {
		if l.Master == bond {
			out = append(out, l.Name)
		}
	}
	return out
}

// Observe finds the VLAN and the device below it.
func (vlan) Observe(snap *facts.Snapshot, want DeviceSpec) (*DeviceStatus, error) {
	s, err := device(snap, want, KindVLAN)
	if err != nil {
		return nil, err
	}
	name, index := want.VLAN.On.Netdev, 0
	switch l, err := snap.Find(want.VLAN.On); {
	case err != nil && !want.VLAN.OnMade:
		return nil, err
	case err == nil:
		name, index = l.Name, l.Index
		if carries := max(l.MTU, want.VLAN.OnMTU); want.MTU > carries {
			return nil, fmt.Errorf("mtu %d: %s has %d, and the kernel refuses a VLAN with a larger one: set mtu = %d there, too", want.MTU, name, carries, want.MTU)
		}
		for _, o := range snap.Links {
			if o.Kind == KindVLAN && !o.Planned && o.Parent == index && o.Name != want.Name && o.VLAN != nil && o.VLAN.Protocol == vlanProtocol && o.VLAN.ID == want.VLAN.ID {
				return nil, fmt.Errorf("VLAN %d on %s exists already and is named %s: write netdev = %q to take it over, also if only its block has a "+
					"new name, or remove it. If these files exchanged IDs, apply once without this block", want.VLAN.ID, name, o.Name, o.Name)
			}
		}
	}
	s.Below = []string{name}
	if s.Link != nil {
		if s.Link.VLAN == nil {
			return nil, fmt.Errorf("the kernel did not report the VLAN ID of %s", want.Name)
		}
		if on := snap.LinkByIndex(s.Link.Parent); on != nil {
			s.Members = []string{on.Name}
		}
	}
	return s, nil
}

// Stable omits the facts of a link that change by themselves: carrier, state and speed.
func (bond) Stable(got *DeviceStatus) any { return stable(got) }

// Stable omits the facts of a link that change by themselves: carrier, state and speed.
func (vlan) Stable(got *DeviceStatus) any { return stable(got) }

func stable(got *DeviceStatus) any {
	out := *got
	if out.Link != nil {
		l := *out.Link
		l.Carrier, l.OperState, l.SpeedMbps = false, "", 0
		out.Link = &l
	}
	return out
}

func deviceAtom(kind, name, attribute, key string) resource.Atom {
	return resource.NewAtom(kind, name, strings.TrimSpace(attribute+" "+key))
}

// Comes returns the device that comes or goes with a value of a bond or VLAN, or the member that joins or leaves with it; "" if it is another value.
func Comes(a resource.Atom) string {
	attribute, key, _ := strings.Cut(a.Value(), " ")
	switch {
	case a.Kind() != KindBond && a.Kind() != KindVLAN:
	case a.Value() == attrDevice:
		return a.Thing()
	case attribute == attrMember:
		return key
	}
	return ""
}

// Diff returns the device, the options that differ, and the members one by one.
func (bond) Diff(want DeviceSpec, got *DeviceStatus) (out []resource.Change) {
	now := map[string]string{}
	if got.Link == nil {
		out = append(out, deviceAtom(KindBond, got.Name, attrDevice, "").Change("", KindBond))
	} else {
		now = bondValues(got.Link)
	}
	for _, o := range bondOptions {
		if to, declared := o.declared(want.Bond); declared && now[o.attribute] != to {
			out = append(out, bondChange(got, o, now[o.attribute], to))
		}
	}
	if got.Link == nil && want.MTU != 0 {
		out = append(out, resource.Change{Attribute: attrMTU, To: strconv.Itoa(want.MTU)}) // the NIC of the same name owns it
	}
	for _, m := range got.Members {
		if !slices.Contains(got.Below, m) {
			out = append(out, memberChange(got.Name, m, false))
		}
	}
	for _, m := range got.Below {
		if !slices.Contains(got.Members, m) {
			out = append(out, memberChange(got.Name, m, true))
		}
	}
	return out
}

func bondChange(got *DeviceStatus, o bondOption, from, to string) resource.Change {
	c := deviceAtom(KindBond, got.Name, o.attribute, "").Change(from, to)
	if o.down && got.Link != nil {
		c.Disruption, c.Downs = resource.LinkFlap, got.Name
	}
	return c
}

// memberChange is the change that adds a member, or removes it. The NIC goes down on the way (bond_enslave and __bond_release_one in
// drivers/net/bonding/bond_main.c).
func memberChange(bond, member string, add bool) resource.Change {
	c := deviceAtom(KindBond, bond, attrMember, member).Change(member, "")
	if add {
		c.From, c.To = "", member
	}
	c.Attribute, c.Disruption, c.Downs = attrMember, resource.LinkFlap, member
	return c
}

// Diff returns the device, and what differs. The kernel cannot change the ID of a VLAN, or the device below it: the VLAN is made again.
func (vlan) Diff(want DeviceSpec, got *DeviceStatus) (out []resource.Change) {
	now := vlanValues(got)
	for _, attribute := range []string{attrDevice, attrOn, attrID, attrMap} {
		to, declared := vlanWants(want, got)[attribute]
		if !declared || now[attribute] == to {
			continue
		}
		c := deviceAtom(KindVLAN, got.Name, attribute, "").Change(now[attribute], to)
		if got.Link != nil && attribute != attrMap {
			c.Disruption, c.Downs = resource.LinkFlap, got.Name
		}
		out = append(out, c)
	}
	if got.Link == nil && want.MTU != 0 {
		out = append(out, resource.Change{Attribute: attrMTU, To: strconv.Itoa(want.MTU)})
	}
	return out
}

// Present returns the bond, its declared options and its members.
func (bond) Present(want DeviceSpec, got *DeviceStatus) map[resource.Atom]string {
	out := map[resource.Atom]string{deviceAtom(KindBond, got.Name, attrDevice, ""): KindBond}
	now := bondValues(got.Link)
	for _, o := range bondOptions {
		if _, declared := o.declared(want.Bond); declared {
			out[deviceAtom(KindBond, got.Name, o.attribute, "")] = now[o.attribute]
		}
	}
	for _, m := range got.Members {
		out[deviceAtom(KindBond, got.Name, attrMember, m)] = m
	}
	return out
}

// Present returns the VLAN and what the block says about it.
func (vlan) Present(want DeviceSpec, got *DeviceStatus) map[resource.Atom]string {
	out := map[resource.Atom]string{}
	now := vlanValues(got)
	for attribute := range vlanWants(want, got) {
		out[deviceAtom(KindVLAN, got.Name, attribute, "")] = now[attribute]
	}
	return out
}

func vlanWants(want DeviceSpec, got *DeviceStatus) map[string]string {
	out := map[string]string{attrDevice: KindVLAN, attrOn: got.Below[0], attrID: strconv.Itoa(want.VLAN.ID)}
	if want.VLAN.PriorityMap != nil {
		out[attrMap] = priorityMap(want.VLAN.PriorityMap)
	}
	return out
}

func vlanValues(got *DeviceStatus) map[string]string {
	if got.Link == nil {
		return nil
	}
	out := map[string]string{attrDevice: KindVLAN, attrID: strconv.Itoa(got.Link.VLAN.ID), attrMap: priorityMap(got.Link.VLAN.Egress)}
	if len(got.Members) == 1 {
		out[attrOn] = got.Members[0]
	}
	return out
}

// priorityMap writes a map as ip-link(8) does: 3:4 5:5. A priority with PCP 0 is like one that is not in the map.
func priorityMap(m map[int]int) string {
	var out []string
	for _, p := range slices.Sorted(maps.Keys(m)) {
		if m[p] != 0 {
			out = append(out, fmt.Sprintf("%d:%d", p, m[p]))
		}
	}
	return strings.Join(out, " ")
}

func parsePriorityMap(text string) (map[int]int, error) {
	out := map[int]int{}
	for pair := range strings.FieldsSeq(text) {
		from, to, _ := strings.Cut(pair, ":")
		p, err := strconv.Atoi(from)
		pcp, err2 := strconv.Atoi(to)
		if err := errors.Join(err, err2); err != nil {
			return nil, fmt.Errorf("priority map %q: %w", text, err)
		}
		out[p] = pcp
	}
	return out, nil
}

// Touches reports a bond, or a member that comes or goes, that carries the operator's connection.
func (bond) Touches(snap *facts.Snapshot, want DeviceSpec, changes []resource.Change) string {
	return touchesDevice(snap, want.Name, changes)
}

// Touches reports a VLAN that carries the operator's connection.
func (vlan) Touches(snap *facts.Snapshot, want DeviceSpec, changes []resource.Change) string {
	return touchesDevice(snap, want.Name, changes)
}

func touchesDevice(snap *facts.Snapshot, name string, changes []resource.Change) string {
	m := snap.Management
	if m.Unknown != "" || !m.Client.IsValid() {
		return unknownPath(snap)
	}
	devices := []string{name}
	for _, c := range changes {
		if c.Attribute == attrMember {
			devices = append(devices, c.From+c.To) // one of them is empty
		}
	}
	for _, d := range devices {
		if onManagement(snap, d) {
			return fmt.Sprintf("%s carries your %s (%s to %s)", d, m.Connection(), m.Client, m.Server)
		}
	}
	return ""
}

// Claims reports whether the block sets the value. It claims every member of its bond.
func (bond) Claims(_ *facts.Snapshot, want DeviceSpec, a resource.Atom) bool {
	attribute, key, keyed := strings.Cut(a.Value(), " ")
	if a.Thing() != want.Name {
		return false
	}
	if o := bondOptionOf(attribute); o != nil {
		_, declared := o.declared(want.Bond)
		return declared
	}
	return attribute == attrDevice || attribute == attrMember && keyed && key != ""
}

// Claims reports whether the block sets the value.
func (p vlan) Claims(_ *facts.Snapshot, want DeviceSpec, a resource.Atom) bool {
	return p.Names(a) && a.Thing() == want.Name && (a.Value() != attrMap || want.VLAN.PriorityMap != nil)
}

// Names reports whether the atom is a value of a bond.
func (bond) Names(a resource.Atom) bool {
	attribute, key, _ := strings.Cut(a.Value(), " ")
	return a.Thing() != "" && (a.Value() == attrDevice || bondOptionOf(a.Value()) != nil || attribute == attrMember && key != "")
}

// Names reports whether the atom is a value of a VLAN.
func (vlan) Names(a resource.Atom) bool {
	return a.Thing() != "" && slices.Contains([]string{attrDevice, attrOn, attrID, attrMap}, a.Value())
}

// liveDevice returns the present value of an atom; "" if there is none.
func liveDevice(snap *facts.Snapshot, a resource.Atom) string {
	l := exactLink(snap, a.Thing())
	if l == nil || l.Planned || l.Kind != a.Kind() {
		return ""
	}
	attribute, key, _ := strings.Cut(a.Value(), " ")
	switch {
	case attribute == attrDevice:
		return l.Kind
	case attribute == attrMember:
		if slices.Contains(members(snap.Links, l.Index), key) {
			return key
		}
		return ""
	case l.Kind == KindBond:
		return bondValues(l)[attribute]
	}
	s := &DeviceStatus{Name: l.Name, Link: l}
	if on := snap.LinkByIndex(l.Parent); on != nil {
		s.Members = []string{on.Name}
	}
	return vlanValues(s)[attribute]
}

// Undo has the disruption of the change itself, and reports a device that carries the operator's connection.
func (bond) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return undoDevice(snap, a, to)
}

// Undo has the disruption of the change itself, and reports a device that carries the operator's connection.
func (vlan) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return undoDevice(snap, a, to)
}

func undoDevice(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	c := a.Change(liveDevice(snap, a), to)
	attribute, key, _ := strings.Cut(a.Value(), " ")
	o := bondOptionOf(attribute)
	switch {
	case c.From == to:
	case attribute == attrMember:
		c.Attribute, c.Disruption, c.Downs = attrMember, resource.LinkFlap, key
	case to == "" || a.Kind() == KindBond && o != nil && o.down || a.Kind() == KindVLAN && attribute != attrMap:
		c.Disruption, c.Downs = resource.LinkFlap, a.Thing()
	}
	if c.From == "" {
		return c, ""
	}
	return c, touchesDevice(snap, a.Thing(), []resource.Change{c})
}
