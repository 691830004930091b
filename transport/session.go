package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Session is a started helper: Read reads its output, and Write writes its input.
type Session struct {
	host   string
	conn   *connection
	sess   *ssh.Session
	in     io.WriteCloser
	out    io.Reader
	peeked bytes.Buffer // output that was read while waiting for the helper; Read returns it first
	errs   bounded
	began  time.Time     // when the host was asked to run the script
	shell  time.Duration // how long the login shell took until it ran the script; 0 until then
	exited chan struct{}
	exit   error // set before exited is closed
	once   sync.Once

	deadline *time.Timer // closes the connection, unless the helper greets before
	late     atomic.Bool // it did
}

// HostKey returns the key with which the host proved itself: type and key, as in known_hosts.
func (s *Session) HostKey() string {
	key := s.conn.proven[len(s.conn.proven)-1]
	if c, is := key.(*ssh.Certificate); is {
		key = c.Key // of the certificate's holder
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key)))
}

// Dialled returns the address and port of the host's SSH server, as this side knows them; invalid if a jump host looked up the
// host's name.
func (s *Session) Dialled() netip.AddrPort { return s.conn.dialled }

// Saved returns how long it took an earlier command to make the connection; 0 if this command made it. It tells how slow the host is, as
// a new connection would.
func (s *Session) Saved() time.Duration { return s.conn.saved }

// bounded keeps the last 32 KiB of what is written to it.
type bounded struct {
	mu  sync.Mutex
	buf []byte
}

func (b *bounded) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.buf = append(b.buf, p...)
	if n := len(b.buf) - 32<<10; n > 0 {
		b.buf = b.buf[n:]
	}
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom for io.Copy, whose own buffer of 32 KiB for each host would be most of what a large fleet's
// connections allocate. A helper prints little.
func (b *bounded) ReadFrom(r io.Reader) (all int64, err error) {
	buf := make([]byte, 512)
	for {
		n, err := r.Read(buf)
		all += int64(n)
		_, _ = b.Write(buf[:n]) // never fails
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
	}
}

func (b *bounded) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return neutral(string(b.buf))
}

// run starts a command, whose greeting must come within startPatience.
func (c *connection) run(ctx context.Context, host, command string) (_ *Session, err error) {
	s := &Session{host: host, conn: c, exited: make(chan struct{})}
	s.deadline = time.AfterFunc(startPatience, func() { s.late.Store(true); c.close() })
	defer func() {
		if err != nil {
			s.deadline.Stop()
		}
	}()
	fail := func(err error) error {
		e := &Error{Host: host, Op: "start helper", Err: err}
		if s.late.Load() {
			e.Err, e.Hint = fmt.Errorf("sshd started no command within %s", startPatience), "the host may be overloaded, or out of processes or memory"
		}
		return e
	}
	sess, err := c.client.NewSession()
	if err != nil {
		return nil, fail(err)
	}
	s.sess = sess
	sess.Stderr = &s.errs
	if s.in, err = sess.StdinPipe(); err != nil {
		return nil, fail(err)
	}
	if s.out, err = sess.StdoutPipe(); err != nil {
		return nil, fail(err)
	}
	stop := context.AfterFunc(ctx, func() { c.close() })
	defer stop()
	if err := sess.Start(command); err != nil {
		return nil, fail(err)
	}
	s.began = time.Now()
	go func() {
		s.exit = sess.Wait()
		close(s.exited)
	}()
	return s, nil
}

// awaitGreeting waits for NUL, with which the helper's greeting begins and which no login text contains, or for the
// end of the script. If the helper is missing, it returns the possible directories.
func (s *Session) awaitGreeting() (*absence, error) {
	defer s.deadline.Stop()
	buf := make([]byte, 512)
	for {
		n, err := s.out.Read(buf)
		s.peeked.Write(buf[:n])
		if s.shell == 0 && bytes.Contains(s.peeked.Bytes(), []byte(shellRan)) {
			s.shell = time.Since(s.began)
		}
		if bytes.IndexByte(buf[:n], 0) >= 0 {
			return nil, nil
		}
		if s.peeked.Len() > 256<<10 {
			return nil, &Error{Host: s.host, Op: "start helper", Err: errors.New("the login printed more than 256 KiB"), Hint: "they must be quiet for commands without a terminal: " + s.startupFiles()}
		}
		if err == nil {
			continue
		}
		<-s.exited
		if s.late.Load() && s.shell == 0 {
			return nil, &Error{Host: s.host, Op: "start helper", Err: fmt.Errorf("the login shell ran no command within %s", startPatience), Hint: "something in the startup files waits: " + s.startupFiles()}
		}
		var status *ssh.ExitError
		if errors.As(s.exit, &status) && status.ExitStatus() == exitMissing {
			where, err := parseMissing(s.peeked.String())
			if err != nil {
				return nil, &Error{Host: s.host, Op: "look for helper", Err: err}
			}
			return &where, nil
		}
		return nil, s.whyEnded()
	}
}

// whyEnded returns an error that explains the exit status and the error output.
func (s *Session) whyEnded() error {
	said := s.errs.String()
	if _, after, ran := strings.Cut(said, shellRan); ran { // what startup files print does not explain why the helper ended
		said = strings.TrimSpace(after)
	}
	e := &Error{Host: s.host, Op: "start helper"}
	sudoers := fmt.Sprintf("let %s run the helper with sudo without a password (docs/questions.md, \"Which sudo rule does the login need?\"), "+
		"or set ssh.sudo = false and log in as root", s.conn.user)
	switch {
	case strings.Contains(said, "a password is required"), strings.Contains(said, "a terminal is required to read the password"):
		e.Err, e.Hint = errors.New("sudo asks for a password"), sudoers
	case strings.Contains(said, "you must have a tty"), strings.Contains(said, "requiretty"):
		e.Err, e.Hint = errors.New("sudo requires a terminal"), "remove requiretty for this user"
	case strings.Contains(said, "is not in the sudoers file"), strings.Contains(said, "is not allowed to execute"), strings.Contains(said, "may not run sudo"):
		e.Err, e.Hint = errors.New("the user is not allowed to run the helper with sudo"), sudoers
	case strings.Contains(said, "sudo: not found"), strings.Contains(said, "sudo: command not found"), strings.Contains(said, "sudo: No such file"):
		e.Err, e.Hint = errors.New("the host has no sudo"), "install sudo, or log in as root"
	case said != "":
		e.Err = fmt.Errorf("the helper exited (%w): %s", orEnd(s.exit), said)
	default:
		e.Err = fmt.Errorf("the helper exited without output: %w", orEnd(s.exit))
	}
	var status *ssh.ExitError
	if e.Hint == "" && errors.As(s.exit, &status) && status.Signal() == string(ssh.SIGKILL) {
		e.Hint = "somebody killed it, or the kernel did because the host's memory ran out: look for \"Out of memory\" in `journalctl -k`"
	}
	return e
}

func orEnd(err error) error {
	if err == nil {
		return io.EOF
	}
	return err
}

// Read reads the helper's output. If the helper failed, the error at the end of the output says why.
func (s *Session) Read(p []byte) (int, error) {
	if s.peeked.Len() > 0 {
		return s.peeked.Read(p)
	}
	n, err := s.out.Read(p)
	if n == 0 && errors.Is(err, io.EOF) {
		select {
		case <-s.exited:
			if s.exit != nil {
				return 0, s.whyEnded()
			}
		case <-time.After(200 * time.Millisecond):
		}
	}
	return n, err
}

// Write writes the helper's input.
func (s *Session) Write(p []byte) (int, error) { return s.in.Write(p) }

// Stderr returns the helper's error output, limited in size and without control characters.
func (s *Session) Stderr() string { return s.errs.String() }

// Close ends the helper by closing its input, and closes the connection after at most half a second, because
// nothing else ends a dead connection.
func (s *Session) Close() error {
	s.once.Do(func() {
		go func() { _ = s.in.Close() }() // may block on a dead path; ends with the connection
		select {
		case <-s.exited:
		case <-time.After(500 * time.Millisecond):
		}
		s.conn.close()
	})
	return nil
}
