package probe

import (
	"fmt"

	"github.com/vishvananda/netlink"
)

// ReadCounters reads a port's counters by netlink: /sys may show another namespace's devices.
func ReadCounters(netdev string) (Counters, error) {
	l, err := netlink.LinkByName(netdev)
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of %s: %w", netdev, err)
	}
	s := l.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("read counters of %s: the kernel gives none", netdev)
	}
	return Counters{
		Netdev: netdev, RxBytes: s.RxBytes, TxBytes: s.TxBytes, RxPackets: s.RxPackets, TxPackets: s.TxPackets,
		RxErrors: s.RxErrors, TxErrors: s.TxErrors, RxDropped: s.RxDropped, TxDropped: s.TxDropped,
	}, nil
}
