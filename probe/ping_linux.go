package probe

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// echoHeader is the ICMP echo header: type, code, checksum, id, sequence.
const echoHeader = 8

// Ping sends ICMP echoes from one address through one device and waits for the answers. Losses and
// refused packets are results; an error means that nothing could be measured.
func Ping(ctx context.Context, s PingSpec) (PingResult, error) {
	if s.Count < 1 || s.Count > 1e6 || s.Size < 16 || s.Size > 65000 || s.Timeout <= 0 || s.Source.Is4() != s.Target.Is4() {
		return PingResult{}, fmt.Errorf("ping %s: %d packets of %d bytes from %s cannot be", s.Target, s.Count, s.Size, s.Source)
	}
	if s.Fresh {
		if err := forget(s.Netdev, s.Target); err != nil {
			return PingResult{}, fmt.Errorf("ping %s: %w", s.Target, err)
		}
	}
	fd, err := pingSocket(s)
	if err != nil {
		return PingResult{}, fmt.Errorf("ping %s from %s on %s: %w", s.Target, s.Source, s.Netdev, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is buffered in a raw socket
	p := &pinger{spec: s, fd: fd, sent: map[uint16]time.Time{}}
	var id [2]byte
	if _, err := rand.Read(id[:]); err != nil {
		return PingResult{}, err
	}
	p.id = binary.BigEndian.Uint16(id[:])
	for i := range s.Count {
		if ctx.Err() != nil {
			break
		}
		p.send(uint16(i))
		wait := s.Interval
		if i == s.Count-1 {
			wait = s.Timeout
		}
		p.receive(ctx, time.Now().Add(wait), i == s.Count-1)
	}
	return p.result(), ctx.Err()
}

// pingSocket binds source and device, so that the echo leaves by this port or not at all.
func pingSocket(s PingSpec) (int, error) {
	family, proto := unix.AF_INET, unix.IPPROTO_ICMP
	if s.Target.Is6() {
		family, proto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	fd, err := unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, proto)
	if err != nil {
		return 0, fmt.Errorf("open raw socket (needs root): %w", err)
	}
	set := func() error {
		if err := unix.BindToDevice(fd, s.Netdev); err != nil {
			return fmt.Errorf("bind to device: %w", err)
		}
		if err := unix.Bind(fd, sockaddr(s.Source, 0)); err != nil {
			return fmt.Errorf("bind to source (is it an address of this host?): %w", err)
		}
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1); err != nil {
			return fmt.Errorf("ask for time stamps: %w", err)
		}
		// Without it, a raw socket does not hear that nobody answers for an address.
		level, option := unix.IPPROTO_IP, unix.IP_RECVERR
		if s.Target.Is6() {
			level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVERR
		}
		if err := unix.SetsockoptInt(fd, level, option, 1); err != nil {
			return fmt.Errorf("ask for errors: %w", err)
		}
		if !s.DontFragment {
			return nil
		}
		// PROBE sends with don't-fragment and ignores what path MTU was learned before.
		if s.Target.Is6() {
			return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_PROBE)
		}
		return unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_PROBE)
	}
	if err := set(); err != nil {
		return 0, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func sockaddr(a netip.Addr, port uint16) unix.Sockaddr {
	if a.Is4() {
		return &unix.SockaddrInet4{Addr: a.As4(), Port: int(port)}
	}
	return &unix.SockaddrInet6{Addr: a.As16(), Port: int(port)}
}

type pinger struct {
	spec   PingSpec
	fd     int
	id     uint16
	sent   map[uint16]time.Time // by sequence; removed when answered
	count  int
	rtts   []time.Duration
	errors []string
}

func (p *pinger) send(seq uint16) {
	packet := make([]byte, echoHeader+p.spec.Size)
	packet[0] = 8 // echo request
	if p.spec.Target.Is6() {
		packet[0] = 128 // the kernel computes ICMPv6 checksums itself
	}
	binary.BigEndian.PutUint16(packet[4:], p.id)
	binary.BigEndian.PutUint16(packet[6:], seq)
	if p.spec.Target.Is4() {
		binary.BigEndian.PutUint16(packet[2:], checksum(packet))
	}
	p.count++
	p.sent[seq] = time.Now()
	err := unix.Sendto(p.fd, packet, 0, sockaddr(p.spec.Target, 0))
	if err != nil && !errors.Is(err, unix.EMSGSIZE) {
		// An earlier packet's error is told first, in place of sending.
		p.note(kernelError(err))
		err = unix.Sendto(p.fd, packet, 0, sockaddr(p.spec.Target, 0))
	}
	if err != nil {
		delete(p.sent, seq)
		p.note(sendError(err, p.spec))
	}
}

func sendError(err error, s PingSpec) string {
	if errors.Is(err, unix.EMSGSIZE) {
		return fmt.Sprintf("a packet of %d bytes is larger than the MTU of %s", s.Size+echoHeader+ipHeader(s.Target), s.Netdev)
	}
	return kernelError(err)
}

// kernelError says an errno of a socket as a person needs it.
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

func (p *pinger) note(what string) {
	if !slices.Contains(p.errors, what) && len(p.errors) < 8 {
		p.errors = append(p.errors, what)
	}
}

// receive takes answers until the time is up, or until none is missing if all is set.
func (p *pinger) receive(ctx context.Context, until time.Time, all bool) {
	buf, oob := make([]byte, 70000), make([]byte, 512)
	for ctx.Err() == nil && (!all || len(p.sent) > 0) {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(min(left, 100*time.Millisecond)/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			p.note("poll: " + err.Error())
			return
		}
		if n <= 0 {
			continue
		}
		if fds[0].Revents&unix.POLLERR != 0 {
			p.drainErrors(buf, oob)
			continue
		}
		size, oobn, _, _, err := unix.Recvmsg(p.fd, buf, oob, 0)
		if err != nil {
			p.note(kernelError(err))
			continue
		}
		p.take(buf[:size], stamp(oob[:oobn]))
	}
}

// drainErrors empties the socket's error queue; while it holds something, poll does not wait.
func (p *pinger) drainErrors(buf, oob []byte) {
	for {
		_, n, _, _, err := unix.Recvmsg(p.fd, buf, oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			break
		}
		if errno := queuedError(oob[:n]); errno != 0 {
			p.note(kernelError(errno))
		}
	}
	// The error that is pending besides the queue.
	if v, err := unix.GetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && v != 0 {
		p.note(kernelError(syscall.Errno(v)))
	}
}

// queuedError is the errno of a struct sock_extended_err (include/uapi/linux/errqueue.h).
func queuedError(oob []byte) syscall.Errno {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		v4 := m.Header.Level == unix.IPPROTO_IP && m.Header.Type == unix.IP_RECVERR
		v6 := m.Header.Level == unix.IPPROTO_IPV6 && m.Header.Type == unix.IPV6_RECVERR
		if (v4 || v6) && len(m.Data) >= 4 {
			return syscall.Errno(binary.NativeEndian.Uint32(m.Data))
		}
	}
	return 0
}

func (p *pinger) take(packet []byte, at time.Time) {
	e, ok := parseEcho(packet, p.spec.Target.Is6())
	if !ok || e.id != p.id {
		return
	}
	if e.problem != "" {
		p.note(e.problem)
		delete(p.sent, e.seq)
		return
	}
	if start, ok := p.sent[e.seq]; ok {
		delete(p.sent, e.seq)
		p.rtts = append(p.rtts, max(at.Sub(start), 0))
	}
}

// stamp is when the kernel received the packet; now, where it did not say.
func stamp(oob []byte) time.Time {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return time.Now()
	}
	for _, m := range messages {
		if m.Header.Level == unix.SOL_SOCKET && m.Header.Type == unix.SO_TIMESTAMPNS && len(m.Data) >= 16 {
			return time.Unix(int64(binary.NativeEndian.Uint64(m.Data)), int64(binary.NativeEndian.Uint64(m.Data[8:])))
		}
	}
	return time.Now()
}

func (p *pinger) result() PingResult {
	r := PingResult{Sent: p.count, Received: len(p.rtts), Errors: p.errors}
	if len(p.rtts) == 0 {
		return r
	}
	var sum, squares float64
	for _, d := range p.rtts {
		sum += float64(d)
		squares += float64(d) * float64(d)
	}
	n := float64(len(p.rtts))
	r.Min, r.Max, r.Avg = slices.Min(p.rtts), slices.Max(p.rtts), time.Duration(sum/n)
	r.StdDev = time.Duration(math.Sqrt(max(squares/n-(sum/n)*(sum/n), 0)))
	return r
}
