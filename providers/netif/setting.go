package netif

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// setting is one row of settings: what plans, applies, undoes, backs up and restores one attribute of a NIC.
// A row with get is a value of the link itself. The other rows are sets, whose members have a key after the attribute's name.
type setting struct {
	attribute string // its name in changes, and in atoms before the key

	get  func(l host.Link) string                                          // the link's value
	live func(snap *facts.Snapshot, l host.Link, key string) string        // the member's value; "" if there is none
	set  func(context.Context, host.Host, host.Link, string, string) error // sets the value of the key; "" removes a member

	declared func(want NICSpec, key string) (value string, is bool) // false if the block leaves it alone
	diff     func(want NICSpec, got *NICStatus) []resource.Change   // of a set; a link's values are compared as they are
	complete func(c *resource.Change, hardware bool)                // adds what c does to traffic, and to which address; nil: nothing

	common       bool   // a change of it needs the same change at the other end of the link
	beforeSysctl bool   // it is restored before the sysctls, otherwise after them
	sysfs        string // the file below /sys/class/net/NETDEV that udev(7) writes at boot if no network manager sets the value
}

// settings are all attributes of a NIC, in the order of a plan. An attribute of the link is added by a row here and by its
// fields in fabric.NIC, NICSpec and host.Link.
var settings = []setting{
	{
		attribute: "sysctl",
		live: func(snap *facts.Snapshot, l host.Link, key string) string {
			return snap.Sysctls[facts.LinkSysctl(key, l.Name)]
		},
		set: func(_ context.Context, h host.Host, l host.Link, key, to string) error {
			return h.SetSysctl(facts.LinkSysctl(key, l.Name), to)
		},
		declared: func(want NICSpec, key string) (string, bool) {
			value, is := want.WantedSysctls()[key]
			return value, is
		},
		diff: diffSysctls,
	},
	{
		attribute: "mtu",
		get:       func(l host.Link) string { return strconv.Itoa(l.MTU) },
		set: func(_ context.Context, h host.Host, l host.Link, _, to string) error {
			mtu, err := strconv.Atoi(to)
			if err != nil {
				return err
			}
			return h.SetMTU(l.Index, mtu)
		},
		declared: func(want NICSpec, _ string) (string, bool) { return strconv.Itoa(want.MTU), want.MTU != 0 },
		complete: func(c *resource.Change, hardware bool) {
			if hardware { // the driver resets the port; a software device does not
				c.Disruption = resource.LinkFlap
			}
		},
		common: true, beforeSysctl: true, // below 1280 there are no IPv6 sysctls
		sysfs: "mtu",
	},
	{
		attribute: "state",
		get:       func(l host.Link) string { return state(l.Up) },
		set: func(_ context.Context, h host.Host, l host.Link, _, to string) error {
			return h.SetUp(l.Index, to == state(true))
		},
		declared: func(want NICSpec, _ string) (string, bool) { return state(want.Up), true },
		complete: func(c *resource.Change, _ bool) {
			if c.To == state(false) {
				c.Disruption, c.Downs = resource.LinkFlap, c.Atom.Thing()
			}
		},
	},
	{
		attribute: "address",
		live: func(snap *facts.Snapshot, l host.Link, key string) string {
			i := slices.IndexFunc(snap.Addrs, func(a host.Addr) bool { return a.Index == l.Index && a.Prefix.String() == key })
			if i < 0 {
				return ""
			}
			return snap.Addrs[i].String()
		},
		set: func(ctx context.Context, h host.Host, l host.Link, key, to string) error {
			a, err := host.ParseAddr(cmp.Or(to, key))
			if err != nil {
				return err
			}
			if to == "" {
				return changeAddresses(ctx, h, l, nil, []host.Addr{a})
			}
			return changeAddresses(ctx, h, l, []host.Addr{a}, nil)
		},
		// A block with addresses claims every address of the NIC.
		declared: func(want NICSpec, key string) (string, bool) { return key, want.AddressesSet },
		diff:     diffAddresses,
		complete: func(c *resource.Change, _ bool) {
			if p, err := netip.ParsePrefix(strings.TrimPrefix(c.Attribute, "address ")); err == nil {
				c.Attribute, c.Address = "address", p.Addr()
			}
		},
	},
}

// settingOf returns the row of an atom and the key of a set's member; nil if no row has its attribute.
func settingOf(a resource.Atom) (*setting, string) {
	attribute, key, keyed := strings.Cut(a.Value(), " ")
	for i, s := range settings {
		if s.attribute == attribute && keyed == (s.get == nil) {
			return &settings[i], key
		}
	}
	return nil, ""
}

// linkSettings returns the values of the link itself.
func linkSettings() []setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s setting) bool { return s.get == nil })
}

func nicAtom(netdev, attribute, key string) resource.Atom {
	return resource.NewAtom(KindNIC, netdev, strings.TrimSpace(attribute+" "+key))
}

// change returns a change of the setting with its disruption.
func (s setting) change(netdev string, hardware bool, key, from, to string) resource.Change {
	c := nicAtom(netdev, s.attribute, key).Change(from, to)
	if s.complete != nil {
		s.complete(&c, hardware)
	}
	return c
}

// value is the live value.
func (s setting) value(snap *facts.Snapshot, l host.Link, key string) string {
	if s.get != nil {
		return s.get(l)
	}
	return s.live(snap, l, key)
}

// hardware reports whether the link is a real port: the kernel names no kind for it.
func hardware(l host.Link) bool { return l.Kind == "" }

// Sysfs returns the declared values that udev(7) can set when the NIC appears, by the name of the file below /sys/class/net/NETDEV.
func (s NICSpec) Sysfs() map[string]string {
	out := map[string]string{}
	for _, row := range settings {
		if value, is := row.declared(s, ""); is && row.sysfs != "" {
			out[row.sysfs] = value
		}
	}
	return out
}

// apply makes a change of a setting, other than of addresses, which are changed together.
func apply(ctx context.Context, h host.Host, l host.Link, c resource.Change) error {
	s, key := settingOf(c.Atom)
	if s == nil {
		return fmt.Errorf("%q: this build cannot change such a value", c.Atom)
	}
	return s.set(ctx, h, l, key, c.To)
}
