package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// forget deletes the neighbour entries that the kernel learned for targets, so that it resolves them again.
// Otherwise a re-plugged cable looks dead for up to a minute: the kernel keeps the old hardware address for 15
// to 45 s (base_reachable_time in Documentation/networking/ip-sysctl.rst), and for 8 s more before it gives up.
func forget(netdev string, targets []netip.Addr) error {
	l, err := netlink.LinkByName(netdev)
	if err != nil {
		return fmt.Errorf("find %s: %w", netdev, err)
	}
	family := unix.AF_INET
	if targets[0].Is6() {
		family = unix.AF_INET6
	}
	neighbours, err := netlink.NeighList(l.Attrs().Index, family)
	if err != nil {
		return fmt.Errorf("list neighbours on %s: %w", netdev, err)
	}
	for _, n := range neighbours {
		ip, ok := netip.AddrFromSlice(n.IP)
		if !ok || !slices.Contains(targets, ip.Unmap()) || n.State&(netlink.NUD_PERMANENT|netlink.NUD_NOARP) != 0 {
			continue
		}
		if err := netlink.NeighDel(&n); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("delete neighbour %s on %s: %w", ip, netdev, err)
		}
	}
	return nil
}
