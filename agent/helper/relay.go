//go:build linux

package helper

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/host/lock"
)

// A host that has a bundle hands it to others over TCP: a line with a token and one with an offset in
// bytes are asked, and the rest of the file is answered. The token is for this one relaying, and what
// arrives is held against the bundle's SHA-256, so that nobody between them can put in anything.

const (
	fetchFor      = 2 * time.Second  // then it is told how far it came
	relayPatience = 10 * time.Second // for each piece
	relayDial     = 2 * time.Second  // for each address
	relayClients  = 16
	piece         = 64 << 10 // bytes
)

// relays are the bundles that a helper hands out; they end with it.
type relays struct {
	mu   sync.Mutex
	open map[string]net.Listener // by token
}

// relayServe begins to hand out a bundle that was checked.
func (s *server) relayServe(_ context.Context, b calls.Bundle) (calls.Relay, error) {
	if err := s.stack.has(b); err != nil {
		return calls.Relay{}, err
	}
	own, err := ownAddresses()
	if err != nil {
		return calls.Relay{}, err
	}
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		return calls.Relay{}, fmt.Errorf("listen for those that fetch %s: %w", b.Name, err)
	}
	out := calls.Relay{Port: uint16(l.Addr().(*net.TCPAddr).Port), Token: rand.Text()} //nolint:gosec // a port
	for _, p := range own {
		out.Addresses = append(out.Addresses, p.Addr())
	}
	s.relays.mu.Lock()
	defer s.relays.mu.Unlock()
	if s.relays.open == nil {
		s.relays.open = map[string]net.Listener{}
	}
	s.relays.open[out.Token] = l
	go handOut(l, filepath.Join(s.stack.bundles(), b.Name), out.Token)
	return out, nil
}

// relayEnd stops to hand out a bundle, and removes it where it was for others only. It may be asked again.
func (s *server) relayEnd(_ context.Context, p calls.RelayEnd) (struct{}, error) {
	s.relays.mu.Lock()
	l := s.relays.open[p.Token]
	delete(s.relays.open, p.Token)
	s.relays.mu.Unlock()
	if l != nil {
		_ = l.Close() // nobody else knows it
	}
	if p.Remove.Name == "" {
		return struct{}{}, nil
	}
	if err := p.Remove.Check(); err != nil {
		return struct{}{}, err
	}
	unlock, err := s.lockStack()
	if err != nil {
		return struct{}{}, err
	}
	defer unlock()
	for _, name := range []string{filepath.Join(s.stack.bundles(), p.Remove.Name), filepath.Join(s.arrivals, p.Remove.Part())} {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return struct{}{}, fmt.Errorf("remove what was there for others: %w", err)
		}
	}
	return struct{}{}, nil
}

// ownAddresses are those under which others may reach this host, with their networks.
func ownAddresses() (out []netip.Prefix, err error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("read the host's addresses: %w", err)
	}
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().IsGlobalUnicast() {
			out = append(out, p)
		}
	}
	return out, nil
}

// handOut answers until the listener is closed.
func handOut(l net.Listener, path, token string) {
	room := make(chan struct{}, relayClients)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case room <- struct{}{}:
			go func() {
				defer func() { <-room }()
				defer c.Close()
				_ = handTo(c, path, token) // the other side asks again, and its operator is told
			}()
		default:
			_ = c.Close()
		}
	}
}

// handTo sends the rest of a file to whoever knows the token.
func handTo(c net.Conn, path, token string) error {
	if err := c.SetReadDeadline(time.Now().Add(relayPatience)); err != nil {
		return err
	}
	offset, err := readRequest(c, token)
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	for {
		if err := c.SetWriteDeadline(time.Now().Add(relayPatience)); err != nil {
			return err
		}
		if _, err := io.CopyN(c, f, piece); err != nil {
			return err // the file's end, too
		}
	}
}

// readRequest reads who asks, and from which byte on.
func readRequest(r io.Reader, token string) (offset int64, err error) {
	lines := bufio.NewReader(io.LimitReader(r, 128))
	said, err := lines.ReadString('\n')
	if err != nil || subtle.ConstantTimeCompare([]byte(strings.TrimSuffix(said, "\n")), []byte(token)) != 1 {
		return 0, errors.Join(errors.New("somebody without the token"), err)
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		return 0, err
	}
	offset, err = strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil || offset < 0 {
		return 0, fmt.Errorf("%q is no offset", line)
	}
	return offset, nil
}

// relayFetch fetches for a while; whoever asks calls again until the bundle is whole. What is there
// already is kept. A bundle with another hash is removed, and none of it is there then.
func (s *server) relayFetch(ctx context.Context, p calls.FetchParams) (calls.Fetched, error) {
	if err := p.Bundle.Check(); err != nil {
		return calls.Fetched{}, err
	}
	// One at a time: whoever came second would write on in what the first has checked.
	unlock, err := lock.Try(s.stack.file("fetch.lock"))
	if errors.Is(err, lock.ErrHeld) {
		return calls.Fetched{}, &agent.Error{Held: true, Message: "somebody fetches a bundle here already"}
	}
	if err != nil {
		return calls.Fetched{}, err
	}
	defer unlock()
	if s.stack.has(p.Bundle) == nil {
		return calls.Fetched{Have: p.Bundle.Size, Whole: true}, nil // the answer before was lost
	}
	part := filepath.Join(s.stack.bundles(), p.Bundle.Part())
	out, err := fetchTo(ctx, part, p)
	if err != nil || out.Have < p.Bundle.Size {
		return out, err
	}
	if out.Whole, err = s.keepBundle(part, p.Bundle); !out.Whole {
		out.Have = 0
	}
	return out, err
}

// fetchTo appends to a file, in a folder of root's own, what a relay hands out for a while.
func fetchTo(ctx context.Context, part string, p calls.FetchParams) (out calls.Fetched, err error) {
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return calls.Fetched{}, fmt.Errorf("keep %s: %w", p.Bundle.Name, err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if out.Have, err = f.Seek(0, io.SeekEnd); err != nil || out.Have >= p.Bundle.Size {
		return out, err
	}
	c, from, err := dialRelay(ctx, p.Relay)
	if err != nil {
		return calls.Fetched{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	n, err := receive(c, f, p.Relay.Token, out.Have, p.Bundle.Size)
	if err != nil && n == 0 { // what came counts, and the next one tells of what ended it
		return calls.Fetched{}, fmt.Errorf("fetch from %s: %w", from, err)
	}
	return calls.Fetched{Have: out.Have + n, From: from}, nil
}

// receive asks for what is missing, and appends to f what comes within a while.
func receive(c net.Conn, f io.Writer, token string, have, size int64) (n int64, err error) {
	if err := c.SetDeadline(time.Now().Add(relayPatience)); err != nil {
		return 0, err
	}
	if _, err := fmt.Fprintf(c, "%s\n%d\n", token, have); err != nil {
		return 0, err
	}
	for began := time.Now(); have+n < size && time.Since(began) < fetchFor; {
		if err := c.SetReadDeadline(time.Now().Add(relayPatience)); err != nil {
			return n, err
		}
		got, err := io.CopyN(f, c, min(piece, size-have-n))
		n += got
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// dialRelay tries the relay's addresses, in their turn.
func dialRelay(ctx context.Context, r calls.Relay) (net.Conn, netip.Addr, error) {
	own, err := ownAddresses()
	if err != nil {
		return nil, netip.Addr{}, err
	}
	errs := []error{errors.New("the relay cannot be reached")}
	for _, a := range inTurn(r.Addresses, own) {
		d := net.Dialer{Timeout: relayDial}
		c, err := d.DialContext(ctx, "tcp", netip.AddrPortFrom(a, r.Port).String())
		if err == nil {
			return c, a, nil
		}
		errs = append(errs, err)
	}
	return nil, netip.Addr{}, errors.Join(errs...)
}

// inTurn puts addresses on a network that this host is on first. Its own are left out: bridges of
// containers have the same one on many hosts.
func inTurn(addresses []netip.Addr, own []netip.Prefix) []netip.Addr {
	out := slices.DeleteFunc(slices.Clone(addresses), func(a netip.Addr) bool {
		return slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == a })
	})
	far := func(a netip.Addr) int {
		if slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b netip.Addr) int { return cmp.Compare(far(a), far(b)) })
	return out
}
