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
	"time"

	"golang.org/x/sys/unix"
)

// echoHeader is the ICMP echo header: type, code, checksum, id, sequence.
const echoHeader = 8

// maxTargets limits one request: each target has its own ICMP ID, of 65,536.
const maxTargets = 4096

// busyPatience is how long a device may take to accept earlier packets.
const busyPatience = 20 * time.Millisecond

// fullPatience is how long a ping may wait in total because a device queue is full: the kernel drops such
// packets and returns ENOBUFS. Queues of virtual devices fill up when the processors are busy.
const fullPatience = 2 * time.Second

// drainEvery is the number of packets after which answers are read: a full socket buffer drops them.
const drainEvery = 16

// pingAll sends ICMP echoes from one address through one device to all targets in parallel, and waits for the
// answers. It returns one result for each target, in their order. Losses and rejected packets are results; an
// error means that nothing could be measured.
func pingAll(ctx context.Context, s PingSpec) ([]PingResult, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Fresh {
		if err := forget(s.Netdev, s.Targets); err != nil {
			return nil, fmt.Errorf("ping: %w", err)
		}
	}
	fd, err := pingSocket(s)
	if err != nil {
		return nil, fmt.Errorf("ping from %s on %s: %w", s.Source, s.Netdev, err)
	}
	defer func() { _ = unix.Close(fd) }() // nothing is buffered in a raw socket
	p, err := newPinger(s, fd)
	if err != nil {
		return nil, err
	}
	next := time.Now()
	for seq := range s.Count {
		for i := range p.peers {
			if ctx.Err() != nil {
				break
			}
			p.send(&p.peers[i], uint16(seq))
			if i%drainEvery == drainEvery-1 {
				p.drain()
			}
		}
		if last := seq == s.Count-1; last {
			p.receive(ctx, time.Now().Add(s.Timeout), true)
		} else {
			// If a round took longer than the interval, the next one is delayed; rounds never overlap.
			next = later(next.Add(s.Interval), time.Now())
			p.receive(ctx, next, false)
		}
	}
	return p.results(), ctx.Err()
}

func (s PingSpec) check() error {
	if s.Count < 1 || s.Count > 1e6 || s.Size < 16 || s.Size > 65000 || s.Timeout <= 0 || len(s.Targets) < 1 ||
		len(s.Targets) > maxTargets {
		return fmt.Errorf("ping %d targets: invalid request for %d packets of %d bytes from %s", len(s.Targets), s.Count, s.Size, s.Source)
	}
	for _, t := range s.Targets {
		if !t.IsValid() || s.Source.Is4() != t.Is4() {
			return fmt.Errorf("ping %s from %s: the two addresses are not of one family", t, s.Source)
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// pinger is one socket and the peers that share it. With one socket per peer, the kernel would copy every
// answer to all sockets.
type pinger struct {
	spec     PingSpec
	fd       int
	base     uint16 // the first peer's ICMP ID
	token    uint64 // in every packet: other programs may use the same IDs and sequence numbers
	peers    []peer
	missing  int
	patience time.Duration      // the rest of fullPatience
	stamps   map[uint32]*flight // packets without their send timestamp, by the kernel's count of sends
	sends    uint32             // as the kernel counts them
	buf, oob []byte
}

// peer is one target and its answers.
type peer struct {
	target  netip.Addr
	to      unix.Sockaddr
	packet  []byte
	flights map[uint16]*flight // by sequence number; removed when answered
	result  PingResult
	rtts    []time.Duration
}

// flight is one packet: when it was handed to the kernel, and when it left according to the kernel.
type flight struct {
	handed, departed time.Time
	send             uint32 // by the kernel's count
}

func newPinger(s PingSpec, fd int) (*pinger, error) {
	var random [10]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	p := &pinger{spec: s, fd: fd, base: binary.BigEndian.Uint16(random[:]), token: binary.BigEndian.Uint64(random[2:]),
		patience: fullPatience, stamps: map[uint32]*flight{}, buf: make([]byte, 70000), oob: make([]byte, 512)}
	for i, t := range s.Targets {
		packet := make([]byte, echoHeader+s.Size)
		packet[0] = 8 // echo request
		if t.Is6() {
			packet[0] = 128
		}
		binary.BigEndian.PutUint16(packet[4:], p.base+uint16(i))
		binary.BigEndian.PutUint64(packet[echoHeader:], p.token)
		p.peers = append(p.peers, peer{target: t, to: sockaddr(t, 0), packet: packet, flights: map[uint16]*flight{}})
	}
	return p, nil
}

func (p *pinger) send(to *peer, seq uint16) {
	packet := to.packet
	binary.BigEndian.PutUint16(packet[6:], seq)
	if to.target.Is4() { // the kernel computes ICMPv6 checksums itself
		packet[2], packet[3] = 0, 0
		binary.BigEndian.PutUint16(packet[2:], checksum(packet))
	}

	f := &flight{handed: time.Now()}
	to.result.Sent++
	err := unix.Sendto(p.fd, packet, 0, to.to)
	for errors.Is(err, unix.ENOBUFS) && p.patience > 0 {
		p.restamp() // the kernel counted the dropped packet, and may have stamped it
		p.poll(unix.POLLIN, time.Millisecond)
		p.patience -= time.Since(f.handed)
		f.handed = time.Now()
		err = unix.Sendto(p.fd, packet, 0, to.to)
	}
	if err != nil && !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		// The socket reports an earlier packet's error instead of sending; the details are in the error
		// queue. Or the device has not accepted earlier packets yet.
		p.drain()
		if errors.Is(err, unix.EAGAIN) {
			p.poll(unix.POLLOUT, busyPatience)
		}
		f.handed = time.Now()
		err = unix.Sendto(p.fd, packet, 0, to.to)
	}
	if err != nil {
		to.note(sendError(err, p.spec))
		p.restamp() // it is unknown whether the kernel counted this packet
		return
	}

	f.send = p.sends
	p.stamps[f.send] = f
	p.sends++
	to.flights[seq] = f
	p.missing++
}

// restamp restarts the kernel's count of sends at 0.
func (p *pinger) restamp() {
	p.drain()
	clear(p.stamps)
	p.sends = 0
	for _, flags := range []int{stampFlags &^ unix.SOF_TIMESTAMPING_OPT_ID, stampFlags} {
		// This succeeded before. Without timestamps, round trips start when packets are handed over.
		_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
	}
}

func (p *peer) note(what string) {
	if !slices.Contains(p.result.Errors, what) && len(p.result.Errors) < 8 {
		p.result.Errors = append(p.result.Errors, what)
	}
}

// receive reads answers until the time is over or, if all is set, until none is missing.
func (p *pinger) receive(ctx context.Context, until time.Time, all bool) {
	p.drain()
	for ctx.Err() == nil && (!all || p.missing > 0) {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		if p.poll(unix.POLLIN, min(left, 100*time.Millisecond)) {
			p.drain()
		}
	}
}

// poll waits for the socket, and reports whether it is ready.
func (p *pinger) poll(events int16, patience time.Duration) bool {
	t := unix.NsecToTimespec(int64(patience))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.fd), Events: events}}, &t, nil)
	return err == nil && n > 0
}

// drain reads all that the socket has: first send timestamps and errors, which the answers need.
func (p *pinger) drain() {
	p.drainQueue()
	for {
		size, oobn, _, from, err := unix.Recvmsg(p.fd, p.buf, p.oob, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			// The socket reports a pending error once, instead of an answer; the queue says which packet caused it.
			p.drainQueue()
			continue
		}
		at := time.Now()
		if q := parseQueued(p.oob[:oobn]); !q.stamp.IsZero() {
			at = q.stamp
		}
		p.process(p.buf[:size], from, at)
	}
}

// drainQueue empties the socket's error queue: poll does not wait while the queue has entries.
func (p *pinger) drainQueue() {
	for {
		size, n, _, _, err := unix.Recvmsg(p.fd, p.buf, p.oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		q := parseQueued(p.oob[:n])
		if q.origin == unix.SO_EE_ORIGIN_TIMESTAMPING {
			// A timestamp from before the packet was handed over belongs to another packet.
			if f := p.stamps[q.data]; f != nil && !q.stamp.Before(f.handed.Round(0)) {
				f.departed = q.stamp
			}
			delete(p.stamps, q.data)
			continue
		}
		if q.origin != unix.SO_EE_ORIGIN_LOCAL && size >= echoHeader { // send reports local errors
			// The queue quotes the packet that caused the error.
			p.noteError(echo{id: binary.BigEndian.Uint16(p.buf[4:]), seq: binary.BigEndian.Uint16(p.buf[6:]), problem: q.problem()})
		}
	}
}

// of returns the peer with an ICMP ID, or nil if the ID is not ours.
func (p *pinger) of(id uint16) *peer {
	if i := int(id - p.base); i < len(p.peers) {
		return &p.peers[i]
	}
	return nil
}

func (p *pinger) process(packet []byte, from unix.Sockaddr, at time.Time) {
	e, ok := parseEcho(packet, p.spec.Source.Is6())
	to := p.of(e.id)
	switch {
	case !ok || to == nil:
	case e.problem != "":
		p.noteError(e)
	case addrOf(from) == to.target && e.token == p.token:
		p.noteReply(to, e.seq, at)
	}
}

func (p *pinger) noteReply(to *peer, seq uint16, at time.Time) {
	f := to.flights[seq]
	if f == nil {
		if int(seq) < to.result.Sent {
			to.result.Duplicates++
		}
		return
	}
	if f.departed.IsZero() {
		p.drainQueue()
	}
	start := f.handed
	if !f.departed.IsZero() {
		start = f.departed
		to.result.Stamped++
	}
	p.noteArrival(to, seq)
	to.rtts = append(to.rtts, max(at.Sub(start), 0))
}

func (p *pinger) noteError(e echo) {
	to := p.of(e.id)
	if to == nil {
		return
	}
	to.note(e.problem)
	p.noteArrival(to, e.seq)
}

// noteArrival removes a packet that is answered or rejected.
func (p *pinger) noteArrival(to *peer, seq uint16) {
	f := to.flights[seq]
	if f == nil {
		return
	}
	delete(to.flights, seq)
	if p.stamps[f.send] == f { // restamp may have restarted the count since
		delete(p.stamps, f.send)
	}
	p.missing--
}

func (p *pinger) results() []PingResult {
	out := make([]PingResult, len(p.peers))
	for i := range p.peers {
		out[i] = p.peers[i].account()
	}
	return out
}

func (p *peer) account() PingResult {
	r := p.result
	r.Received = len(p.rtts)
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
