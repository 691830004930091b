package netif

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/fabricform/fabricform/facts"
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
	if err := changeAddresses(ctx, h, *l, adds, removes); err != nil {
		return err
	}
	if err := restoreAddresses(ctx, h, l.Index, want); err != nil {
		return err
	}
	return awaitDAD(ctx, h, l, want)
}

func addressChanges(changes []resource.Change) (adds, removes []host.Addr, err error) {
	for _, c := range changes {
		if c.Attribute != "address" {
			continue
		}
		a, err := host.ParseAddr(c.From + c.To) // one of them is empty
		if err != nil {
			return nil, nil, err
		}
		if c.To != "" {
			adds = append(adds, a)
		} else {
			removes = append(removes, a)
		}
	}
	return adds, removes, nil
}

// changeAddresses adds before it removes, except for an IPv6 address whose prefix length changes: the kernel
// allows an IPv6 address only once per device, whatever its prefix (ipv6_add_addr in net/ipv6/addrconf.c), and
// refuses the second with EEXIST.
func changeAddresses(ctx context.Context, h host.Host, l host.Link, adds, removes []host.Addr) error {
	for _, a := range adds {
		same := func(r host.Addr) bool { return r.Prefix.Addr().Is6() && r.Prefix.Addr() == a.Prefix.Addr() }
		if i := slices.IndexFunc(removes, same); i >= 0 {
			if err := removeAddress(ctx, h, l.Index, removes[i].Prefix); err != nil {
				return err
			}
		}
		a.Index = l.Index
		if err := h.AddAddr(a); err != nil {
			return err
		}
	}
	if len(removes) == 0 {
		return nil
	}
	return promoting(ctx, h, l, func() error {
		for _, r := range removes {
			if err := removeAddress(ctx, h, l.Index, r.Prefix); err != nil {
				return err
			}
		}
		return nil
	})
}

// promoting calls remove with promote_secondaries on. If it is off, the kernel removes the secondary addresses with their primary one
// (__inet_del_ifa in net/ipv4/devinet.c). When a device has lost its last IPv4 address, the kernel also removes all of its IPv4 routes,
// ours and those of others (fib_disable_ip in net/ipv4/fib_frontend.c).
func promoting(ctx context.Context, h host.Host, l host.Link, remove func() error) error {
	key := facts.LinkSysctl("ipv4.conf.promote_secondaries", l.Name)
	was, err := h.Sysctl(ctx, key)
	if err != nil {
		return err
	}
	if was == "1" {
		return remove()
	}
	if err := h.SetSysctl(key, "1"); err != nil {
		return err
	}
	return errors.Join(remove(), h.SetSysctl(key, was))
}

// removeAddress removes the addresses of the prefix, with whatever other ends. It is not an error if there is none.
func removeAddress(ctx context.Context, h host.Host, index int, p netip.Prefix) error {
	addrs, err := h.Addrs(ctx)
	if err != nil {
		return err
	}
	for _, a := range addrs {
		if a.Index == index && a.Prefix == p {
			if err := h.DelAddr(a); err != nil {
				return err
			}
		}
	}
	return nil
}

func stands(addrs []host.Addr, index int, p netip.Prefix) bool {
	return slices.ContainsFunc(addrs, func(a host.Addr) bool { return a.Index == index && a.Prefix == p })
}

// restoreAddresses adds wanted addresses that are gone: an MTU below 1280 removes all IPv6 addresses.
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
			if err := h.AddAddr(host.Addr{Index: index, Prefix: p}); err != nil {
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
