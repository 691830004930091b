package probe

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// stampFlags ask for the kernel's timestamps of sent and received packets. The error queue returns send
// timestamps, without the packet but with the count of sends (Documentation/networking/timestamping.rst).
const stampFlags = unix.SOF_TIMESTAMPING_TX_SOFTWARE | unix.SOF_TIMESTAMPING_RX_SOFTWARE | unix.SOF_TIMESTAMPING_SOFTWARE |
	unix.SOF_TIMESTAMPING_OPT_ID | unix.SOF_TIMESTAMPING_OPT_TSONLY

// answerBuffer is the size of the receive buffer in bytes: many peers can send full-size answers at once.
const answerBuffer = 4 << 20

// pingSocket opens a raw socket that is bound to source and device, so that echoes leave only through this port.
func pingSocket(s PingSpec) (int, error) {
	family, proto := unix.AF_INET, unix.IPPROTO_ICMP
	if s.Source.Is6() {
		family, proto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return 0, fmt.Errorf("open raw socket (needs root): %w", err)
	}
	if err := prepare(fd, s); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func prepare(fd int, s PingSpec) error {
	if err := filter(fd, s.Source.Is6()); err != nil {
		return fmt.Errorf("choose ICMP types: %w", err)
	}
	if err := unix.BindToDevice(fd, s.Netdev); err != nil {
		return fmt.Errorf("bind to device: %w", err)
	}
	if err := unix.Bind(fd, sockaddr(s.Source, 0)); err != nil {
		return fmt.Errorf("bind to source (is it an address of this host?): %w", err)
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, stampFlags); err != nil {
		return fmt.Errorf("ask for timestamps: %w", err)
	}
	// A smaller buffer loses answers only if there are very many, and losses are reported.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, answerBuffer)
	// Without this option, a raw socket gets no error if no host answers for an address.
	level, option := unix.IPPROTO_IP, unix.IP_RECVERR
	if s.Source.Is6() {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
	}
	if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
		return fmt.Errorf("ask for errors: %w", err)
	}
	if err := s.classify(fd, s.Source.Is6()); err != nil {
		return err
	}
	if !s.DontFragment {
		return nil
	}
	// PROBE sets don't-fragment, and ignores a path MTU that the kernel learned before.
	if s.Source.Is6() {
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
	}
	return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
}

// classify gives packets of a socket the class. The priority comes last, because a traffic class sets one as well (ip(7)).
func (c Class) classify(fd int, v6 bool) error {
	if c == (Class{}) {
		return nil
	}
	level, option := unix.IPPROTO_IP, unix.IP_TOS
	if v6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_TCLASS
	}
	err := unix.SetsockoptInt(fd, level, option, c.TrafficClass)
	if err == nil {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PRIORITY, c.Priority)
	}
	if err != nil {
		return fmt.Errorf("set traffic class %d and priority %d: %w", c.TrafficClass, c.Priority, err)
	}
	return nil
}

// filter admits only the ICMP types that parseEcho reads. If all hosts ping each other, as many requests as
// answers arrive, and each would wake the raw socket.
func filter(fd int, v6 bool) error {
	if !v6 {
		blocked := ^uint32(1<<0 | 1<<3)
		return unix.SetsockoptInt(fd, unix.SOL_RAW, unix.ICMP_FILTER, int(int32(blocked)))
	}
	var f unix.ICMPv6Filter
	for i := range f.Data {
		f.Data[i] = ^uint32(0)
	}
	for _, kind := range []int{1, 2, 129} {
		f.Data[kind/32] &^= 1 << (kind % 32)
	}
	return unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &f)
}

func sockaddr(a netip.Addr, port uint16) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
}

func addrOf(s unix.Sockaddr) netip.Addr {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(s.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(s.Addr)
	}
	return netip.Addr{}
}
