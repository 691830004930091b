package probe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/dcb"
)

// readPriorities reads a NIC's statistics by ethtool, and its settings by dcbnl. A driver that has neither gives an empty answer.
func readPriorities(_ context.Context, netdev string) (Priorities, error) {
	if netdev == "" || len(netdev) >= unix.IFNAMSIZ {
		return Priorities{}, fmt.Errorf("%q is not a name of a network interface", netdev)
	}
	counters, err := ethtoolStatistics(netdev)
	if errors.Is(err, errChanged) {
		counters, err = ethtoolStatistics(netdev)
	}
	if err != nil {
		return Priorities{}, fmt.Errorf("read the statistics of %s: %w", netdev, err)
	}
	settings, pfc, err := readDCB(netdev)
	if err != nil {
		return Priorities{}, fmt.Errorf("read the DCB settings of %s: %w", netdev, err)
	}
	return Priorities{Statistics: read(counters, pfc), DCB: settings}, nil
}

// Sizes of include/uapi/linux/ethtool.h.
const (
	setStatistics = 1    // ETH_SS_STATS
	nameSize      = 32   // ETH_GSTRING_LEN
	spare         = 4096 // statistics: the kernel writes as many as the driver has by then, whatever was asked for
)

// errChanged says that a driver has more or fewer statistics than a moment ago, as mlx5 has after a change of PFC.
var errChanged = errors.New("the driver's statistics changed while they were read")

// ethtoolStatistics returns the driver's own statistics, which ethtool's netlink does not have. It returns none if the driver has none.
func ethtoolStatistics(netdev string) (out map[string]uint64, err error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	info := make([]byte, 20) // struct ethtool_sset_info with one number
	binary.NativeEndian.PutUint32(info, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(info[8:], 1<<setStatistics)
	if err := ethtool(fd, netdev, info); errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	has := binary.NativeEndian.Uint32(info[16:])
	room := int(has) + spare
	names := make([]byte, 12+room*nameSize) // struct ethtool_gstrings
	binary.NativeEndian.PutUint32(names, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(names[4:], setStatistics)
	binary.NativeEndian.PutUint32(names[8:], has)
	values := make([]byte, 8+room*8) // struct ethtool_stats
	binary.NativeEndian.PutUint32(values, unix.ETHTOOL_GSTATS)
	binary.NativeEndian.PutUint32(values[4:], has)
	if err := errors.Join(ethtool(fd, netdev, names), ethtool(fd, netdev, values)); errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	n := int(binary.NativeEndian.Uint32(names[8:]))
	if n != int(binary.NativeEndian.Uint32(values[4:])) || n > room {
		return nil, errChanged
	}
	out = make(map[string]uint64, n)
	for i := range n {
		name, _, _ := bytes.Cut(names[12+i*nameSize:12+(i+1)*nameSize], []byte{0})
		out[string(name)] = binary.NativeEndian.Uint64(values[8+i*8:])
	}
	return out, nil
}

// ethtool makes one request of the ioctl SIOCETHTOOL, whose answer takes the place of the request.
func ethtool(fd int, netdev string, request []byte) error {
	ifr := struct {
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [24 - unsafe.Sizeof(uintptr(0))]byte
	}{data: unsafe.Pointer(&request[0])}
	copy(ifr.name[:], netdev)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr))); errno != 0 {
		return errno
	}
	return nil
}

// readDCB reads a NIC's PFC, map of DSCPs and trust. All are nil if the driver has no DCB.
func readDCB(netdev string) (*DCB, *pfcCounts, error) {
	req := nl.NewNetlinkRequest(unix.RTM_GETDCB, 0)
	req.AddRawData(dcb.Message(dcb.CmdIEEEGet, netdev))
	answers, err := req.Execute(unix.NETLINK_ROUTE, 0)
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	if len(answers) == 0 {
		return nil, nil, errors.New("the kernel has not answered")
	}
	return parseDCB(answers[0])
}

// parseDCB reads an answer to DCB_CMD_IEEE_GET.
func parseDCB(answer []byte) (*DCB, *pfcCounts, error) {
	s, err := dcb.ParseIEEE(answer)
	if err != nil {
		return nil, nil, err
	}
	d := &DCB{DSCP: map[int]int{}, TrustsPCP: !s.TrustsDSCP()}
	for _, a := range s.Apps {
		if a.IsDSCP() {
			d.DSCP[int(a.Protocol)] = int(a.Priority)
		}
	}
	if s.PFC == nil {
		return d, nil, nil
	}
	counts := &pfcCounts{}
	for p := range dcb.Priorities {
		if s.PFC[dcb.PFCMask]>>p&1 == 1 {
			d.PFC = append(d.PFC, p)
		}
		counts.requests[p] = binary.NativeEndian.Uint64(s.PFC[dcb.PFCRequests+8*p:])
		counts.indications[p] = binary.NativeEndian.Uint64(s.PFC[dcb.PFCIndications+8*p:])
	}
	return d, counts, nil
}
