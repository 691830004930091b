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

// A host that has a bundle serves it to other hosts over TCP. The request is a line with a token and a line with an
// offset in bytes; the answer is the rest of the file. Each relay has its own token. The receiver checks the bundle's
// SHA-256, so neither the relay nor anybody in between can change the file. A seal could not show that: the relay has its key.

const (
	fetchFor      = 2 * time.Second  // then the helper reports the progress
	relayPatience = 10 * time.Second // for each piece
	relayDial     = 2 * time.Second  // for each address
	relayClients  = 16
	piece         = 64 << 10 // bytes
)

// relays are the bundles that a helper serves. They end with the helper.
type relays struct {
	mu   sync.Mutex
	open map[string][]net.Listener // by token
}

// relayServe starts to serve a checked bundle, at those of the host's addresses that are in a network of the others.
func (s *server) relayServe(_ context.Context, p calls.RelayStart) (calls.Relay, error) {
	if err := s.stack.has(p.Bundle); err != nil {
		return calls.Relay{}, err
	}
	own, err := ownAddresses()
	if err != nil {
		return calls.Relay{}, err
	}
	out := calls.Relay{Token: rand.Text()}
	var open []net.Listener
	for _, a := range s.relayAt(own, p.For) {
		l, err := net.Listen("tcp", netip.AddrPortFrom(a, 0).String())
		if err != nil {
			continue // such as an IPv6 address that is not usable yet
		}
		open = append(open, l)
		out.Addresses = append(out.Addresses, netip.AddrPortFrom(a, uint16(l.Addr().(*net.TCPAddr).Port))) //nolint:gosec // a port
	}
	if open == nil {
		return calls.Relay{}, fmt.Errorf("serve %s: this host has no address in a network of the hosts that fetch it", p.Bundle.Name)
	}
	s.relays.mu.Lock()
	defer s.relays.mu.Unlock()
	if s.relays.open == nil {
		s.relays.open = map[string][]net.Listener{}
	}
	s.relays.open[out.Token] = open
	for _, l := range open {
		go handOut(l, filepath.Join(s.stack.bundles(), p.Bundle.Name), out.Token)
	}
	return out, nil
}

// relayAt returns the addresses at which the other hosts reach this one: those in their networks, or else the address of the
// operator's connection, which the others may reach through a router. An address that another host has too is left out,
// because the two cannot reach each other with it: container bridges have the same address on many hosts.
func (s *server) relayAt(own, others []netip.Prefix) (out []netip.Addr) {
	for _, p := range own {
		shared := slices.ContainsFunc(others, func(o netip.Prefix) bool { return o.Masked().Contains(p.Addr()) && o.Addr() != p.Addr() })
		if shared {
			out = append(out, p.Addr())
		}
	}
	if server := s.server(); out == nil && server.IsValid() {
		out = append(out, server)
	}
	return out
}

// relayEnd stops serving a bundle, and removes it if it was only for other hosts. It can be repeated.
func (s *server) relayEnd(_ context.Context, p calls.RelayEnd) (struct{}, error) {
	s.relays.mu.Lock()
	open := s.relays.open[p.Token]
	delete(s.relays.open, p.Token)
	s.relays.mu.Unlock()
	for _, l := range open {
		_ = l.Close() // an error does not matter: the listener is not used any more
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
			return struct{}{}, fmt.Errorf("remove the bundle for other hosts: %w", err)
		}
	}
	return struct{}{}, nil
}

// ownAddresses returns the addresses at which other hosts may reach this host, with their networks.
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

// handOut serves requests until the listener is closed.
func handOut(l net.Listener, path, token string) {
	slots := make(chan struct{}, relayClients)
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		select {
		case slots <- struct{}{}:
			go func() {
				defer func() { <-slots }()
				defer c.Close()
				_ = handTo(c, path, token) // the other host tries again, and reports the error
			}()
		default:
			_ = c.Close()
		}
	}
}

// handTo sends the rest of a file to a client with the token.
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
			return err // io.EOF at the end of the file
		}
	}
}

// readRequest checks the token, and returns the requested offset.
func readRequest(r io.Reader, token string) (offset int64, err error) {
	lines := bufio.NewReader(io.LimitReader(r, 128))
	said, err := lines.ReadString('\n')
	if err != nil || subtle.ConstantTimeCompare([]byte(strings.TrimSuffix(said, "\n")), []byte(token)) != 1 {
		return 0, errors.Join(errors.New("a request with a wrong token"), err)
	}
	line, err := lines.ReadString('\n')
	if err != nil {
		return 0, err
	}
	offset, err = strconv.ParseInt(strings.TrimSuffix(line, "\n"), 10, 64)
	if err != nil || offset < 0 {
		return 0, fmt.Errorf("%q is not an offset", line)
	}
	return offset, nil
}

// relayFetch fetches for a limited time. The caller repeats the call until the bundle is whole; each call continues
// where the last one stopped. A bundle with a wrong hash is removed, and Have is then 0.
func (s *server) relayFetch(ctx context.Context, p calls.FetchParams) (calls.Fetched, error) {
	if err := p.Bundle.Check(); err != nil {
		return calls.Fetched{}, err
	}
	// Only one at a time: a second one would write to a file that the first has already checked.
	unlock, err := lock.Try(s.stack.file("fetch.lock"))
	if errors.Is(err, lock.ErrHeld) {
		return calls.Fetched{}, &agent.Error{Held: true, Message: "another run is already fetching a bundle on this host"}
	}
	if err != nil {
		return calls.Fetched{}, err
	}
	defer unlock()
	if s.stack.has(p.Bundle) == nil {
		return calls.Fetched{Have: p.Bundle.Size, Whole: true}, nil // the previous answer was lost
	}
	part := filepath.Join(s.stack.bundles(), p.Bundle.Part())
	out, err := fetchTo(ctx, part, p)
	if err != nil || out.Have < p.Bundle.Size {
		return out, err
	}
	if out.Whole, err = s.storeBundle(part, p.Bundle, hashOf(p.Bundle)); !out.Whole {
		out.Have = 0
	}
	return out, err
}

// fetchTo fetches from a relay for a limited time, and appends to a file in a folder of root.
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
	if err != nil && n == 0 { // if something arrived, the next call reports the error
		return calls.Fetched{}, fmt.Errorf("fetch from %s: %w", from, err)
	}
	return calls.Fetched{Have: out.Have + n, From: from}, nil
}

// receive requests the missing part, and appends to f what arrives within fetchFor.
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

// dialRelay tries the relay's addresses one after another.
func dialRelay(ctx context.Context, r calls.Relay) (net.Conn, netip.AddrPort, error) {
	own, err := ownAddresses()
	if err != nil {
		return nil, netip.AddrPort{}, err
	}
	errs := []error{errors.New("the relay cannot be reached")}
	for _, a := range inTurn(r.Addresses, own) {
		d := net.Dialer{Timeout: relayDial}
		c, err := d.DialContext(ctx, "tcp", a.String())
		if err == nil {
			return c, a, nil
		}
		errs = append(errs, err)
	}
	return nil, netip.AddrPort{}, errors.Join(errs...)
}

// inTurn sorts addresses on this host's networks first. It leaves out this host's own addresses: container bridges have
// the same address on many hosts.
func inTurn(addresses []netip.AddrPort, own []netip.Prefix) []netip.AddrPort {
	out := slices.DeleteFunc(slices.Clone(addresses), func(a netip.AddrPort) bool {
		return slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Addr() == a.Addr() })
	})
	far := func(a netip.AddrPort) int {
		if slices.ContainsFunc(own, func(p netip.Prefix) bool { return p.Contains(a.Addr()) }) {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(out, func(a, b netip.AddrPort) int { return cmp.Compare(far(a), far(b)) })
	return out
}
