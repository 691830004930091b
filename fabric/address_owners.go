package fabric

import (
	"net/netip"
	"slices"
)

// AddressOwners has the hosts of a fabric that may have an address.
type AddressOwners map[netip.Addr][]string

// AddressOwners returns the hosts that declare each address, and those at which we reached it. dialled returns the latter for one host;
// an invalid address is left out.
func (f *Fabric) AddressOwners(dialled func(host string) netip.Addr) AddressOwners {
	out := AddressOwners{}
	for _, h := range f.Hosts {
		of := []netip.Addr{dialled(h.Name)}
		for _, n := range h.NICs {
			for _, p := range n.Addresses {
				of = append(of, p.Addr())
			}
		}
		if a, err := netip.ParseAddr(h.Address); err == nil {
			of = append(of, a)
		}
		for _, a := range of {
			if a.IsValid() && !slices.Contains(out[a], h.Name) {
				out[a] = append(out[a], h.Name)
			}
		}
	}
	return out
}

// Admits reports whether other hosts may be sent to an address that the host says is its own: no other host may have it, and it
// means the same host for all of them.
func (o AddressOwners) Admits(host string, a netip.Addr) bool {
	return a.IsGlobalUnicast() && !a.Is4In6() && a.Zone() == "" &&
		!slices.ContainsFunc(o[a], func(owner string) bool { return owner != host })
}

// Logins returns the addresses by which the other hosts know a host, with their networks: the one at which we reached it, if that is
// valid, and then those of its NICs. What the host itself says of its addresses is not believed: others would trust its key there. An
// address that another host may have is not used. h may be nil.
func (o AddressOwners) Logins(h *Host, dialled netip.Prefix) (out []netip.Prefix) {
	add := func(p netip.Prefix) {
		a := p.Addr()
		if a.IsValid() && a.Zone() == "" && len(o[a]) == 1 && !a.IsLoopback() && !a.IsLinkLocalUnicast() &&
			!slices.ContainsFunc(out, func(q netip.Prefix) bool { return q.Addr() == a }) {
			out = append(out, p)
		}
	}
	add(dialled)
	if h != nil {
		for _, n := range h.NICs {
			for _, p := range n.Addresses {
				add(p)
			}
		}
	}
	return out
}

// LoginPath returns the addresses of a login between two hosts with these addresses: the first one of the other host that this one has
// a network with, or else the first one of the same kind, IPv4 or IPv6, which is routed. source is invalid if this host has no address.
// to must not be empty.
func LoginPath(from, to []netip.Prefix) (source, target netip.Addr) {
	for _, joined := range []func(from netip.Prefix, to netip.Addr) bool{
		netip.Prefix.Contains,
		func(from netip.Prefix, to netip.Addr) bool { return from.Addr().Is4() == to.Is4() },
	} {
		for _, t := range to {
			for _, f := range from {
				if joined(f, t.Addr()) {
					return f.Addr(), t.Addr()
				}
			}
		}
	}
	if len(from) > 0 {
		source = from[0].Addr()
	}
	return source, to[0].Addr()
}
