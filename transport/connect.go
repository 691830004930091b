package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// connection is a client with the jump hosts below it.
type connection struct {
	client   *ssh.Client
	user     string
	patience time.Duration // with silence; who gives a host long to log in gives it as long to answer
	below    []*ssh.Client

	ended   chan struct{}
	end     sync.Once
	silent  atomic.Bool // closed because the host fell silent
	started atomic.Bool // the helper runs
}

// keepAliveEvery and keepAlivePatience watch a connection on which nothing else does: x/crypto/ssh
// has no keepalive (golang/go#19338), and a host that falls away while the helper is being brought
// or started would otherwise be waited for until TCP gives up, a quarter of an hour later.
// Variables, so that a test need not wait.
var (
	keepAliveEvery    = 3 * time.Second
	keepAlivePatience = 12 * time.Second
)

// watch closes the connection once the host does not answer, or ctx ends before the helper runs:
// later, whoever has the session decides what an interruption means.
func (c *connection) watch(ctx context.Context) {
	interrupted := ctx.Done()
	for {
		answered := make(chan error, 1)
		go func() { // ends with the connection
			_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
			answered <- err
		}()
		for wait, patience := true, time.After(c.patience); wait; {
			select {
			case <-c.ended:
				return
			case <-interrupted:
				if interrupted = nil; !c.started.Load() {
					c.close()
				}
			case <-patience:
				c.silent.Store(true)
				c.close()
			case err := <-answered:
				if wait = false; err != nil {
					c.close() // the connection ended by itself
				}
			}
		}
		select {
		case <-c.ended:
			return
		case <-interrupted:
			if interrupted = nil; !c.started.Load() {
				c.close()
			}
		case <-time.After(keepAliveEvery):
		}
	}
}

// fault explains an error on a connection that was closed for silence.
func (c *connection) fault(host string, err error) error {
	if err != nil && c.silent.Load() {
		return &Error{Host: host, Op: "reach the helper", Err: fmt.Errorf("the host fell silent for %s", c.patience), Hint: "is it up, and is the path to it whole?"}
	}
	return err
}

// close ends the connection and its jump hosts. The far side may be gone: there is nobody to tell.
func (c *connection) close() {
	c.end.Do(func() { close(c.ended) })
	_ = c.client.Close()
	for i := len(c.below) - 1; i >= 0; i-- {
		_ = c.below[i].Close()
	}
}

func (d *Dialer) connect(ctx context.Context, t Target) (*connection, error) {
	r, err := d.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	c := &connection{user: r.User, patience: max(keepAlivePatience, t.ConnectTimeout), ended: make(chan struct{})}
	dial := d.NetDial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	for hop := range strings.SplitSeq(r.ProxyJump, ",") {
		if hop == "" {
			continue
		}
		jt, err := jump(hop, t)
		if err != nil {
			return nil, err
		}
		jr, err := d.resolve(ctx, jt)
		if err != nil {
			return nil, err
		}
		client, err := jr.login(ctx, dial)
		if err != nil {
			c.closeBelow()
			return nil, fmt.Errorf("jump host %s: %w", hop, err)
		}
		c.below = append(c.below, client)
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return client.DialContext(ctx, network, addr)
		}
	}
	if c.client, err = r.login(ctx, dial); err != nil {
		c.closeBelow()
		return nil, err
	}
	go c.watch(ctx)
	return c, nil
}

func (c *connection) closeBelow() {
	for _, b := range c.below {
		_ = b.Close()
	}
}

// jump reads one hop as ssh's -J does: [user@]host[:port].
func jump(hop string, t Target) (Target, error) {
	j := Target{Name: t.Name, IdentityFile: t.IdentityFile, KnownHosts: t.KnownHosts, ConnectTimeout: t.ConnectTimeout}
	rest := hop
	if u, h, ok := strings.Cut(hop, "@"); ok {
		j.User, rest = u, h
	}
	j.Address = rest
	if h, p, err := net.SplitHostPort(rest); err == nil {
		port, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return j, &Error{Host: t.Name, Op: "read proxy_jump", Err: fmt.Errorf("%q has no valid port", hop)}
		}
		j.Address, j.Port = h, int(port)
	}
	return j, nil
}

// login connects and authenticates. It ends with ctx and with the connect timeout, which covers
// the key exchange too: x/crypto/ssh has no deadline of its own.
func (r resolved) login(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error)) (*ssh.Client, error) {
	addr := net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
	check, algorithms, err := r.hostKeys(addr)
	if err != nil {
		return nil, &Error{Host: r.Name, Op: "check host key", Err: err}
	}
	keys, err := r.keys()
	defer keys.close()
	if err != nil {
		return nil, &Error{Host: r.Name, Op: "authenticate", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, r.classifyDial(addr, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	config := &ssh.ClientConfig{
		User: r.User, Auth: keys.methods, HostKeyCallback: check, HostKeyAlgorithms: algorithms,
		// The post-quantum exchange that is the default costs ten times the client's CPU.
		Config: ssh.Config{KeyExchanges: []string{ssh.KeyExchangeCurve25519, ssh.KeyExchangeECDHP256, ssh.KeyExchangeMLKEM768X25519}},
	}
	sc, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, r.classifyLogin(ctx, addr, keys, err)
	}
	return ssh.NewClient(sc, channels, requests), nil
}

func (r resolved) classifyDial(addr string, err error) error {
	e := &Error{Host: r.Name, Op: "connect to " + addr, Err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		e.Err, e.Hint = fmt.Errorf("the name %q is not known", dns.Name), "set the host's address, or a HostName in ~/.ssh/config"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Err, e.Hint = errors.New("connection refused"), "nothing listens there: is sshd running, and is the port right?"
	case errors.Is(err, context.DeadlineExceeded):
		e.Err, e.Hint = fmt.Errorf("no answer within %s", r.ConnectTimeout.Round(time.Second)), "is the host up, and does a firewall drop the port?"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Err, e.Hint = errors.New("there is no way to that address"), "is the host up and cabled?"
	}
	return e
}

func (r resolved) classifyLogin(ctx context.Context, addr string, keys *keyring, err error) error {
	var key *HostKeyError
	switch {
	case errors.As(err, &key):
		return &Error{Host: r.Name, Op: "check host key", Err: key}
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &Error{Host: r.Name, Op: "log in to " + addr + " as " + r.User, Err: fmt.Errorf("the host takes none of our keys (%s)", keys),
			Hint: "put a public key into its authorized_keys, or set ssh.user and ssh.identity_file"}
	case ctx.Err() != nil:
		return &Error{Host: r.Name, Op: "log in to " + addr, Err: fmt.Errorf("no SSH within %s", r.ConnectTimeout), Hint: "something listens there, but does not speak SSH or is overloaded"}
	}
	return &Error{Host: r.Name, Op: "log in to " + addr, Err: err}
}
