package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// chunk is the size of one write or read in bytes. On veth, one stream carried a quarter more with 512 KiB
// than with 128 KiB, because the Go runtime adds a cost to each system call.
const chunk = 512 << 10

// lookUp is how often a blocked stream checks the time.
const lookUp = 100 * time.Millisecond

// stream is a connection whose calls block their thread: parking a goroutine for each of many short waits
// would cost a tenth of the throughput of a fast path.
type stream struct {
	file *os.File // keeps fd from being closed
	fd   int
}

// newStream makes a connection a stream. On an error the connection is closed.
func newStream(c *net.TCPConn) (*stream, error) {
	f, err := c.File()
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, fmt.Errorf("take over a connection: %w", err)
	}
	s := &stream{f, int(f.Fd())} // Fd sets the blocking mode
	every := unix.NsecToTimeval(int64(lookUp))
	err = errors.Join(unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &every),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &every))
	if err != nil {
		s.close()
		return nil, fmt.Errorf("set a stream's timeouts: %w", err)
	}
	return s, nil
}

// close ends the stream. Its error does not matter: only the receiver's measurement counts.
func (s *stream) close() { _ = s.file.Close() }

// patient reports whether a call can be repeated after err.
func patient(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// pump writes until the time is over. It stops early if the stream breaks, which the receiver's measurement shows.
func (s *stream) pump(ctx context.Context, until time.Time) int64 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, chunk)
	var total int64
	for time.Now().Before(until) && ctx.Err() == nil {
		n, err := unix.Write(s.fd, buf)
		total += int64(max(n, 0))
		if err != nil && !patient(err) {
			break
		}
	}
	return total
}

// drain reads until the sender closes the connection. It returns an error if the stream breaks off. It closes
// the connection on this side.
func drain(c *net.TCPConn, m *meter, deadline time.Time, discard bool) error {
	s, err := newStream(c)
	if err != nil {
		return err
	}
	defer s.close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	buf := make([]byte, chunk)
	read := func() (int, error) { return unix.Read(s.fd, buf) }
	if discard {
		read = func() (int, error) {
			n, _, err := unix.Recvfrom(s.fd, buf, unix.MSG_TRUNC)
			return n, err
		}
	}
	for time.Now().Before(deadline) {
		n, err := read()
		switch {
		case n > 0:
			m.add(n)
		case err == nil:
			return nil
		case !patient(err):
			return err
		}
	}
	return os.ErrDeadlineExceeded
}

// account adds the kernel's statistics of a stream to a result. A broken stream may have none.
func (s *stream) account(r *TCPResult) {
	if info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		r.Retransmits += int(info.Total_retrans)
		r.Segments += int(info.Data_segs_out)
		if mss := int(info.Snd_mss); r.Segment == 0 || mss < r.Segment {
			r.Segment = mss
		}
	}
	r.Congestion, _ = unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
}
