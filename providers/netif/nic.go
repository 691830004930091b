package netif

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// NICStatus is a found NIC.
type NICStatus struct {
	Link      host.Link
	Addresses []netip.Prefix // of global scope, without link-local ones
	// Peers are the other ends of the addresses that have one.
	Peers  map[netip.Prefix]netip.Prefix `json:",omitempty"`
	Sysctl map[string]string             // the keys that the spec sets; absent if the host lacks them
}

type nic struct{}

// Device returns the name of the interface.
func (nic) Device(got *NICStatus) string { return got.Link.Name }

// Undone sets the MTU that an undo restores: the kernel removes and restores IPv6 with it.
func (nic) Undone(want NICSpec, changes []resource.Change) NICSpec {
	for _, c := range changes {
		if s, _ := settingOf(c.Atom); s != nil && s.attribute == "mtu" {
			want.UndoneMTU, _ = strconv.Atoi(c.To) // 0 if a record has no number: the undo reports it
		}
	}
	return want
}

// Common reports a change that both ends need, such as of the MTU, and an address in a subnet that replaces another one. A NIC
// without addresses does not take part in its network yet.
func (nic) Common(want NICSpec, got *NICStatus, c resource.Change) bool {
	in := func(list []netip.Prefix, p netip.Prefix) bool {
		return slices.ContainsFunc(list, func(o netip.Prefix) bool { return o.Masked() == p.Masked() })
	}
	if len(got.Addresses) == 0 {
		return false
	}
	if s, _ := settingOf(c.Atom); s != nil && s.common && c.Atom.Thing() == got.Link.Name {
		return true
	}
	isNew := func(p netip.Prefix) bool { return p.String() == c.To && !in(got.Addresses, p) }
	isOld := func(p netip.Prefix) bool { return !in(want.Addresses, p) }
	return c.Address.IsValid() && slices.ContainsFunc(want.Addresses, isNew) && slices.ContainsFunc(got.Addresses, isOld)
}

// smallestIPv6MTU is IPV6_MIN_MTU of the kernel's include/uapi/linux/ipv6.h: below it,
// addrconf_notify (net/ipv6/addrconf.c) removes IPv6 from the device.
const smallestIPv6MTU = 1280

// linkLocalModes are the values of ipv6.conf.addr_gen_mode (IN6_ADDR_GEN_MODE_* in the kernel's
// include/uapi/linux/if_link.h).
var linkLocalModes = map[string]string{"eui64": "0", "none": "1"}

// WantedSysctls returns the per-interface keys that the NIC sets: the keys of the spec and those that its attributes imply.
func (s NICSpec) WantedSysctls() map[string]string {
	out := map[string]string{}
	maps.Copy(out, s.Sysctl)
	switch {
	case s.AcceptRA != nil && *s.AcceptRA:
		out["ipv6.conf.accept_ra"] = "1"
	case s.AcceptRA != nil || s.AddressesSet && s.Bond == "": // the kernel accepts none on a member of a bond
		// A router advertisement would add addresses, but the declared set is exact.
		out["ipv6.conf.accept_ra"] = "0"
	}
	if mode, ok := linkLocalModes[s.IPv6LinkLocal]; ok {
		out["ipv6.conf.addr_gen_mode"] = mode
	}
	return out
}

// Gather reads the per-interface keys that Diff needs. It skips NICs that are not found; Observe reports them.
func (nic) Gather(ctx context.Context, r host.Reader, look resource.Look[NICSpec]) error {
	predict(look.Snapshot, look.Wants)
	for _, want := range look.Wants {
		l, err := look.Snapshot.Find(want.Select)
		for key := range want.WantedSysctls() {
			if err == nil {
				look.Snapshot.ReadSysctls(ctx, r, facts.LinkSysctl(key, l.Name), facts.LinkSysctl(key, "default"))
			}
		}
	}
	for _, a := range look.Atoms {
		if s, key := settingOf(a); s != nil && s.attribute == "sysctl" {
			look.Snapshot.ReadSysctls(ctx, r, facts.LinkSysctl(key, a.Thing()))
		}
	}
	return nil
}

// Observe finds the NIC. It returns an error unless exactly one NIC matches.
func (nic) Observe(snap *facts.Snapshot, want NICSpec) (*NICStatus, error) {
	l, err := snap.Find(want.Select)
	if err != nil {
		return nil, err
	}
	mtu := cmp.Or(want.MTU, want.UndoneMTU)
	is6 := func(p netip.Prefix) bool { return p.Addr().Is6() }
	if mtu != 0 && mtu < smallestIPv6MTU && slices.ContainsFunc(want.Addresses, is6) {
		return nil, fmt.Errorf("mtu %d: IPv6 addresses are declared, but the kernel removes IPv6 from %s if its MTU is below %d",
			mtu, l.Name, smallestIPv6MTU)
	}
	got := &NICStatus{Link: *l, Sysctl: map[string]string{}, Peers: map[netip.Prefix]netip.Prefix{}}
	for _, a := range snap.Addrs {
		// Only IPv6 link-local addresses are automatic; somebody set an address in 169.254.0.0/16 of global scope.
		automatic := a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
		if a.Index == l.Index && a.Scope == 0 && !automatic {
			got.Addresses = append(got.Addresses, a.Prefix)
			if a.Peer.IsValid() {
				got.Peers[a.Prefix] = a.Peer
			}
		}
		if a.Index == l.Index && a.DADFailed && slices.Contains(want.Addresses, a.Prefix) {
			return nil,
				fmt.Errorf("address %s: another machine on this link uses it (duplicate address detection failed); "+
					"remove it there or choose another", a.Prefix.Addr())
		}
	}
	for key := range want.WantedSysctls() {
		v, ok := snap.Sysctls[facts.LinkSysctl(key, l.Name)]
		_, declared := want.Sysctl[key]
		ipv6 := strings.HasPrefix(key, "ipv6.")
		if l.Planned || ipv6 && !ok && l.MTU < smallestIPv6MTU && mtu >= smallestIPv6MTU {
			v, ok = snap.Sysctls[facts.LinkSysctl(key, "default")] // a new device, or IPv6 that a larger MTU brings back, has the defaults
		}
		switch {
		case ipv6 && mtu != 0 && mtu < smallestIPv6MTU:
			if declared {
				return nil, fmt.Errorf("mtu %d: sysctl %q is declared, but the kernel removes IPv6 from %s if its MTU is below %d",
					mtu, key, l.Name, smallestIPv6MTU)
			}
		case ok:
			got.Sysctl[key] = v
		case declared:
			return nil, fmt.Errorf("sysctl %q: %s has no /proc/sys/%s", key, snap.System.Hostname, facts.LinkSysctl(key, l.Name))
		}
	}
	return got, nil
}

// Stable omits the facts of a link that change by themselves: carrier, state and speed.
func (nic) Stable(got *NICStatus) any {
	l := got.Link
	l.Carrier, l.OperState, l.SpeedMbps = false, "", 0
	return NICStatus{Link: l, Addresses: got.Addresses, Peers: got.Peers, Sysctl: got.Sysctl}
}

// Diff compares attribute by attribute. An MTU that brings IPv6 back comes before the sysctls of IPv6.
func (nic) Diff(want NICSpec, got *NICStatus) []resource.Change {
	if got == nil {
		return nil // Observe never returns nil: a NIC is hardware, or another resource makes its device
	}
	var out []resource.Change
	for _, s := range settings {
		var changes []resource.Change
		if s.get == nil {
			changes = s.diff(want, got)
		} else if to, declared := s.declared(want, ""); declared && to != s.get(got.Link) {
			changes = append(changes, s.change(got.Link.Name, hardware(got.Link), "", s.get(got.Link), to))
		}
		if s.beforeSysctl && got.Link.MTU < smallestIPv6MTU {
			out = append(changes, out...)
		} else {
			out = append(out, changes...)
		}
	}
	return out
}

// Present returns the values of a device that exists: one that the plan makes had none before.
func (nic) Present(want NICSpec, got *NICStatus) map[resource.Atom]string {
	if got.Link.Planned {
		return nil
	}
	out := map[resource.Atom]string{}
	for _, s := range linkSettings() {
		if _, declared := s.declared(want, ""); declared {
			out[nicAtom(got.Link.Name, s.attribute, "")] = s.get(got.Link)
		}
	}
	for key := range want.WantedSysctls() {
		if now, there := got.Sysctl[key]; there {
			out[nicAtom(got.Link.Name, "sysctl", key)] = now
		}
	}
	for _, p := range want.Addresses {
		out[nicAtom(got.Link.Name, "address", p.String())] = got.address(p).String()
	}
	return out
}

func diffSysctls(want NICSpec, got *NICStatus) (out []resource.Change) {
	wanted := want.WantedSysctls()
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if now, ok := got.Sysctl[key]; ok && !sameSysctl(now, wanted[key]) && !stillAccepts(key, now, wanted[key]) {
			out = append(out, nicAtom(got.Link.Name, "sysctl", key).Change(now, wanted[key]))
		}
	}
	return out
}

func diffAddresses(want NICSpec, got *NICStatus) (out []resource.Change) {
	if !want.AddressesSet {
		return nil
	}
	for _, p := range want.Addresses {
		if !slices.Contains(got.Addresses, p) {
			out = append(out, addressChange(got.Link, host.Addr{Prefix: p}, true))
		}
	}
	for _, p := range got.Addresses {
		if !slices.Contains(want.Addresses, p) {
			out = append(out, addressChange(got.Link, got.address(p), false))
		}
	}
	return out
}

// address is the found address of the prefix, with its other end.
func (s *NICStatus) address(p netip.Prefix) host.Addr { return host.Addr{Prefix: p, Peer: s.Peers[p]} }

func addressChange(l host.Link, a host.Addr, add bool) resource.Change {
	c := resource.Change{Attribute: "address", From: a.String(), Address: a.Prefix.Addr(), Atom: nicAtom(l.Name, "address", a.Prefix.String())}
	if add {
		c.From, c.To = "", c.From
	}
	return c
}

// stillAccepts allows accept_ra 2 if 1 is wanted: 2 accepts advertisements even on a host that forwards
// (Documentation/networking/ip-sysctl.rst).
func stillAccepts(key, now, want string) bool {
	return key == "ipv6.conf.accept_ra" && now == "2" && want == "1"
}

func state(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// sameSysctl compares values without regard to white space, because the kernel always separates lists by tabs.
func sameSysctl(a, b string) bool {
	return slices.Equal(strings.Fields(a), strings.Fields(b))
}
