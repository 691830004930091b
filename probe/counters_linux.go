package probe

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// readCounters reads a device's counters by netlink, because /sys can show the devices of another namespace.
func readCounters(_ context.Context, netdev string) (Counters, error) {
	l, err := netlink.LinkByName(netdev)
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of %s: %w", netdev, err)
	}
	s := l.Attrs().Statistics
	if s == nil {
		return Counters{}, fmt.Errorf("read counters of %s: the kernel reports none", netdev)
	}
	return Counters{
		Netdev: netdev, RxBytes: s.RxBytes, TxBytes: s.TxBytes, RxPackets: s.RxPackets, TxPackets: s.TxPackets,
		RxErrors: s.RxErrors, TxErrors: s.TxErrors, RxDropped: s.RxDropped, TxDropped: s.TxDropped,
	}, nil
}
