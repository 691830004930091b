package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// proxied is a connection through a ProxyCommand: the program's input and output are the stream to the SSH server.
type proxied struct {
	to, from *os.File // its input and output
	errors   *os.File // its error output, which goes to said
	cmd      *exec.Cmd
	said     bounded
	silent   chan struct{} // closed when nothing more can come from errors
	ended    atomic.Bool   // closed its input or output before Close
	exited   chan struct{} // closed when Close has waited for it
	exit     error         // set before exited is closed
	once     sync.Once
}

// proxyGrace is how long a ProxyCommand may take to end after SIGHUP, which is what OpenSSH sends it.
const proxyGrace = time.Second

// dialProxy starts the ProxyCommand of a host as OpenSSH does (sshconnect.c, ssh_proxy_connect): the user's shell executes it. It
// runs in a session of its own, because Ctrl-C must not cut connections that a revert needs, so it has no terminal to ask a
// question on.
func (r resolved) dialProxy(context.Context, string, string) (net.Conn, error) {
	command, err := r.expandProxy()
	if err != nil {
		return nil, err
	}
	in, to, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start ProxyCommand: %w", err)
	}
	defer in.Close()
	from, out, err := os.Pipe()
	if err != nil {
		to.Close()
		return nil, fmt.Errorf("start ProxyCommand: %w", err)
	}
	defer out.Close()
	said, report, err := os.Pipe()
	if err != nil {
		to.Close()
		from.Close()
		return nil, fmt.Errorf("start ProxyCommand: %w", err)
	}
	defer report.Close()
	cmd := exec.Command(firstOf(os.Getenv("SHELL"), "/bin/sh"), "-c", "exec "+command)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, report
	p := &proxied{to: to, from: from, errors: said, cmd: cmd, silent: make(chan struct{}), exited: make(chan struct{})}
	if err = inOwnSession(cmd); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		to.Close()
		from.Close()
		said.Close()
		return nil, fmt.Errorf("start ProxyCommand: %w", err)
	}
	go func() { // ends with Close
		_, _ = io.Copy(&p.said, said)
		close(p.silent)
	}()
	return p, nil
}

// shellSafe matches names that every shell reads as one word of these characters.
var shellSafe = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._:@+][A-Za-z0-9._:@+%-]*$`) })

// expandProxy replaces the tokens that ProxyCommand has in ssh_config(5). The command itself is the user's own.
func (r resolved) expandProxy() (string, error) {
	values := map[byte]string{'h': r.Address, 'k': firstOf(r.hostKeyAlias, r.asked), 'n': r.asked, 'p': strconv.Itoa(r.Port), 'r': r.User}
	var out strings.Builder
	for rest := r.proxyCommand; ; {
		before, after, found := strings.Cut(rest, "%")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		if rest = after; rest == "" {
			return "", fmt.Errorf("ProxyCommand ends with a single %%")
		}
		value, known := values[rest[0]]
		switch {
		case rest[0] == '%':
			value = "%"
		case !known:
			return "", fmt.Errorf("ProxyCommand has the unknown token %q", "%"+rest[:1])
		case !shellSafe().MatchString(value):
			return "", fmt.Errorf("ProxyCommand would hand %q to a shell as %%%c: use only letters, digits and ._:@+-", neutral(value), rest[0])
		}
		out.WriteString(value)
		rest = rest[1:]
	}
}

// fault adds to the error of a login how the program ended, if it ended by itself, and what it printed. The connection is closed.
func (p *proxied) fault(err error) error {
	if p.ended.Load() {
		err = fmt.Errorf("%w; ProxyCommand ended", err)
		select {
		case <-p.exited:
			if p.exit != nil {
				err = fmt.Errorf("%w (%w)", err, p.exit)
			}
		default:
		}
	}
	if said := p.said.String(); said != "" {
		err = fmt.Errorf("%w; ProxyCommand printed: %s", err, said)
	}
	return err
}

// Close ends the program and what it started, and waits for the program. It signals the group before it waits for the program:
// afterwards, another process or group could have the same ID.
func (p *proxied) Close() error {
	p.once.Do(func() {
		_ = p.to.Close()
		if p.ended.Load() { // the program may be about to end: let it say why
			await(p.silent, proxyGrace)
		}
		signalSession(p.cmd.Process, syscall.SIGHUP)
		signalSession(p.cmd.Process, syscall.SIGTERM) // below nohup(1), programs ignore the hang-up
		go func() {
			p.exit = p.cmd.Wait()
			close(p.exited)
		}()
		if !await(p.exited, proxyGrace) {
			signalSession(p.cmd.Process, syscall.SIGKILL)
			await(p.exited, proxyGrace)
		}
		await(p.silent, proxyGrace) // not for what it started and ignores the signal
		_ = p.from.Close()
		_ = p.errors.Close()
	})
	return nil
}

// await waits until a channel is closed, but not longer than that time. It reports whether it was closed.
func await(closed <-chan struct{}, patience time.Duration) bool {
	select {
	case <-closed:
		return true
	case <-time.After(patience):
		return false
	}
}

func (p *proxied) Read(b []byte) (int, error) {
	n, err := p.from.Read(b)
	if errors.Is(err, io.EOF) {
		p.ended.Store(true)
	}
	return n, err
}

func (p *proxied) Write(b []byte) (int, error) {
	n, err := p.to.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		p.ended.Store(true)
	}
	return n, err
}

// LocalAddr and RemoteAddr return placeholders: only the program knows the addresses.
func (p *proxied) LocalAddr() net.Addr  { return &net.TCPAddr{IP: net.IPv4zero} }
func (p *proxied) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero} }

func (p *proxied) SetReadDeadline(t time.Time) error  { return p.from.SetReadDeadline(t) }
func (p *proxied) SetWriteDeadline(t time.Time) error { return p.to.SetWriteDeadline(t) }

func (p *proxied) SetDeadline(t time.Time) error {
	if err := p.SetReadDeadline(t); err != nil {
		return err
	}
	return p.SetWriteDeadline(t)
}
