package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
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
	proven   []ssh.PublicKey // the keys with which the jump hosts and, last, the host proved themselves
	dialled  netip.AddrPort
	login    time.Duration // how long the key exchange and the authentication took
	made     time.Duration // how long all of it took, with the jump hosts
	saved    time.Duration // how long it took an earlier command, if that one made it
	kept     *place        // where a keeper has it; nil if this process has it

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
	var patience <-chan time.Time               // runs while an answer is missing
	for next := time.After(keepAliveEvery); ; { // a plan is mostly over before the first one
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

// connect logs in to a host, or uses a kept connection.
func (d *Dialer) connect(ctx context.Context, t Target) (*connection, error) {
	way, err := d.way(ctx, t, maxJumps)
	if err != nil {
		return nil, err
	}
	if t.MayReuse && d.Keeping != nil {
		if c, err := d.Keeping.use(ctx, d, way); c != nil || err != nil {
			return c, err
		}
	}
	return d.follow(ctx, way)
}

// follow logs in to the hosts of a way, one through the other.
func (d *Dialer) follow(ctx context.Context, way []resolved) (*connection, error) {
	start, t := time.Now(), way[len(way)-1].from.Target
	c := &connection{user: way[len(way)-1].User, patience: max(keepAlivePatience, t.ConnectTimeout), ended: make(chan struct{})}
	dial := d.NetDial
	switch {
	case way[0].proxyCommand != "":
		dial = way[0].dialProxy
	case dial == nil:
		dial = new(net.Dialer).DialContext
	}
	for _, hop := range way[:len(way)-1] {
		client, key, err := hop.login(ctx, dial)
		if err != nil {
			c.closeBelow()
			return nil, fmt.Errorf("jump host %s: %w", hop.asked, err)
		}
		c.below, c.proven = append(c.below, client), append(c.proven, key)
		dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			return client.DialContext(ctx, network, addr)
		}
	}
	began, r := time.Now(), way[len(way)-1]
	client, key, err := r.login(ctx, dial)
	if err != nil {
		c.closeBelow()
		return nil, err
	}
	c.client, c.proven, c.login, c.made = client, append(c.proven, key), time.Since(began), time.Since(start)
	c.dialled = dialled(r, c.client.RemoteAddr(), len(c.below) > 0 || r.proxyCommand != "")
	go c.watch(ctx)
	return c, nil
}

// maxJumps is how many jump hosts may have a ProxyJump of their own, one behind the other: two of them can name each other.
const maxJumps = 8

// way returns the hosts to log in to one after another, the last of which is the target. As with ssh -J, only the first jump host is
// reached by its own ProxyJump or ProxyCommand, and the others through the one before.
func (d *Dialer) way(ctx context.Context, t Target, jumps int) ([]resolved, error) {
	r, err := d.resolve(ctx, t)
	if err != nil {
		return nil, err
	}
	var way []resolved
	for hop := range strings.SplitSeq(r.ProxyJump, ",") {
		if hop == "" {
			continue
		}
		if jumps == 0 {
			return nil, &Error{Host: t.Name, Op: "read ssh configuration", Err: fmt.Errorf("too many jump hosts: the ProxyJump of %s leads to more than %d others", t.Address, maxJumps)}
		}
		jt, err := jump(hop, t)
		if err != nil {
			return nil, err
		}
		if way == nil {
			way, err = d.way(ctx, jt, jumps-1)
		} else {
			var jr resolved
			jr, err = d.resolve(ctx, jt)
			way = append(way, jr)
		}
		if err != nil {
			return nil, fmt.Errorf("jump host %s: %w", hop, err)
		}
	}
	return append(way, r), nil
}

// dialled returns the address and port of the host: those that were declared, or else those that its name had. Only the last jump
// host knows the address of a name that it looks up.
func dialled(r resolved, remote net.Addr, jumped bool) netip.AddrPort {
	port := uint16(r.Port) // checked to be one
	if a, err := netip.ParseAddr(r.Address); err == nil {
		return netip.AddrPortFrom(a.Unmap(), port)
	}
	if tcp, is := remote.(*net.TCPAddr); is && !jumped {
		return netip.AddrPortFrom(tcp.AddrPort().Addr().Unmap(), port)
	}
	return netip.AddrPort{}
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
	if at := strings.LastIndexByte(hop, '@'); at >= 0 {
		j.User, rest = hop[:at], hop[at+1:]
	}
	j.Address = strings.TrimSuffix(strings.TrimPrefix(rest, "["), "]")
	if h, p, err := net.SplitHostPort(rest); err == nil {
		port, err := strconv.ParseUint(p, 10, 16)
		if err != nil {
			return j, &Error{Host: t.Name, Op: "read proxy_jump", Err: fmt.Errorf("%q has no valid port", hop)}
		}
		j.Address, j.Port = h, int(port)
	}
	return j, nil
}

// login connects and authenticates, and also returns the host's key. It returns when ctx ends or at the connect timeout, which also covers the SSH agent
// and the key exchange, because x/crypto/ssh has no deadline of its own.
func (r resolved) login(ctx context.Context, dial func(context.Context, string, string) (net.Conn, error)) (*ssh.Client, ssh.PublicKey, error) {
	addr := net.JoinHostPort(r.Address, strconv.Itoa(r.Port))
	check, algorithms, err := r.hostKeys(addr)
	if err != nil {
		return nil, nil, &Error{Host: r.Name, Op: "check host key", Err: err}
	}
	offered, err := r.accepts.config()
	if err != nil {
		return nil, nil, &Error{Host: r.Name, Op: "log in to " + addr, Err: err}
	}
	ctx, cancel := context.WithTimeout(ctx, r.ConnectTimeout)
	defer cancel()
	keys, err := r.keys(ctx)
	defer keys.close()
	if err != nil {
		return nil, nil, err
	}
	conn, err := dial(ctx, "tcp", addr)
	if err != nil {
		return nil, nil, r.classifyDial(addr, err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var proven ssh.PublicKey
	config := &ssh.ClientConfig{
		User: r.User, Auth: keys.methods, HostKeyCallback: func(name string, remote net.Addr, key ssh.PublicKey) error {
			proven = key
			return check(name, remote, key)
		}, HostKeyAlgorithms: algorithms, Config: offered,
	}
	sc, channels, requests, err := ssh.NewClientConn(conn, addr, config)
	if !stop() && err == nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		conn.Close()
		return nil, nil, r.classifyLogin(ctx, addr, conn, keys, err)
	}
	return ssh.NewClient(sc, channels, requests), proven, nil
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

func (r resolved) classifyLogin(ctx context.Context, addr string, conn net.Conn, keys *keyring, err error) error {
	proxy, through := conn.(*proxied)
	var key *HostKeyError
	switch {
	case errors.As(err, &key):
		return &Error{Host: r.Name, Op: "check host key", Err: key}
	case errors.Is(ctx.Err(), context.Canceled): // by the caller: it says nothing about the host
		return &Error{Host: r.Name, Op: "log in to " + addr, Err: ctx.Err()}
	case ctx.Err() != nil && keys.asking.Load():
		return r.silentAgent()
	case strings.Contains(err.Error(), "unable to authenticate"):
		return &Error{Host: r.Name, Op: "log in to " + addr + " as " + r.User, Err: fmt.Errorf("the host accepts none of our keys (%s)", keys),
			Hint: "put a public key into its authorized_keys, or set ssh.user and ssh.identity_file"}
	case through:
		err = proxy.fault(err) // not earlier: what it printed decides nothing
		if ctx.Err() != nil {
			err = fmt.Errorf("no SSH within %s: %w", r.ConnectTimeout, err)
		}
		return &Error{Host: r.Name, Op: "log in to " + addr + " through ProxyCommand", Err: err, Hint: "check ProxyCommand in ~/.ssh/config; it cannot ask for a password"}
	case ctx.Err() != nil:
		return &Error{Host: r.Name, Op: "log in to " + addr, Err: fmt.Errorf("no SSH within %s", r.ConnectTimeout), Hint: "the port is open, but the server does not speak SSH or is overloaded"}
	}
	return &Error{Host: r.Name, Op: "log in to " + addr, Err: err}
}
