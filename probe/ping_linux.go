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

// maxTargets bounds one request; each target has an id of its own among 65,536.
const maxTargets = 4096

// busyPatience is how long a device may take to accept what was sent before.
const busyPatience = 20 * time.Millisecond

// fullPatience is how long, in all of a ping, packets wait that a queue had no room for: the kernel drops
// them, and says so (ENOBUFS). Queues of virtual devices fill where processors are busy.
const fullPatience = 2 * time.Second

// drainEvery is after how many packets of a round answers are taken: a full socket buffer drops them.
const drainEvery = 16

// pingAll sends ICMP echoes from one address through one device to all targets, side by side, and waits
// for the answers. There is one result for each target, in their order. Losses and refused packets
// are results; an error means that nothing could be measured.
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
			// A round that took longer than the interval delays the next; two are never sent at once.
			next = later(next.Add(s.Interval), time.Now())
			p.receive(ctx, next, false)
		}
	}
	return p.results(), ctx.Err()
}

func (s PingSpec) check() error {
	if s.Count < 1 || s.Count > 1e6 || s.Size < 16 || s.Size > 65000 || s.Timeout <= 0 || len(s.Targets) < 1 || len(s.Targets) > maxTargets {
		return fmt.Errorf("ping %d targets: %d packets of %d bytes from %s cannot be", len(s.Targets), s.Count, s.Size, s.Source)
	}
	for _, t := range s.Targets {
		if !t.IsValid() || s.Source.Is4() != t.Is4() {
			return fmt.Errorf("ping %s from %s: they are not of one family", t, s.Source)
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

// pinger is one socket and the peers that share it: with a socket each, every answer would be copied
// to all of them by the kernel.
type pinger struct {
	spec     PingSpec
	fd       int
	base     uint16 // the first peer's ICMP id
	token    uint64 // in every packet: ids and sequences are few, and others ping too
	peers    []peer
	missing  int
	patience time.Duration      // what is left of fullPatience
	stamps   map[uint32]*flight // packets whose send stamp is awaited, by the kernel's count of sends
	sends    uint32             // as the kernel counts them
	buf, oob []byte
}

// peer is one target and what came back of it.
type peer struct {
	target  netip.Addr
	to      unix.Sockaddr
	packet  []byte
	flights map[uint16]*flight // by sequence; removed when answered
	result  PingResult
	rtts    []time.Duration
}

// flight is one packet: when it was handed to the kernel, and when the kernel says that it left.
type flight struct {
	handed, left time.Time
	send         uint32 // by the kernel's count
}

func newPinger(s PingSpec, fd int) (*pinger, error) {
	var random [10]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, err
	}
	p := &pinger{spec: s, fd: fd, base: binary.BigEndian.Uint16(random[:]), token: binary.BigEndian.Uint64(random[2:]), patience: fullPatience, stamps: map[uint32]*flight{}, buf: make([]byte, 70000), oob: make([]byte, 512)}
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
		p.restamp() // the kernel counted what it dropped, and may have stamped it
		p.poll(unix.POLLIN, time.Millisecond)
		p.patience -= time.Since(f.handed)
		f.handed = time.Now()
		err = unix.Sendto(p.fd, packet, 0, to.to)
	}
	if err != nil && !errors.Is(err, unix.EMSGSIZE) && !errors.Is(err, unix.ENOBUFS) {
		// An earlier packet's error is told first, in place of sending; its words are in the error
		// queue. Or the device has not taken earlier packets yet.
		p.drain()
		if errors.Is(err, unix.EAGAIN) {
			p.poll(unix.POLLOUT, busyPatience)
		}
		f.handed = time.Now()
		err = unix.Sendto(p.fd, packet, 0, to.to)
	}
	if err != nil {
		to.note(sendError(err, p.spec))
		p.restamp() // whether the kernel counted this packet is not known
		return
	}
	f.send = p.sends
	p.stamps[f.send] = f
	p.sends++
	to.flights[seq] = f
	p.missing++
}

// restamp begins the count of sends anew.
func (p *pinger) restamp() {
	p.drain()
	clear(p.stamps)
	p.sends = 0
	for _, flags := range []int{stampFlags &^ unix.SOF_TIMESTAMPING_OPT_ID, stampFlags} {
		// It was granted before; without stamps, round trips begin when packets are handed over.
		_ = unix.SetsockoptInt(p.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, flags)
	}
}

func (p *peer) note(what string) {
	if !slices.Contains(p.result.Errors, what) && len(p.result.Errors) < 8 {
		p.result.Errors = append(p.result.Errors, what)
	}
}

// receive takes answers until the time is up, or until none is missing if all is set.
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

// poll waits for the socket and says whether it has something to tell.
func (p *pinger) poll(events int16, patience time.Duration) bool {
	t := unix.NsecToTimespec(int64(patience))
	n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(p.fd), Events: events}}, &t, nil)
	return err == nil && n > 0
}

// drain takes what the socket has: send stamps and errors first, which the answers need.
func (p *pinger) drain() {
	p.drainQueue()
	for {
		size, oobn, _, from, err := unix.Recvmsg(p.fd, p.buf, p.oob, unix.MSG_DONTWAIT)
		if errors.Is(err, unix.EAGAIN) {
			return
		}
		if err != nil {
			// A pending error is told once in place of an answer; the queue says whose it is.
			p.drainQueue()
			continue
		}
		at := time.Now()
		if q := parseQueued(p.oob[:oobn]); !q.stamp.IsZero() {
			at = q.stamp
		}
		p.take(p.buf[:size], from, at)
	}
}

// drainQueue empties the socket's error queue; while it holds something, poll does not wait.
func (p *pinger) drainQueue() {
	for {
		size, n, _, _, err := unix.Recvmsg(p.fd, p.buf, p.oob, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if err != nil {
			return
		}
		q := parseQueued(p.oob[:n])
		if q.origin == unix.SO_EE_ORIGIN_TIMESTAMPING {
			// A stamp before the packet was handed over is another packet's.
			if f := p.stamps[q.data]; f != nil && !q.stamp.Before(f.handed.Round(0)) {
				f.left = q.stamp
			}
			delete(p.stamps, q.data)
			continue
		}
		if q.origin != unix.SO_EE_ORIGIN_LOCAL && size >= echoHeader { // send tells local ones
			// The queue quotes the packet that the error is about.
			p.refused(echo{id: binary.BigEndian.Uint16(p.buf[4:]), seq: binary.BigEndian.Uint16(p.buf[6:]), problem: q.problem()})
		}
	}
}

// of is the peer that an ICMP id belongs to; nil: somebody else's.
func (p *pinger) of(id uint16) *peer {
	if i := int(id - p.base); i < len(p.peers) {
		return &p.peers[i]
	}
	return nil
}

func (p *pinger) take(packet []byte, from unix.Sockaddr, at time.Time) {
	e, ok := parseEcho(packet, p.spec.Source.Is6())
	to := p.of(e.id)
	switch {
	case !ok || to == nil:
	case e.problem != "":
		p.refused(e)
	case addrOf(from) == to.target && e.token == p.token:
		p.answered(to, e.seq, at)
	}
}

func (p *pinger) answered(to *peer, seq uint16, at time.Time) {
	f := to.flights[seq]
	if f == nil {
		if int(seq) < to.result.Sent {
			to.result.Duplicates++
		}
		return
	}
	if f.left.IsZero() {
		p.drainQueue()
	}
	start := f.handed
	if !f.left.IsZero() {
		start = f.left
		to.result.Stamped++
	}
	p.landed(to, seq)
	to.rtts = append(to.rtts, max(at.Sub(start), 0))
}

func (p *pinger) refused(e echo) {
	to := p.of(e.id)
	if to == nil {
		return
	}
	to.note(e.problem)
	p.landed(to, e.seq)
}

// landed forgets a packet that nothing more is expected of.
func (p *pinger) landed(to *peer, seq uint16) {
	f := to.flights[seq]
	if f == nil {
		return
	}
	delete(to.flights, seq)
	if p.stamps[f.send] == f { // the count may have begun anew since
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
