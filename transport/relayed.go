package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// relayed is an ssh.Conn that a keeper holds. Each of its channels is a connection to the keeper's socket. Closing it ends these
// channels, and leaves the SSH connection open.
type relayed struct {
	at    place
	user  string
	mu    sync.Mutex
	open  map[*relayedChannel]bool // nil once it is closed
	ended context.Context          // until it is closed
	end   context.CancelFunc
}

func newRelayed(at place, user string) *relayed {
	c := &relayed{at: at, user: user, open: map[*relayedChannel]bool{}}
	c.ended, c.end = context.WithCancel(context.Background())
	return c
}

// sshClient returns a client of the connection, to which the host sends no requests and opens no channels.
func (c *relayed) sshClient() *ssh.Client {
	channels, requests := make(chan ssh.NewChannel), make(chan *ssh.Request)
	close(channels)
	close(requests)
	return ssh.NewClient(c, channels, requests)
}

// OpenChannel opens a session. It opens no channels of other types.
func (c *relayed) OpenChannel(name string, _ []byte) (ssh.Channel, <-chan *ssh.Request, error) {
	if name != "session" {
		return nil, nil, fmt.Errorf("a kept connection opens no channel of the type %q", name)
	}
	s, _, err := ask(c.ended, c.at.socket, keepRequest{Do: doOpen, Key: c.at.kept.Key}, c.at.kept.Patience+answerPatience)
	if err != nil {
		return nil, nil, err
	}
	ch := newRelayedChannel(c, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open == nil {
		_ = s.Close()
		return nil, nil, net.ErrClosed
	}
	c.open[ch] = true
	go ch.read() // ends with the socket
	return ch, ch.requests, nil
}

// SendRequest answers for the host while the connection is open: the keeper asks the host itself whether it is alive.
func (c *relayed) SendRequest(string, bool, []byte) (bool, []byte, error) {
	if c.ended.Err() != nil {
		return false, nil, io.EOF
	}
	return true, nil, nil
}

// Close closes all channels.
func (c *relayed) Close() error {
	c.mu.Lock()
	open := c.open
	c.open = nil
	c.mu.Unlock()
	if open == nil {
		return net.ErrClosed
	}
	c.end()
	for ch := range open {
		_ = ch.Close()
	}
	return nil
}

// Wait waits until the connection is closed on this side.
func (c *relayed) Wait() error {
	<-c.ended.Done()
	return net.ErrClosed
}

func (c *relayed) User() string          { return c.user }
func (c *relayed) SessionID() []byte     { return nil }
func (c *relayed) ClientVersion() []byte { return nil }
func (c *relayed) ServerVersion() []byte { return nil }

// LocalAddr and RemoteAddr return placeholders: Session.Dialled has the host's address.
func (c *relayed) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4zero} }
func (c *relayed) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

// relayedChannel is a session on a relayed connection.
type relayedChannel struct {
	conn     *relayed
	socket   *socket
	out      *io.PipeReader
	toOut    *io.PipeWriter
	errs     *io.PipeReader
	toErrs   *io.PipeWriter
	requests chan *ssh.Request
	asking   sync.Mutex // one request waits for its reply at a time
	replies  chan bool
	closed   chan struct{}
	once     sync.Once
}

func newRelayedChannel(c *relayed, s *socket) *relayedChannel {
	ch := &relayedChannel{conn: c, socket: s, requests: make(chan *ssh.Request), replies: make(chan bool, 1), closed: make(chan struct{})}
	ch.out, ch.toOut = io.Pipe()
	ch.errs, ch.toErrs = io.Pipe()
	return ch
}

// read reads what the keeper sends until the socket is closed.
func (ch *relayedChannel) read() {
	defer func() {
		_ = ch.toOut.Close()
		_ = ch.toErrs.Close()
		close(ch.requests)
		_ = ch.Close()
	}()
	for {
		kind, content, err := readFrame(ch.socket.r)
		if err != nil || ch.take(kind, content) != nil {
			return
		}
	}
}

// take hands on one frame.
func (ch *relayedChannel) take(kind byte, content []byte) error {
	switch kind {
	case frameStill:
		return nil
	case frameData:
		_, err := ch.toOut.Write(content)
		return err
	case frameErrors:
		_, err := ch.toErrs.Write(content)
		return err
	case frameEnd:
		return ch.toOut.Close()
	case frameRequest:
		r := channelRequest{}
		if err := json.Unmarshal(content, &r); err != nil {
			return err
		}
		if r.Type != "exit-status" && r.Type != "exit-signal" {
			return nil
		}
		select {
		case ch.requests <- &ssh.Request{Type: r.Type, Payload: r.Payload}: // wants no reply, which would need a channel of the library
			return nil
		case <-ch.closed:
			return net.ErrClosed
		}
	case frameReply:
		select {
		case ch.replies <- len(content) == 1 && content[0] == 1:
			return nil
		default: // nobody has asked
		}
	}
	return errors.New("unexpected frame")
}

// SendRequest sends a request. It returns io.EOF if the channel ends before the reply.
func (ch *relayedChannel) SendRequest(name string, wantReply bool, payload []byte) (bool, error) {
	ch.asking.Lock()
	defer ch.asking.Unlock()
	content, err := json.Marshal(channelRequest{Type: name, WantReply: wantReply, Payload: payload})
	if err == nil && len(content) > maxFrame {
		err = errors.New("the request is too long")
	}
	if err == nil {
		err = ch.socket.write(frameRequest, content)
	}
	if err != nil || !wantReply {
		return false, asEOF(err)
	}
	select {
	case ok := <-ch.replies:
		return ok, nil
	case <-ch.closed:
	}
	select {
	case ok := <-ch.replies: // a short command ends at once, and both cases above were ready
		return ok, nil
	default:
		return false, io.EOF
	}
}

func (ch *relayedChannel) Read(p []byte) (int, error) { return untilClosed{ch.out}.Read(p) }
func (ch *relayedChannel) CloseWrite() error          { return asEOF(ch.socket.write(frameEnd, nil)) }

func (ch *relayedChannel) Write(p []byte) (int, error) {
	n, err := ch.socket.writeData(frameData, p)
	return n, asEOF(err)
}

// asEOF returns io.EOF, as a channel of the library does, for an error on a channel that has ended.
func asEOF(err error) error {
	if err == nil || !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.EPIPE) {
		return err
	}
	return io.EOF
}

// untilClosed reads from a pipe, which ends where it is closed.
type untilClosed struct{ *io.PipeReader }

func (r untilClosed) Read(p []byte) (int, error) {
	n, err := r.PipeReader.Read(p)
	if errors.Is(err, io.ErrClosedPipe) {
		err = io.EOF
	}
	return n, err
}

// Stderr returns the error output. What is written to it is dropped.
func (ch *relayedChannel) Stderr() io.ReadWriter {
	return struct {
		io.Reader
		io.Writer
	}{untilClosed{ch.errs}, io.Discard}
}

// Close ends the channel, and with it what runs in it.
func (ch *relayedChannel) Close() error {
	err := io.EOF // as of a channel of the library that is closed already
	ch.once.Do(func() {
		close(ch.closed)
		err = ch.socket.Close()
		_ = ch.out.Close()
		_ = ch.errs.Close()
		ch.conn.mu.Lock()
		defer ch.conn.mu.Unlock()
		delete(ch.conn.open, ch)
	})
	return err
}

// relay copies between a channel of the host and a command, until one of them ends it. It returns false if the host did not end the channel
// in time after the command did: goroutines then wait for the connection to end.
func relay(s *socket, ch ssh.Channel, requests <-chan *ssh.Request, patience time.Duration) bool {
	r := &relaying{socket: s, channel: ch}
	var all sync.WaitGroup
	all.Go(func() {
		r.copyAll(frameData, ch)
		_ = r.write(frameEnd, nil)
	})
	all.Go(func() { r.copyAll(frameErrors, ch.Stderr()) })
	all.Go(func() {
		for q := range requests {
			if q.WantReply {
				_ = q.Reply(false, nil)
			}
			if content, err := json.Marshal(channelRequest{Type: q.Type, Payload: q.Payload}); err == nil && len(content) <= maxFrame {
				_ = r.write(frameRequest, content)
			}
		}
	})
	host, command := make(chan struct{}), make(chan struct{})
	go func() { // ends with the channel or the connection
		all.Wait()
		close(host)
	}()
	go func() { // ends when either side closes the socket
		defer close(command)
		for {
			kind, content, err := readFrame(s.r)
			if err == nil {
				err = r.give(kind, content)
			}
			if err != nil {
				return
			}
		}
	}()
	defer func() { _ = s.Close() }()
	look := time.NewTicker(stillEvery)
	defer look.Stop()
	for here := true; here; {
		select {
		case <-host:
			return true
		case <-command:
			here = false
		case <-look.C:
			// While the host reads nothing, nothing is read of the command either, and only a write fails once it has gone.
			here = s.write(frameStill, nil) == nil
		}
	}
	_ = ch.Close()
	return await(host, patience)
}

// relaying is one channel that relay copies.
type relaying struct {
	socket  *socket
	channel ssh.Channel
	// asking is held from a request to the host until its reply is written. What the host sends after its reply must not overtake it: the
	// command reads no output before it knows that its program runs.
	asking sync.Mutex
}

func (r *relaying) write(kind byte, content []byte) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	return r.socket.write(kind, content)
}

// copyAll hands what the host sends to the command.
func (r *relaying) copyAll(kind byte, from io.Reader) {
	buf := make([]byte, 32<<10) // shorter than maxFrame
	for {
		n, err := from.Read(buf)
		if n > 0 && r.write(kind, buf[:n]) != nil {
			_ = r.channel.Close() // the command is gone
			return
		}
		if err != nil {
			return
		}
	}
}

// give hands one frame of a command to the host.
func (r *relaying) give(kind byte, content []byte) error {
	switch kind {
	case frameData:
		_, err := r.channel.Write(content)
		return err
	case frameEnd:
		return r.channel.CloseWrite()
	case frameRequest:
		q := channelRequest{}
		if err := json.Unmarshal(content, &q); err != nil {
			return err
		}
		if !q.WantReply {
			_, err := r.channel.SendRequest(q.Type, false, q.Payload)
			return err
		}
		go func() { // ends with the channel: a host that does not reply must not hide that the command has ended
			if r.request(q) != nil {
				_ = r.socket.Close()
			}
		}()
		return nil
	}
	return errors.New("unexpected frame")
}

// request sends a request that wants a reply to the host, and the reply to the command.
func (r *relaying) request(q channelRequest) error {
	r.asking.Lock()
	defer r.asking.Unlock()
	ok, err := r.channel.SendRequest(q.Type, true, q.Payload)
	if err != nil {
		return err
	}
	reply := []byte{0}
	if ok {
		reply[0] = 1
	}
	return r.socket.write(frameReply, reply)
}

// How long a host may take to open or end a channel on a kept connection (see Kept.Patience), how long a keeper may take to answer, and how
// often it looks whether the command of a channel is still there.
const (
	openPatience   = 3 * time.Second
	answerPatience = 2 * time.Second
	stillEvery     = time.Second
)
