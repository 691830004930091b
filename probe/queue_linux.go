package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// queued is the metadata that the kernel returns with a packet: its timestamp and, in the error queue, the
// error (struct sock_extended_err in include/uapi/linux/errqueue.h).
type queued struct {
	stamp  time.Time // zero if there is none
	errno  syscall.Errno
	origin byte // SO_EE_ORIGIN_*
	info   uint32
	data   uint32
}

// parseQueued parses control messages. It ignores unknown ones.
func parseQueued(oob []byte) queued {
	var q queued
	for len(oob) >= unix.SizeofCmsghdr {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			break
		}
		v4 := h.Level == unix.IPPROTO_IP && h.Type == unix.IP_RECVERR
		v6 := h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_RECVERR
		switch {
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SO_TIMESTAMPING && len(data) >= 16:
			// The first of three timestamps is the software's.
			sec, nsec := int64(binary.NativeEndian.Uint64(data)), int64(binary.NativeEndian.Uint64(data[8:]))
			if sec != 0 || nsec != 0 {
				q.stamp = time.Unix(sec, nsec)
			}
		case (v4 || v6) && len(data) >= 16:
			q.errno, q.origin = syscall.Errno(binary.NativeEndian.Uint32(data)), data[4]
			q.info, q.data = binary.NativeEndian.Uint32(data[8:]), binary.NativeEndian.Uint32(data[12:])
		}
		oob = rest
	}
	return q
}

// problem describes a queued error.
func (q queued) problem() string {
	if errors.Is(q.errno, unix.EMSGSIZE) && q.info > 0 {
		return fmt.Sprintf("too large for the path: a router reports a next-hop MTU of %d", q.info)
	}
	return kernelError(q.errno)
}

func sendError(err error, s PingSpec) string {
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Sprintf("a packet of %d bytes is larger than the MTU of %s", s.Size+echoHeader+ipHeader(s.Source), s.Netdev)
	}
	return kernelError(err)
}

// kernelError describes an errno of a socket.
func kernelError(err error) string {
	switch {
	case errors.Is(err, unix.EHOSTUNREACH):
		return unreachable
	case errors.Is(err, unix.EMSGSIZE):
		return "too large for the path"
	}
	return err.Error()
}

func ipHeader(a netip.Addr) int {
	if a.Is6() {
		return 40
	}
	return 20
}
