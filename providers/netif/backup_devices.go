package netif

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Restorer returns the restorer of the whole package: members lose addresses and routes with a bond, and get them back after it.
func (bond) Restorer() resource.Restorer { return restorer{} }

// Restorer returns the restorer of the whole package.
func (vlan) Restorer() resource.Restorer { return restorer{} }

// backupDevice is a bond or VLAN of a backup. Body is nil if it did not exist.
type backupDevice struct {
	Name    string   `json:"name"`
	Kind    string   `json:"kind"`
	Body    []byte   `json:"body,omitempty"`    // the answer to RTM_GETLINK: kind, options, and the MAC of a bond, or if somebody set it
	On      string   `json:"on,omitempty"`      // the device below a VLAN
	Members []string `json:"members,omitempty"` // of a bond
	Active  string   `json:"active,omitempty"`  // its active member, and its primary one
	Primary string   `json:"primary,omitempty"`
}

// made reports whether a link is a device that this package makes.
func made(l host.Link) bool { return l.Kind == KindBond || l.Kind == KindVLAN }

// readDevices reads the named devices, bonds first: a VLAN may be on a bond. kinds has the kind of each.
func readDevices(ctx context.Context, r host.Reader, links []host.Link, kinds map[string]string) ([]backupDevice, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	bodies, err := r.Dump(ctx, host.GetLinks)
	if err != nil {
		return nil, err
	}
	raw := map[int]object{}
	for _, b := range bodies {
		o, err := parseObject(host.NewLink, b)
		if err != nil {
			return nil, err
		}
		raw[o.link()] = o
	}
	var out []backupDevice
	for name, kind := range kinds {
		d := backupDevice{Name: name, Kind: kind}
		for _, l := range links {
			o, there := raw[l.Index]
			if l.Name == name && l.Kind == kind && there {
				if err := d.read(ctx, r, links, l, o); err != nil {
					return nil, err
				}
			}
		}
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b backupDevice) int { return strings.Compare(a.Kind+" "+a.Name, b.Kind+" "+b.Name) })
	return out, nil
}

// setByHand is NET_ADDR_SET of include/uapi/linux/netdevice.h.
const setByHand = "3"

func (d *backupDevice) read(ctx context.Context, r host.Reader, links []host.Link, l host.Link, o object) error {
	data, err := o.options()
	if err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	name := func(index uint32) string {
		for _, m := range links {
			if index != 0 && m.Index == int(index) {
				return m.Name
			}
		}
		return ""
	}
	kept := object{kind: host.NewLink, head: make([]byte, headSizes[host.NewLink])}
	// A bond has the MAC of its first member, unless udev is faster and gives it one of its own (MACAddressPolicy= in systemd.link(5)), or
	// somebody else does.
	if l.Kind == KindBond || host.Text(ctx, r, "/sys/class/net/"+l.Name+"/addr_assign_type") == setByHand {
		kept.attrs = append(kept.attrs, attr{iflaAddress, o.get(iflaAddress)})
	}
	if l.Kind == KindBond {
		of := object{attrs: data}
		d.Active, d.Primary = name(of.number(bondActive)), name(of.number(bondPrimary))
		d.Members = members(links, l.Index)
		// A bond takes the MAC of its first member.
		slices.SortStableFunc(d.Members, func(a, b string) int { return first(links, a, l) - first(links, b, l) })
		// What only the kernel sets, and members, which are devices of their own.
		data = of.without(bondActive, bondPrimary, bondInfo).attrs
	} else {
		d.On = name(uint32(l.Parent))
	}
	kept.attrs = append(kept.attrs, linkInfo(l.Kind, data))
	d.Body = kept.encode()
	return nil
}

// first is 0 if the bond has the member's MAC, otherwise 1.
func first(links []host.Link, member string, bond host.Link) int {
	if linkOf(links, member).PermMAC == bond.MAC {
		return 0
	}
	return 1
}

// options returns the options in the answer to RTM_GETLINK.
func (o object) options() ([]attr, error) {
	info, err := parseAttrs(o.get(iflaLinkInfo))
	if err != nil {
		return nil, err
	}
	return parseAttrs(object{attrs: info}.get(infoData))
}

// decode returns the kept answer, and the options in it.
func (d backupDevice) decode() (object, []attr, error) {
	o, err := parseObject(host.NewLink, d.Body)
	if err != nil {
		return o, nil, err
	}
	data, err := o.options()
	return o, data, err
}

// state describes the device; equal texts mean equal states. It is "" if the device did not exist.
func (d backupDevice) state() string {
	if d.Body == nil {
		return ""
	}
	return fmt.Sprintf("%x on %s of %s primary %s", d.Body, d.On, strings.Join(d.sorted(), " "), d.Primary)
}

func (d backupDevice) sorted() []string { return slices.Sorted(slices.Values(d.Members)) }

// shown describes the device for people.
func (d backupDevice) shown() string {
	switch {
	case d.Body == nil:
		return ""
	case d.Kind == KindVLAN:
		return "VLAN on " + d.On
	}
	return strings.TrimSpace("bond of " + strings.Join(d.sorted(), ", "))
}

func (d backupDevice) key() string { return string(deviceAtom(d.Kind, d.Name, attrDevice, "")) }

func (d backupDevice) item() resource.Item {
	i := resource.Item{Key: d.key(), State: d.state(), Shown: d.shown(), Device: d.Name,
		As: resource.Change{Attribute: attrDevice, Atom: resource.Atom(d.key()), Disruption: resource.LinkFlap}}
	for _, o := range bondOptions {
		i.Others = append(i.Others, deviceAtom(d.Kind, d.Name, o.attribute, ""))
	}
	for _, a := range []string{attrOn, attrID, attrMap} {
		i.Others = append(i.Others, deviceAtom(d.Kind, d.Name, a, ""))
	}
	for _, m := range d.Members {
		i.Others = append(i.Others, deviceAtom(d.Kind, d.Name, attrMember, m))
	}
	return i
}

// kinds returns the kinds of the backup's devices, by name.
func (k *backup) kinds() map[string]string {
	out := map[string]string{}
	for _, d := range k.Devices {
		out[d.Name] = d.Kind
	}
	return out
}

// absent reports whether the backup has the device as one that did not exist.
func (k *backup) absent(name string) bool {
	return slices.ContainsFunc(k.Devices, func(d backupDevice) bool { return d.Name == name && d.Body == nil })
}

// devicesNow reads the backup's devices as they are now, by name.
func (k *backup) devicesNow(ctx context.Context, r host.Reader) (map[string]backupDevice, []host.Link, error) {
	links, err := r.Links(ctx)
	if err != nil {
		return nil, nil, err
	}
	all, err := readDevices(ctx, r, links, k.kinds())
	out := map[string]backupDevice{}
	for _, d := range all {
		out[d.Name] = d
	}
	return out, links, err
}

func linkOf(links []host.Link, name string) host.Link {
	for _, l := range links {
		if l.Name == name {
			return l
		}
	}
	return host.Link{Name: name}
}

// restoreDevices makes the devices as they were: VLANs go before the bonds below them, and come after them. It goes on past a step that fails.
func restoreDevices(ctx context.Context, h host.Host, k *backup) error {
	if len(k.Devices) == 0 {
		return nil
	}
	now, links, err := k.devicesNow(ctx, h)
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range slices.Backward(k.Devices) {
		if n := now[d.Name]; n.Body != nil && (d.Body == nil || d.remade(n)) {
			errs = append(errs, removeDevice(ctx, h, linkOf(links, d.Name)))
		}
	}
	for _, d := range k.Devices {
		if now, links, err = k.devicesNow(ctx, h); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if d.Body != nil && now[d.Name].Body == nil {
			errs = append(errs, d.make(h, links))
		}
	}
	for _, d := range k.Devices {
		if now, links, err = k.devicesNow(ctx, h); err != nil {
			return errors.Join(append(errs, err)...)
		}
		if n := now[d.Name]; d.Kind == KindBond && d.Body != nil && n.Body != nil && n.state() != d.state() {
			errs = append(errs, d.settle(h, n, links))
		}
	}
	return errors.Join(errs...)
}

// remade reports whether the device differs in what the kernel cannot change in place.
func (d backupDevice) remade(now backupDevice) bool {
	if d.Kind == KindVLAN {
		return !bytes.Equal(d.Body, now.Body) || d.On != now.On
	}
	_, was, err := d.decode()
	_, is, err2 := now.decode()
	return err == nil && err2 == nil && !bytes.Equal(object{attrs: was}.get(bondMode), object{attrs: is}.get(bondMode))
}

// make makes the device again. Of a bond, only the mode is set: the other options depend on it.
func (d backupDevice) make(h host.Host, links []host.Link) error {
	o, data, err := d.decode()
	if err != nil {
		return err
	}
	var more []attr
	if mac := o.get(iflaAddress); mac != nil {
		more = append(more, attr{iflaAddress, mac})
	}
	if d.Kind == KindVLAN {
		on := linkOf(links, d.On)
		if on.Index == 0 {
			return fmt.Errorf("make VLAN %s: device %s is gone", d.Name, d.On)
		}
		for _, a := range data {
			if a.kind&attrKind == vlanFlags && len(a.value) == 8 {
				put32(a.value, 4, u32(a.value, 0)|reorderHeader) // the mask: the kernel shows all bits, and accepts those that it knows
			}
		}
		return makeDevice(h, d.Name, d.Kind, on.Index, 0, data, more...)
	}
	return makeDevice(h, d.Name, d.Kind, 0, 0, []attr{{bondMode, object{attrs: data}.get(bondMode)}}, more...)
}

// settle sets the options of a bond that differ, one by one, and its members.
func (d backupDevice) settle(h host.Host, now backupDevice, links []host.Link) error {
	earlier, was, err := d.decode()
	if err != nil {
		return err
	}
	current, is, err := now.decode()
	if err != nil {
		return err
	}
	l := linkOf(links, d.Name)
	var errs []error
	if mac := earlier.get(iflaAddress); mac != nil && !bytes.Equal(mac, current.get(iflaAddress)) {
		errs = append(errs, setMAC(h, l, mac))
	}
	for _, a := range was {
		unset := a.kind&attrKind == bondActorSystem && bytes.Count(a.value, []byte{0}) == len(a.value) // the kernel takes no such address
		if unset || bytes.Equal(object{attrs: is}.get(a.kind&attrKind), a.value) {
			continue
		}
		if setOptions(h, l, a) != nil { // it may need the bond to be down; setLinks brings it up again
			errs = append(errs, h.SetUp(l.Index, false), setOptions(h, l, a))
		}
	}
	for _, name := range now.Members {
		if !slices.Contains(d.Members, name) {
			errs = append(errs, release(h, linkOf(links, name)))
		}
	}
	for _, name := range d.Members {
		if m := linkOf(links, name); m.Index != 0 && !slices.Contains(now.Members, name) {
			errs = append(errs, enslave(h, m, l.Index))
		}
	}
	for option, name := range map[uint16]string{bondPrimary: d.Primary, bondActive: d.Active} {
		earlier := map[uint16]string{bondPrimary: now.Primary, bondActive: now.Active}[option]
		if m := linkOf(links, name); name != "" && name != earlier && m.Index != 0 {
			errs = append(errs, setOptions(h, l, number32(option, m.Index)))
		}
	}
	return errors.Join(errs...)
}

// deviceDiffs lists the devices that are not as in the backup.
func (k *backup) deviceDiffs(ctx context.Context, r host.Reader) (out []string, err error) {
	if len(k.Devices) == 0 {
		return nil, nil
	}
	now, _, err := k.devicesNow(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, d := range k.Devices {
		switch n := now[d.Name]; {
		case n.state() == d.state():
		case d.Body == nil:
			out = append(out, d.Kind+" "+d.Name+" did not exist, and is there")
		case n.Body != nil: // compare reports one that is gone
			out = append(out, fmt.Sprintf("%s %s differs: it is a %s, was a %s", d.Kind, d.Name, n.shown(), d.shown()))
		}
	}
	return out, nil
}
