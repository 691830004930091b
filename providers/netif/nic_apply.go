package netif

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// dadPatience limits duplicate address detection. By default it takes one probe and a wait of one second
// (RFC 4862, 5.4), and longer if dad_transmits was raised.
const dadPatience = 5 * time.Second

// Apply makes the changes in the order of Diff, with two exceptions: it adds addresses before it removes any,
// so that routes which prefer a source address keep it, and it restores addresses that the kernel drops on the
// way.
func (n nic) Apply(ctx context.Context, h host.Host, want NICSpec, changes []resource.Change) error {
	snap, err := resource.Gather(ctx, h, n, want)
	if err != nil {
		return err
	}
	l, err := snap.Find(want.Select)
	if err != nil {
		return err
	}
	for _, c := range changes {
		if c.Attribute == "address" {
			continue
		}
		if err := apply(ctx, h, *l, c); err != nil {
			return fmt.Errorf("%s of %s: %w", c.Attribute, l.Name, err)
		}
	}
	adds, removes, err := addressChanges(changes)
	if err != nil {
		return err
	}
	if err := changeAddresses(ctx, h, l.Index, adds, removes); err != nil {
		return err
	}
	if err := restoreAddresses(ctx, h, l.Index, want); err != nil {
		return err
	}
	return awaitDAD(ctx, h, l, want)
}

func addressChanges(changes []resource.Change) (adds, removes []netip.Prefix, err error) {
	for _, c := range changes {
		if c.Attribute != "address" {
			continue
		}
		p, err := netip.ParsePrefix(c.From + c.To) // one of them is empty
		if err != nil {
			return nil, nil, err
		}
		if c.To != "" {
			adds = append(adds, p)
		} else {
			removes = append(removes, p)
		}
	}
	return adds, removes, nil
}

// changeAddresses adds before it removes, except for an IPv6 address whose prefix length changes: the kernel
// allows an IPv6 address only once per device, whatever its prefix (ipv6_add_addr in net/ipv6/addrconf.c), and
// refuses the second with EEXIST. The kernel removes secondary addresses with their primary one;
// changeAddresses skips their removal, and restores those that are still wanted.
func changeAddresses(ctx context.Context, h host.Host, index int, adds, removes []netip.Prefix) error {
	for _, p := range adds {
		same := func(r netip.Prefix) bool { return r.Addr().Is6() && r.Addr() == p.Addr() }
		if i := slices.IndexFunc(removes, same); i >= 0 {
			if err := h.DelAddr(index, removes[i]); err != nil {
				return err
			}
		}
		if err := h.AddAddr(index, p); err != nil {
			return err
		}
	}
	before, err := h.Addrs(ctx)
	if err != nil {
		return err
	}
	for _, p := range removes {
		addrs, err := h.Addrs(ctx)
		if err != nil {
			return err
		}
		if !stands(addrs, index, p) {
			continue // gone with its primary
		}
		if err := h.DelAddr(index, p); err != nil {
			return err
		}
	}
	if len(removes) == 0 {
		return nil
	}
	after, err := h.Addrs(ctx)
	if err != nil {
		return err
	}
	for _, a := range before {
		if a.Index == index && a.Secondary && a.Prefix.Addr().Is4() && !slices.Contains(removes, a.Prefix) &&
			!stands(after, index, a.Prefix) {
			if err := h.AddAddr(index, a.Prefix); err != nil {
				return err
			}
		}
	}
	return nil
}

func stands(addrs []host.Addr, index int, p netip.Prefix) bool {
	return slices.ContainsFunc(addrs, func(a host.Addr) bool { return a.Index == index && a.Prefix == p })
}

// restoreAddresses adds wanted addresses that are gone: the kernel removes the secondaries of a primary IPv4
// address with it unless promote_secondaries is set (net/ipv4/devinet.c, __inet_del_ifa), and an MTU below 1280
// removes all IPv6 addresses.
func restoreAddresses(ctx context.Context, h host.Host, index int, want NICSpec) error {
	if !want.AddressesSet {
		return nil
	}
	addrs, err := h.Addrs(ctx)
	if err != nil {
		return err
	}
	for _, p := range want.Addresses {
		if !stands(addrs, index, p) {
			if err := h.AddAddr(index, p); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitDAD waits until no wanted address is tentative. Without a carrier, detection does not start; the link
// check reports that.
func awaitDAD(ctx context.Context, h host.Host, l *host.Link, want NICSpec) error {
	return retry.Until(ctx, 50*time.Millisecond, dadPatience, func() (bool, error) {
		addrs, err := h.Addrs(ctx)
		if err != nil {
			return true, err
		}
		waiting := false
		for _, a := range addrs {
			if a.Index != l.Index || !slices.Contains(want.Addresses, a.Prefix) {
				continue
			}
			if a.DADFailed {
				return true, fmt.Errorf("address %s of %s: another machine on this link uses it (duplicate address detection failed)",
					a.Prefix.Addr(), l.Name)
			}
			waiting = waiting || a.Tentative
		}
		if !waiting || !carrier(ctx, h, l.Index) {
			return true, nil
		}
		return false, errors.New("duplicate address detection on " + l.Name + " timed out after 5 s")
	})
}

func carrier(ctx context.Context, h host.Host, index int) bool {
	links, err := h.Links(ctx)
	if err != nil {
		return true // keep waiting; the next dump of addresses reports the error
	}
	return slices.ContainsFunc(links, func(l host.Link) bool { return l.Index == index && l.Carrier })
}
