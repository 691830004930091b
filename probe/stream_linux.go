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

// chunk is one write or read, in bytes. On veth, 512 KiB carried a quarter more in one stream than
// 128 KiB did: each call costs the runtime's bookkeeping besides the kernel's work.
const chunk = 512 << 10

// lookUp is how often a blocked stream looks at the clock.
const lookUp = 100 * time.Millisecond

// stream is a connection whose calls block the thread that makes them: parking a goroutine for each
// of many short waits costs a tenth of the throughput of a fast path.
type stream struct {
	file *os.File // keeps fd from being closed
	fd   int
}

// blocking takes a connection over; on an error it is closed.
func blocking(c *net.TCPConn) (*stream, error) {
	f, err := c.File()
	if err := errors.Join(err, c.Close()); err != nil {
		return nil, fmt.Errorf("take a connection over: %w", err)
	}
	s := &stream{f, int(f.Fd())} // Fd makes it blocking
	every := unix.NsecToTimeval(int64(lookUp))
	err = errors.Join(unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &every),
		unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &every))
	if err != nil {
		s.close()
		return nil, fmt.Errorf("bound a stream's waits: %w", err)
	}
	return s, nil
}

// close ends the stream; what the receiver accounts for is what counts.
func (s *stream) close() { _ = s.file.Close() }

// patient says whether a call may be made again.
func patient(err error) bool { return errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) }

// pump writes until the time is up. A broken stream ends it early; the receiver's account shows it.
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

// drain reads to the end, which the sender says; anything else is a stream that broke off. It closes
// the connection.
func drain(c *net.TCPConn, m *meter, deadline time.Time, discard bool) error {
	s, err := blocking(c)
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

// account reads what the kernel says of a stream.
func (s *stream) account() (retransmits int, congestion string) {
	if info, err := unix.GetsockoptTCPInfo(s.fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
		retransmits = int(info.Total_retrans)
	}
	// A broken stream may have no account; the figures then stay empty.
	congestion, _ = unix.GetsockoptString(s.fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	return retransmits, congestion
}
