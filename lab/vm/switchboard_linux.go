package vm

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/fabricform/fabricform/lab/site"
)

// maxFrame is larger than any frame of a guest: an MTU of 9000 with headers.
const maxFrame = 1 << 16

// longQueueFrames is that of a long cable, which also holds what is under way.
const longQueueFrames = 1 << 14

// queueFrames is the length of a port's queue. As in a switch, further frames are dropped.
const queueFrames = 2048

// switchboard connects the sockets of NICs to segments: a cable is a segment with two ports. Each frame in a QEMU stream
// socket follows its length in four bytes, big-endian (net/stream.c of QEMU).
type switchboard struct {
	mu       sync.Mutex
	ports    []*port
	segments []*segment
	swapped  map[string]swapped // by the name of either cable
}

// swapped is two cables whose far ends are exchanged.
type swapped struct{ a, b cableBuild }

// port is one NIC's end of a cable.
type port struct {
	segment *segment
	far     site.Distance // that of the cable when nothing is wrong with it
	last    time.Time     // when the last frame is due: jitter does not change the order
	fault   site.Fault
	faults  int      // how many faults were set
	conn    net.Conn // nil if no guest is connected yet
	queue   chan outgoing
	busy    time.Time // when a slow cable has sent its queued frames
}

type outgoing struct {
	frame []byte
	due   time.Time
}

// segment is a set of connected ports. It learns addresses as a switch does.
type segment struct {
	members []*port
	learned map[[6]byte]*port
}

// newSwitchboard plugs each port into its segment; -1 means no cable.
func newSwitchboard(segmentOf []int) *switchboard {
	b := &switchboard{swapped: map[string]swapped{}}
	for _, n := range segmentOf {
		p := &port{queue: make(chan outgoing, queueFrames)}
		for n >= len(b.segments) {
			b.segments = append(b.segments, &segment{learned: map[[6]byte]*port{}})
		}
		if n >= 0 {
			b.plug(p, b.segments[n])
		}
		b.ports = append(b.ports, p)
	}
	return b
}

// lengthen gives a port's cable its length. It is called before a guest is connected.
func (b *switchboard) lengthen(i int, d site.Distance) {
	if p := b.ports[i]; d != (site.Distance{}) {
		p.far, p.queue = d, make(chan outgoing, longQueueFrames)
	}
}

// lost draws lots whether a frame is lost on a way.
func lost(d site.Distance) bool { return d.Loss > 0 && rand.Float64()*100 < d.Loss }

// latency draws lots how long a frame takes on a way.
func latency(d site.Distance) time.Duration {
	return d.Delay + time.Duration((2*rand.Float64()-1)*float64(d.Jitter))
}

func (b *switchboard) plug(p *port, s *segment) {
	if old := p.segment; old != nil {
		for i, m := range old.members {
			if m == p {
				old.members = append(old.members[:i], old.members[i+1:]...)
				break
			}
		}
		clear(old.learned)
	}
	p.segment = s
	s.members = append(s.members, p)
	clear(s.learned)
}

// exchange exchanges the segments of two ports.
func (b *switchboard) exchange(i, j int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p, q := b.ports[i], b.ports[j]
	ps, qs := p.segment, q.segment
	b.plug(p, qs)
	b.plug(q, ps)
}

// swap exchanges the far ends of two cables, as if they were plugged in the wrong way.
func (b *switchboard) swap(c, d cableBuild) {
	b.exchange(c.far(), d.far())
	b.swapped[c.Name], b.swapped[d.Name] = swapped{c, d}, swapped{c, d}
}

// unswap reverts the swap of a cable, if there is one.
func (b *switchboard) unswap(c cableBuild) {
	if s, is := b.swapped[c.Name]; is {
		b.exchange(s.a.far(), s.b.far())
		delete(b.swapped, s.a.Name)
		delete(b.swapped, s.b.Name)
	}
}

func (c cableBuild) far() int { return c.Ports[len(c.Ports)-1] }

// fault sets the fault of a port.
func (b *switchboard) fault(i int, f site.Fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.ports[i]
	p.fault = f
	p.faults++
	if f.Pause {
		go b.pause(p, p.faults, pfcFrame(f.Priority))
	}
}

// pauseInterval is the time between two PFC frames of a faulty cable.
const pauseInterval = 10 * time.Millisecond

// pause sends PFC frames to a port until its next fault.
func (b *switchboard) pause(p *port, fault int, frame []byte) {
	tick := time.NewTicker(pauseInterval)
	defer tick.Stop()
	for range tick.C {
		b.mu.Lock()
		over := p.faults != fault
		if !over {
			p.send(frame)
		}
		b.mu.Unlock()
		if over {
			return
		}
	}
}

// serve forwards one guest's frames until its socket is closed.
func (b *switchboard) serve(i int, conn net.Conn) error {
	b.mu.Lock()
	p := b.ports[i]
	p.conn = conn
	b.mu.Unlock()
	stop := make(chan struct{})
	defer close(stop)
	go p.deliver(conn, stop)
	r := bufio.NewReaderSize(conn, 4*maxFrame)
	for {
		frame, err := readFrame(r)
		if err != nil {
			return err
		}
		b.forward(p, frame)
	}
}

func readFrame(r io.Reader) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return nil, fmt.Errorf("a frame of %d bytes is too long", n)
	}
	frame := make([]byte, n)
	_, err := io.ReadFull(r, frame)
	return frame, err
}

// forward sends a frame to the port of its destination or, if that is unknown, to all other ports.
func (b *switchboard) forward(from *port, frame []byte) {
	if len(frame) < 14 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s := from.segment
	if s == nil || from.fault.Cut || from.fault.NoVLAN != 0 && vlanOf(frame) == from.fault.NoVLAN {
		return
	}
	if from.fault.Remark {
		remark(frame, from.fault.DSCP)
	}
	s.learned[[6]byte(frame[6:12])] = from
	if len(s.members) > 2 && linkLocal(frame) {
		return // a switch stops them; a cable does not
	}
	if to, known := s.learned[[6]byte(frame[:6])]; known {
		if to != from {
			to.send(frame)
		}
		return
	}
	for _, to := range s.members {
		if to != from {
			to.send(frame)
		}
	}
}

// linkLocal reports whether no bridge may forward the frame: it is for one of the addresses 01:80:c2:00:00:0X (IEEE 802.1Q, table 8-1).
func linkLocal(frame []byte) bool {
	return bytes.HasPrefix(frame, []byte{0x01, 0x80, 0xc2, 0, 0}) && frame[5] < 0x10
}

// send queues a frame for a port's guest, and applies the port's fault. The caller holds the lock.
func (p *port) send(frame []byte) {
	f := p.fault
	if p.conn == nil || f.Cut || f.NoVLAN != 0 && vlanOf(frame) == f.NoVLAN || lost(f.Distance) || lost(p.far) {
		return
	}
	if f.Remark {
		frame = bytes.Clone(frame) // other ports may get it, too
		remark(frame, f.DSCP)
	}
	due := time.Now()
	if f.Gbps > 0 {
		if p.busy.Before(due) {
			p.busy = due
		}
		p.busy = p.busy.Add(time.Duration(float64(len(frame)*8) / f.Gbps)) // bits divided by Gb/s are nanoseconds
		due = p.busy
	}
	if due = due.Add(latency(f.Distance) + latency(p.far)); due.Before(p.last) {
		due = p.last
	}
	select {
	case p.queue <- outgoing{frame, due}:
		p.last = due
	default:
	}
}

// deliver writes the queued frames, each when it is due.
func (p *port) deliver(conn net.Conn, stop chan struct{}) {
	var head [4]byte
	for {
		select {
		case <-stop:
			return
		case o := <-p.queue:
			if wait := time.Until(o.due); wait > 0 {
				time.Sleep(wait)
			}
			binary.BigEndian.PutUint32(head[:], uint32(len(o.frame)))
			bufs := net.Buffers{head[:], o.frame}
			if _, err := bufs.WriteTo(conn); err != nil {
				return // serve reports the error
			}
		}
	}
}
