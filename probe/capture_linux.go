package probe

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The ring buffer between the kernel and the capture has 8 MiB, which is 10 ms at 6 Gb/s. The kernel hands a
// block over when it is full, or blockAge after its first packet.
const (
	blockSize  = 256 << 10
	blockCount = 32
	blockAge   = 20 * time.Millisecond
	// pollSlice limits how long a capture continues after it is cancelled.
	pollSlice = 50 * time.Millisecond
)

// capturer captures the RoCE v2 packets of a netdev. It sees the packets that pass through the kernel: all of
// Soft-RoCE, but none of RDMA hardware, which bypasses the kernel.
type capturer struct {
	spec     CaptureSpec
	fd       int
	ring     []byte
	next     int // block
	loopback bool
	vlan     []byte // buffer for a frame with its VLAN tag restored
}

// openCapture starts a capture in the network namespace of its thread. Packets that cross the netdev after it
// returns are kept for Run, as long as the ring has room. It needs CAP_NET_RAW. Close ends the capture.
func openCapture(s CaptureSpec) (*capturer, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	netdev, err := net.InterfaceByName(s.Netdev)
	if err != nil {
		return nil, fmt.Errorf("capture on %s: %w", s.Netdev, err)
	}
	// Without a protocol, the socket receives nothing before the filter is attached.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("capture on %s: open packet socket (needs root): %w", s.Netdev, err)
	}
	c := &capturer{spec: s, fd: fd, loopback: netdev.Flags&net.FlagLoopback != 0, vlan: make([]byte, s.SnapLen+4)}
	if err := c.set(netdev.Index); err != nil {
		return nil, errors.Join(fmt.Errorf("capture on %s: %w", s.Netdev, err), c.Close())
	}
	return c, nil
}

func (c *capturer) set(index int) error {
	if err := attach(c.fd, roceFilter(uint32(c.spec.SnapLen))); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	if err := unix.SetsockoptInt(c.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return fmt.Errorf("choose TPACKET_V3: %w", err)
	}
	const frame = 2048 // frames of version 3 have no fixed size, but the kernel checks that this divides a block
	request := unix.TpacketReq3{Block_size: blockSize, Block_nr: blockCount, Frame_size: frame, Frame_nr: blockSize / frame * blockCount,
		Retire_blk_tov: uint32(blockAge.Milliseconds())}
	if err := unix.SetsockoptTpacketReq3(c.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &request); err != nil {
		return fmt.Errorf("make ring: %w", err)
	}
	var err error
	if c.ring, err = unix.Mmap(c.fd, 0, blockSize*blockCount, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return fmt.Errorf("map ring: %w", err)
	}
	if err := unix.Bind(c.fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}); err != nil {
		return fmt.Errorf("bind to device: %w", err)
	}
	return nil
}

// networkOrder returns a protocol number in network byte order, as in sockaddr_ll.
func networkOrder(v uint16) uint16 {
	return binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, v))
}

// Close releases the ring. It must be called once.
func (c *capturer) Close() error {
	var err error
	if c.ring != nil {
		err = unix.Munmap(c.ring)
	}
	return errors.Join(err, unix.Close(c.fd))
}

// Run calls each for every packet, in order, until a limit of the spec is reached or ctx is done. Neither is an
// error, and packets that the kernel has kept by then are still delivered. If each returns an error, Run stops
// and returns it. Run must be called once.
func (c *capturer) Run(ctx context.Context, each func(Frame) error) (CaptureResult, error) {
	var r CaptureResult
	err := c.read(ctx, &r, each)
	stats, statsErr := unix.GetsockoptTpacketStatsV3(c.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if statsErr == nil {
		r.Dropped = int(stats.Drops)
	}
	if err = errors.Join(err, statsErr); err != nil {
		return r, fmt.Errorf("capture on %s: %w", c.spec.Netdev, err)
	}
	return r, nil
}

// read reads blocks until the capture ends. When the time is over, it first attaches a filter that rejects all
// packets, then waits until the kernel has handed over the last block.
func (c *capturer) read(ctx context.Context, r *CaptureResult, each func(Frame) error) error {
	end := time.Now().Add(c.spec.Duration)
	for {
		for c.ready() {
			if err := c.block(r, each); err != nil || r.Ended == EndedByPackets {
				return err
			}
		}
		now := time.Now()
		switch {
		case r.Ended != "" && !now.Before(end):
			return nil
		case r.Ended == "" && (ctx.Err() != nil || !now.Before(end)):
			r.Ended = EndedByDuration
			if ctx.Err() != nil {
				r.Ended = EndedByCaller
			}
			if err := attach(c.fd, []unix.SockFilter{{Code: unix.BPF_RET}}); err != nil {
				return fmt.Errorf("close filter: %w", err)
			}
			end = now.Add(3 * blockAge)
		}
		if err := c.wait(min(pollSlice, end.Sub(now))); err != nil {
			return fmt.Errorf("wait for packets: %w", err)
		}
	}
}

// wait waits for a block. If the netdev goes down, the socket reports an error once; wait ignores it, and the
// capture continues when the netdev is up again.
func (c *capturer) wait(most time.Duration) error {
	timeout := unix.NsecToTimespec(int64(most))
	fds := []unix.PollFd{{Fd: int32(c.fd), Events: unix.POLLIN}}
	if _, err := unix.Ppoll(fds, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
		return err
	}
	if fds[0].Revents&unix.POLLERR == 0 {
		return nil
	}
	v, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && v != 0 && unix.Errno(v) != unix.ENETDOWN {
		err = unix.Errno(v)
	}
	return err
}

// status returns the status word of the next block, which says whether the kernel or the capture owns it.
func (c *capturer) status() *uint32 {
	at := c.next*blockSize + int(unsafe.Offsetof(unix.TpacketBlockDesc{}.Hdr)+unsafe.Offsetof(unix.TpacketHdrV1{}.Block_status))
	return (*uint32)(unsafe.Pointer(&c.ring[at]))
}

func (c *capturer) ready() bool { return atomic.LoadUint32(c.status())&unix.TP_STATUS_USER != 0 }

// block delivers the packets of the next block, and returns the block to the kernel.
func (c *capturer) block(r *CaptureResult, each func(Frame) error) error {
	block := c.ring[c.next*blockSize : (c.next+1)*blockSize]
	head := (*unix.TpacketHdrV1)(unsafe.Pointer(&block[unsafe.Offsetof(unix.TpacketBlockDesc{}.Hdr)]))
	at := head.Offset_to_first_pkt
	for range head.Num_pkts {
		packet := (*unix.Tpacket3Hdr)(unsafe.Pointer(&block[at]))
		f, wanted := c.frame(block[at:], packet)
		at += packet.Next_offset
		if !wanted {
			continue
		}
		r.Packets++
		r.Bytes += int64(f.Length)
		if err := each(f); err != nil {
			return err
		}
		if r.Packets == c.spec.MaxPackets {
			r.Ended = EndedByPackets
			return nil
		}
	}
	atomic.StoreUint32(c.status(), unix.TP_STATUS_KERNEL)
	c.next = (c.next + 1) % blockCount
	return nil
}

// frame reads one packet of a block; b begins with the packet's header. On loopback each packet appears twice,
// so frame skips the outgoing one.
func (c *capturer) frame(b []byte, h *unix.Tpacket3Hdr) (Frame, bool) {
	const address = (unix.SizeofTpacket3Hdr + 15) &^ 15 // TPACKET_ALIGN in include/uapi/linux/if_packet.h
	from := (*unix.RawSockaddrLinklayer)(unsafe.Pointer(&b[address]))
	f := Frame{Time: time.Unix(int64(h.Sec), int64(h.Nsec)), Length: int(h.Len), Data: b[h.Mac : uint32(h.Mac)+h.Snaplen],
		Outgoing: from.Pkttype == unix.PACKET_OUTGOING}
	if c.loopback && f.Outgoing {
		return f, false
	}
	if h.Status&unix.TP_STATUS_VLAN_VALID != 0 {
		f.Data = c.withTag(f.Data, h)
		f.Length += 4
	}
	return f, true
}

// withTag restores the VLAN tag that the kernel removed and stored beside the packet.
func (c *capturer) withTag(data []byte, h *unix.Tpacket3Hdr) []byte {
	const addresses = 12
	if len(data) < addresses {
		return data
	}
	protocol := uint16(unix.ETH_P_8021Q)
	if h.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		protocol = h.Hv1.Vlan_tpid
	}
	b := append(c.vlan[:0], data[:addresses]...)
	b = binary.BigEndian.AppendUint16(b, protocol)
	b = binary.BigEndian.AppendUint16(b, uint16(h.Hv1.Vlan_tci))
	b = append(b, data[addresses:]...)
	return b[:min(len(b), c.spec.SnapLen)]
}
