package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// connection is an SSH client, with the clients of its jump hosts.
type connection struct {
	client   *ssh.Client
	user     string
	patience time.Duration // how long the host may stay silent; at least the connect timeout, because a slow host also answers slowly
	below    []*ssh.Client
	login    time.Duration // how long the key exchange and the authentication took

	ended   chan struct{}
	end     sync.Once
	silent  atomic.Bool // closed because the host stopped responding
	started atomic.Bool // the helper runs
}

// keepAliveEvery and keepAlivePatience apply until the helper's own heartbeats start. x/crypto/ssh has no
// keepalive (golang/go#19338), so a host that fails while the helper is uploaded or started would
// otherwise block until TCP gives up after a quarter of an hour. They are variables for tests.
var (
	keepAliveEvery    = 3 * time.Second
	keepAlivePatience = 12 * time.Second
)

// watch closes the connection if the host stops answering, or if ctx ends before the helper runs. Later,
// the owner of the session decides what an interruption means.
func (c *connection) watch(ctx context.Context) {
	interrupted, answered := ctx.Done(), make(chan error, 1)
	var patience <-chan time.Time // runs while an answer is missing
	for next := time.After(0); ; {
		select {
		case <-c.ended:
			return
		case <-interrupted:
			if interrupted = nil; !c.started.Load() {
				c.close()
			}
		case <-next:
			patience = time.After(c.patience)
			go func() { // ends with the connection
				_, _, err := c.client.SendRequest("keepalive@openssh.com", true, nil)
				answered <- err
			}()
		case <-patience:
			c.silent.Store(true)
			c.close()
		case err := <-answered:
			if err != nil {
				c.close() // the connection ended by itself
			}
			next, patience = time.After(keepAliveEvery), nil
		}
	}
}

// fault explains an error on a connection that was closed because the host stopped answering.
func (c *connection) fault(host string, err error) error {
	if err != nil && c.silent.Load() {
		return &Error{Host: host, Op: "reach the helper", Err: fmt.Errorf("no answer from the host for %s", c.patience), Hint: "check that the host is up and that the network path to it works"}
	}
	return err
}

// close closes the connection and its jump hosts. It ignores errors, because the host may be unreachable.
func (c *connection) close() {
	c.end.Do(func() { close(c.ended) })
	_ = c.client.Close()
	c.closeBelow()
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
	began := time.Now()
	if c.client, err = r.login(ctx, dial); err != nil {
		c.closeBelow()
		return nil, err
	}
	c.login = time.Since(began)
	go c.watch(ctx)
	return c, nil
}

func (c *connection) closeBelow() {
	for _, b := range slices.Backward(c.below) {
		_ = b.Close()
	}
}

// jump parses one hop as ssh's -J does: [user@]host[:port].
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

// login connects and authenticates. It returns when ctx ends or at the connect timeout, which also covers the SSH agent
// and the key exchange, because x/crypto/ssh has no deadline of its own.
func (r resolved) login(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error)) (*ssh.Client, error) {
	addr := net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
	check, algorithms, err := r.hostKeys(addr)
	if err != nil {
		return nil, &Error{Host: r.Name, Op: "check host key", Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	keys, err := r.keys(ctx)
	defer keys.close()
	if err != nil {
		return nil, err
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, r.classifyDial(addr, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	config := &ssh.ClientConfig{
		User: r.User, Auth: keys.methods, HostKeyCallback: check, HostKeyAlgorithms: algorithms,
		// The default, a post-quantum exchange, costs the client ten times as much CPU.
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
		e.Err, e.Hint = fmt.Errorf("cannot resolve the name %q", dns.Name), "set the host's address, or a HostName in ~/.ssh/config"
	case errors.Is(err, syscall.ECONNREFUSED):
		e.Err, e.Hint = errors.New("connection refused"), "check that sshd is running and that the port is right"
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded): // the dialer returns either of them
		e.Err, e.Hint = fmt.Errorf("no answer within %s", r.ConnectTimeout.Round(time.Second)), "check that the host is up and that no firewall drops the port"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		e.Err, e.Hint = errors.New("no route to that address"), "check that the host is up and that its cable is plugged in"
	}
	return e
}

func (r resolved) classifyLogin(ctx context.Context, addr string, keys *keyring, err error) error {
	var key *HostKeyError
	switch {
	case errors.As(err, &key):
		return &Error{Host: r.Name, Op: "check host key", Err: key}
	case ctx.Err() != nil && keys.asking.Load():
		return r.silentAgent()
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &Error{Host: r.Name, Op: "log in to " + addr + " as " + r.User, Err: fmt.Errorf("the host accepts none of our keys (%s)", keys),
			Hint: "put a public key into its authorized_keys, or set ssh.user and ssh.identity_file"}
	case ctx.Err() != nil:
		return &Error{Host: r.Name, Op: "log in to " + addr, Err: fmt.Errorf("no SSH within %s", r.ConnectTimeout), Hint: "the port is open, but the server does not speak SSH or is overloaded"}
	}
	return &Error{Host: r.Name, Op: "log in to " + addr, Err: err}
}
