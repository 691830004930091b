package netif

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/retry"
)

// dadPatience is how long duplicate address detection may take: one probe and a second's wait by
// default (RFC 4862, 5.4), more where dad_transmits was raised.
const dadPatience = 5 * time.Second

// Apply makes the changes in the order of the Diff that found them, with two exceptions: addresses
// are added before any is removed, so that routes which prefer a source address keep it, and
// addresses that the kernel drops along the way are put back.
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
		if err := applyLink(h, l, c); err != nil {
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
	if err := putBack(ctx, h, l.Index, want); err != nil {
		return err
	}
	return awaitDAD(ctx, h, l, want)
}

func applyLink(h host.Host, l *host.Link, c resource.Change) error {
	key, isSysctl := strings.CutPrefix(c.Attribute, "sysctl ")
	switch {
	case isSysctl:
		return h.SetSysctl(facts.LinkSysctl(key, l.Name), c.To)
	case c.Attribute == "mtu":
		mtu, err := strconv.Atoi(c.To)
		if err != nil {
			return err
		}
		return h.SetMTU(l.Index, mtu)
	case c.Attribute == "state":
		return h.SetUp(l.Index, c.To == "up")
	}
	return nil
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

// changeAddresses adds before it removes, but for an IPv6 address whose prefix length changes: the
// kernel knows an IPv6 address once per device, whatever its prefix (ipv6_add_addr in
// net/ipv6/addrconf.c), and says EEXIST to the second. What a removal takes along is not removed again,
// and comes back where it was to stay: secondaries go with their primary address.
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
		if a.Index == index && a.Secondary && a.Prefix.Addr().Is4() && !slices.Contains(removes, a.Prefix) && !stands(after, index, a.Prefix) {
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

// putBack adds wanted addresses that are gone: removing a primary IPv4 address takes its
// secondaries along unless promote_secondaries is set (net/ipv4/devinet.c, __inet_del_ifa), and an
// MTU below 1280 takes all IPv6 addresses.
func putBack(ctx context.Context, h host.Host, index int, want NICSpec) error {
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

// awaitDAD waits until no wanted address is tentative. Without carrier, detection does not start;
// that is the link check's business.
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
				return true, fmt.Errorf("address %s of %s: another machine on this link uses it (duplicate address detection failed)", a.Prefix.Addr(), l.Name)
			}
			waiting = waiting || a.Tentative
		}
		if !waiting || !carrier(ctx, h, l.Index) {
			return true, nil
		}
		return false, errors.New("duplicate address detection on " + l.Name + " did not end within 5 s")
	})
}

func carrier(ctx context.Context, h host.Host, index int) bool {
	links, err := h.Links(ctx)
	if err != nil {
		return true // keep waiting; the next dump of addresses says what is wrong
	}
	return slices.ContainsFunc(links, func(l host.Link) bool { return l.Index == index && l.Carrier })
}
