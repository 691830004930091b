package probe

import (
	"context"
	"fmt"

	"github.com/vishvananda/netlink"
)

// readCounters asks netlink, because /sys may show another namespace's devices.
func readCounters(_ context.Context, netdev string) (Counters, error) {
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
