package probe

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// tokenShape is the form of what rand.Text returns.
var tokenShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z2-7]{26}$`) })

// firstPort is the first port that a receiver can have: the kernel chooses no privileged one (ip_local_port_range).
const firstPort = 1024

// tcpServer holds the open receivers. The zero value is ready to use. It is safe for concurrent use.
type tcpServer struct{ open begun[*receiver] }

type receiver struct {
	result TCPResult
	err    error
	done   chan struct{}
}

// bindTo binds sockets to one device, so that they send and receive only through this device, in a class of traffic.
func bindTo(netdev, congestion string, class Class) func(network, _ string, c syscall.RawConn) error {
	return func(network, _ string, c syscall.RawConn) error {
		var err error
		if cerr := c.Control(func(fd uintptr) {
			err = unix.BindToDevice(int(fd), netdev)
			if err == nil && congestion != "" {
				if err = unix.SetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION, congestion); err != nil {
					err = fmt.Errorf("use congestion control %q (is its kernel module loaded?): %w", congestion, err)
				}
			}
			if err == nil {
				err = class.classify(int(fd), network == "tcp6")
			}
		}); cerr != nil {
			return cerr
		}
		return err
	}
}

// Listen opens a receiver on the address and device. The receiver closes 10 s after its duration.
func (s *tcpServer) Listen(_ context.Context, spec TCPListenSpec) (TCPListenResult, error) {
	if spec.Streams < 1 || spec.Streams > 256 || spec.Duration <= 0 || spec.Duration > MeasurementLimit ||
		!tokenShape().MatchString(spec.Token) {
		return TCPListenResult{}, fmt.Errorf("receive TCP: invalid request for %d streams and %s", spec.Streams, spec.Duration)
	}
	lc := net.ListenConfig{Control: bindTo(spec.Netdev, "", Class{})}
	l, err := lc.Listen(context.Background(), "tcp", netip.AddrPortFrom(spec.Address, 0).String())
	if err != nil {
		return TCPListenResult{}, fmt.Errorf("listen on %s on %s: %w", spec.Address, spec.Netdev, err)
	}
	r := &receiver{done: make(chan struct{})}
	r.result.Buffer = largestBuffer("rmem")
	go r.serve(l.(*net.TCPListener), spec)
	return TCPListenResult{ID: s.open.put(r), Port: uint16(l.Addr().(*net.TCPAddr).Port)}, nil
}

// Collect waits for a receiver's result and removes the receiver.
func (s *tcpServer) Collect(ctx context.Context, id string) (TCPResult, error) {
	r, there := s.open.take(id)
	if !there {
		return TCPResult{}, fmt.Errorf("no receiver %q is open", id)
	}
	select {
	case <-r.done:
		return r.result, r.err
	case <-ctx.Done():
		return TCPResult{}, ctx.Err()
	}
}

// meter counts the bytes of all streams, and records when the first and the last arrived.
type meter struct {
	start       time.Time
	bytes       atomic.Int64
	first, last atomic.Int64 // since start
}

func (m *meter) add(n int) {
	now := int64(time.Since(m.start))
	m.first.CompareAndSwap(0, now)
	m.last.Store(now)
	m.bytes.Add(int64(n))
}

func (r *receiver) serve(l *net.TCPListener, spec TCPListenSpec) {
	defer close(r.done)
	defer l.Close()
	deadline := time.Now().Add(spec.Duration + 10*time.Second)
	r.err = l.SetDeadline(deadline)
	m := &meter{start: time.Now()}
	var streams sync.WaitGroup
	broken := make(chan error, spec.Streams)
	for accepted := 0; accepted < spec.Streams && r.err == nil; {
		c, err := l.AcceptTCP()
		if err != nil {
			r.err = fmt.Errorf("wait for stream %d of %d: %w", accepted+1, spec.Streams, err)
			break
		}
		if !welcome(c, spec.Token, deadline) {
			_ = c.Close() // not from our sender
			continue
		}
		accepted++
		streams.Go(func() {
			if err := drain(c, m, deadline, spec.Discard); err != nil {
				broken <- fmt.Errorf("a stream broke off after %s: %w",
					time.Duration(m.last.Load()-m.first.Load()).Round(time.Millisecond), err)
			}
		})
	}
	streams.Wait()
	close(broken)
	r.err = errors.Join(r.err, <-broken) // the first error is enough
	r.result.Streams, r.result.Bytes, r.result.Discarded = spec.Streams, m.bytes.Load(), spec.Discard
	r.result.Elapsed = time.Duration(m.last.Load() - m.first.Load())
	r.result.Gbps = gbps(r.result.Bytes, r.result.Elapsed)
}

// welcome checks the one-time token with which a stream must begin.
func welcome(c *net.TCPConn, token string, deadline time.Time) bool {
	got := make([]byte, len(token))
	if c.SetDeadline(time.Now().Add(2*time.Second)) != nil {
		return false
	}
	if _, err := io.ReadFull(c, got); err != nil {
		return false
	}
	return subtle.ConstantTimeCompare(got, []byte(token)) == 1 && c.SetDeadline(deadline) == nil
}

func gbps(bytes int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(bytes) * 8 / d.Seconds() / 1e9
}

// largestBuffer returns the bytes to which the kernel lets the buffers of a stream grow, in the caller's network namespace: the third
// number of tcp_rmem or tcp_wmem (Documentation/networking/ip-sysctl.rst). 0: it cannot be read.
func largestBuffer(which string) int64 {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_" + which)
	if err != nil {
		return 0
	}
	numbers := strings.Fields(string(text))
	if len(numbers) != 3 {
		return 0
	}
	n, _ := strconv.ParseInt(numbers[2], 10, 64)
	return n
}

// checkTarget refuses what cannot be a receiver on another host. The receiving host says its port, and may say its address: it must
// not choose who on this host gets a connection from it.
func checkTarget(to netip.AddrPort) error {
	at := to.Addr().Unmap()
	if !at.IsGlobalUnicast() && !at.IsLinkLocalUnicast() || to.Port() < firstPort {
		return fmt.Errorf("send TCP: %s cannot be a receiver of another host", to)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("read own addresses: %w", err)
	}
	for _, a := range own {
		if n, is := a.(*net.IPNet); is && n.IP.Equal(at.WithZone("").AsSlice()) {
			return fmt.Errorf("send TCP: %s is an address of this host", at)
		}
	}
	return nil
}

// sendTCP sends to an open receiver for the duration. It binds the source and the device, if they are set.
func sendTCP(ctx context.Context, s TCPSendSpec) (TCPResult, error) {
	if s.Streams < 1 || s.Streams > 256 || s.Duration <= 0 || s.Duration > MeasurementLimit || !tokenShape().MatchString(s.Token) {
		return TCPResult{}, fmt.Errorf("send TCP: invalid request for %d streams and %s", s.Streams, s.Duration)
	}
	if err := checkTarget(s.Target); err != nil {
		return TCPResult{}, err
	}
	d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(s.Source, 0)),
		Control: bindTo(s.Netdev, s.Congestion, s.Class), Timeout: 5 * time.Second}
	var streams []*stream
	defer func() {
		for _, st := range streams {
			st.close()
		}
	}()
	for range s.Streams {
		c, err := d.DialContext(ctx, "tcp", s.Target.String())
		if err != nil && s.Netdev == "" {
			return TCPResult{}, fmt.Errorf("connect to %s: %w", s.Target, err)
		}
		if err != nil {
			return TCPResult{}, fmt.Errorf("connect from %s on %s: %w", s.Source, s.Netdev, err)
		}
		if _, err := io.WriteString(c, s.Token); err != nil {
			return TCPResult{}, errors.Join(fmt.Errorf("send token to receiver: %w", err), c.Close())
		}
		st, err := newStream(c.(*net.TCPConn))
		if err != nil {
			return TCPResult{}, err
		}
		streams = append(streams, st)
	}
	start := time.Now()
	var total atomic.Int64
	var wg sync.WaitGroup
	for _, st := range streams {
		wg.Go(func() { total.Add(st.pump(ctx, start.Add(s.Duration))) })
	}
	wg.Wait()
	r := TCPResult{Streams: s.Streams, Elapsed: time.Since(start), Bytes: total.Load(), Buffer: largestBuffer("wmem")}
	r.Gbps = gbps(r.Bytes, r.Elapsed)
	for _, st := range streams {
		st.account(&r)
	}
	return r, ctx.Err()
}
