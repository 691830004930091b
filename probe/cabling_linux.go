package probe

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/retry"
)

// cablingRounds is how often a port sends its pair of frames, and cablingGap the time between the rounds: a frame of the first round may
// be lost while a switch learns.
const (
	cablingRounds = CablingFrames / 2
	cablingGap    = 200 * time.Millisecond
)

// cablingServer holds the open listenings. The zero value is ready to use. It is safe for concurrent use.
type cablingServer struct{ open begun[*cablingRun] }

type cablingRun struct {
	token [cablingTokenSize]byte
	ears  []*ear
	stop  context.CancelFunc
	done  chan struct{}
	err   error
}

// ear is a socket that hears one port.
type ear struct {
	netdev string
	fd     int
	probes map[probeKey]int
	others []CablingOther
	full   bool
}

type probeKey struct {
	number uint32
	group  bool
}

// Listen opens one socket for each port. Frames that arrive after it returns are heard.
func (s *cablingServer) Listen(_ context.Context, spec CablingListenSpec) (CablingListening, error) {
	token, err := spec.check()
	if err != nil {
		return CablingListening{}, err
	}
	run := &cablingRun{token: token, done: make(chan struct{})}
	out := CablingListening{Ports: []CablingListeningPort{}}
	for _, netdev := range spec.Netdevs {
		port := CablingListeningPort{Netdev: netdev}
		e, err := openEar(netdev)
		if err == nil {
			run.ears = append(run.ears, e)
			port.Eats = eatsLLDP(privateFlags(netdev))
		} else {
			port.Failed = err.Error()
		}
		out.Ports = append(out.Ports, port)
	}
	ctx, stop := context.WithTimeout(context.Background(), spec.Duration)
	run.stop = stop
	go func() {
		defer close(run.done)
		run.err = run.hear(ctx)
		for _, e := range run.ears {
			run.err = errors.Join(run.err, unix.Close(e.fd))
		}
	}()
	out.ID = s.open.put(run)
	return out, nil
}

// openEar opens a socket for all probes and all frames to group addresses of bridges, and joins those groups: a NIC drops frames to
// groups that nobody has joined.
func openEar(netdev string) (*ear, error) {
	dev, err := net.InterfaceByName(netdev)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", netdev, err)
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: open packet socket (needs root): %w", netdev, err)
	}
	if err := setEar(fd, dev.Index); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", netdev, err), unix.Close(fd))
	}
	return &ear{netdev: netdev, fd: fd, probes: map[probeKey]int{}}, nil
}

func setEar(fd, index int) error {
	if err := attach(fd, cablingFilter()); err != nil {
		return fmt.Errorf("attach filter: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: index}); err != nil {
		return fmt.Errorf("bind to device: %w", err)
	}
	for _, group := range cablingGroups {
		m := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(group))}
		copy(m.Address[:], group[:])
		if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			return fmt.Errorf("join %s: %w", net.HardwareAddr(group[:]), err)
		}
	}
	return nil
}

// cablingFilter keeps probes, and frames to the group addresses of bridges and of Cisco's protocols.
func cablingFilter() []unix.SockFilter {
	return []unix.SockFilter{
		load(unix.BPF_H, 12),
		jump(unix.BPF_JEQ, probeType, 3, 0),
		load(unix.BPF_W, 0),
		jump(unix.BPF_JEQ, 0x0180c200, 1, 0),
		jump(unix.BPF_JEQ, 0x01000ccc, 0, 1),
		give(maxCablingFrame),
		give(0),
	}
}

// hear reads all ears until ctx is done.
func (r *cablingRun) hear(ctx context.Context) error {
	buffer := make([]byte, maxCablingFrame)
	fds := make([]unix.PollFd, len(r.ears))
	for {
		for i, e := range r.ears {
			fds[i] = unix.PollFd{Fd: int32(e.fd), Events: unix.POLLIN}
		}
		timeout := unix.NsecToTimespec(int64(pollSlice))
		if _, err := unix.Ppoll(fds, &timeout, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("wait for frames: %w", err)
		}
		over := ctx.Err() != nil
		for _, e := range r.ears {
			if err := e.read(buffer, r.token); err != nil {
				return fmt.Errorf("listen on %s: %w", e.netdev, err)
			}
		}
		if over {
			return nil
		}
	}
}

// burst limits how many frames are read from one port before the others get their turn.
const burst = 256

func (e *ear) read(buffer []byte, token [cablingTokenSize]byte) error {
	for range burst {
		n, from, err := unix.Recvfrom(e.fd, buffer, unix.MSG_DONTWAIT|unix.MSG_TRUNC)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.ENETDOWN): // a port that goes down is silent from then on
			continue
		case err != nil:
			return err
		}
		if ll, is := from.(*unix.SockaddrLinklayer); !is || ll.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		e.heard(buffer[:min(n, len(buffer))], token)
	}
	return nil
}

func (e *ear) heard(frame []byte, token [cablingTokenSize]byte) {
	if number, group, ours := readProbe(frame, token); ours {
		k := probeKey{number, group}
		if _, known := e.probes[k]; !known && len(e.probes) == maxCablingProbes {
			e.full = true
			return
		}
		e.probes[k]++
		return
	}
	for i := range e.others {
		if bytes.Equal(e.others[i].Data, frame) {
			e.others[i].Count++
			return
		}
	}
	if len(e.others) == maxCablingOthers {
		e.full = true
		return
	}
	e.others = append(e.others, CablingOther{Netdev: e.netdev, Data: bytes.Clone(frame), Count: 1})
}

// Send sends the frames of all ports, round by round.
func (s *cablingServer) Send(ctx context.Context, spec CablingSendSpec) ([]CablingSent, error) {
	token, err := cablingToken(spec.Token)
	if err == nil && len(spec.Ports) > MaxCablingPorts {
		err = fmt.Errorf("send from %d ports: too many", len(spec.Ports))
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open packet socket (needs root): %w", err)
	}
	out := make([]CablingSent, len(spec.Ports))
	for round := range cablingRounds {
		if round > 0 {
			if err := retry.Pause(ctx, cablingGap); err != nil {
				return nil, errors.Join(err, unix.Close(fd))
			}
		}
		for i, p := range spec.Ports {
			out[i].Netdev = p.Netdev
			if out[i].Failed != "" {
				continue
			}
			sent, err := sendPair(fd, p, token)
			out[i].Frames += sent
			if err != nil {
				out[i].Failed = err.Error()
			}
		}
	}
	return out, unix.Close(fd)
}

func sendPair(fd int, p CablingPort, token [cablingTokenSize]byte) (sent int, err error) {
	dev, err := net.InterfaceByName(p.Netdev)
	if err != nil {
		return 0, fmt.Errorf("send from %s: %w", p.Netdev, err)
	}
	if len(dev.HardwareAddr) != 6 {
		return 0, fmt.Errorf("send from %s: it is not an Ethernet port", p.Netdev)
	}
	for _, to := range [][6]byte{nearestBridge, everyone} {
		frame := probeFrame(to, [6]byte(dev.HardwareAddr), token, p.Number)
		if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: dev.Index, Halen: 6}); err != nil {
			return sent, fmt.Errorf("send from %s: %w", p.Netdev, err)
		}
		sent++
	}
	return sent, nil
}

// Collect ends a listening and returns what was heard, in the order of the ports.
func (s *cablingServer) Collect(_ context.Context, id string) (CablingHeard, error) {
	run, there := s.open.take(id)
	if !there {
		return CablingHeard{}, fmt.Errorf("no listening %q is open", id)
	}
	run.stop()
	<-run.done
	var out CablingHeard
	for _, e := range run.ears {
		for k, n := range e.probes {
			out.Probes = append(out.Probes, CablingProbe{e.netdev, k.number, k.group, n})
		}
		out.Others = append(out.Others, e.others...)
		if e.full {
			out.Full = append(out.Full, e.netdev)
		}
	}
	slices.SortFunc(out.Probes, func(a, b CablingProbe) int {
		return cmp.Or(cmp.Compare(a.Netdev, b.Netdev), cmp.Compare(a.Number, b.Number))
	})
	return out, run.err
}

// privateFlags returns the private flags of a NIC's driver; none if it has none. They are only remarks, so errors are none either.
func privateFlags(netdev string) map[string]bool {
	const setPrivateFlags = 2 // ETH_SS_PRIV_FLAGS in include/uapi/linux/ethtool.h
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }() // it was only asked
	info := make([]byte, 20)              // struct ethtool_sset_info with one number
	binary.NativeEndian.PutUint32(info, unix.ETHTOOL_GSSET_INFO)
	binary.NativeEndian.PutUint64(info[8:], 1<<setPrivateFlags)
	if ethtool(fd, netdev, info) != nil {
		return nil
	}
	// The flags are the bits of one word, so that there are at most 32 (struct ethtool_value).
	n := min(binary.NativeEndian.Uint32(info[16:]), 32)
	names := make([]byte, 12+(32+spare)*nameSize) // struct ethtool_gstrings
	binary.NativeEndian.PutUint32(names, unix.ETHTOOL_GSTRINGS)
	binary.NativeEndian.PutUint32(names[4:], setPrivateFlags)
	binary.NativeEndian.PutUint32(names[8:], n)
	value := make([]byte, 8)
	binary.NativeEndian.PutUint32(value, unix.ETHTOOL_GPFLAGS)
	if n == 0 || errors.Join(ethtool(fd, netdev, names), ethtool(fd, netdev, value)) != nil {
		return nil
	}
	out, bits := map[string]bool{}, binary.NativeEndian.Uint32(value[4:])
	for i := range int(n) {
		name, _, _ := bytes.Cut(names[12+i*nameSize:12+(i+1)*nameSize], []byte{0})
		out[string(name)] = bits&(1<<i) != 0
	}
	return out
}
