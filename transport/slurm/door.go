//go:build linux

package slurm

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// door is where helpers dial back to: one address, TLS with a key of this run, and a secret for each node that works once, from that
// node's address, for a minute. Both sides prove what they have: the door its key, whose digest only root can read from munge's
// credential; the helper its secret, in a credential of root that is bound to the connection.
type door struct {
	munge    munge
	listener net.Listener
	key      tls.Certificate
	pin      string // SHA-256 of the certificate, hexadecimal
	reading  chan struct{}
	validity time.Duration // of a secret

	controllers []string // addresses

	mu       sync.Mutex
	expected map[[sha256.Size]byte]*guest // by the digest of the secret
	knocking map[netip.Addr][]net.Conn    // not proven yet, the oldest first
	closed   bool
	running  sync.WaitGroup
}

// guest is a helper that is expected.
type guest struct {
	digest  [sha256.Size]byte
	from    []netip.Addr
	until   time.Time
	arrived chan net.Conn // holds one

	forgotten bool // nobody waits any more; guarded by the door's mu
}

// invitation is the payload of the credential that helpers get.
type invitation struct {
	Door    string            `json:"door"` // address and port
	Pin     string            `json:"pin"`
	Secrets map[string]string `json:"secrets"` // by node
	From    map[string]string `json:"from"`    // the address to dial from, by node
	// Controllers are the addresses of the cluster's controllers.
	Controllers []string `json:"controllers"`
}

// proof is the payload of the credential by which a helper proves its secret, on this connection only.
type proof struct {
	Secret  string `json:"secret"`
	Binding string `json:"binding"`
}

// The bounds of a connection that has not proven itself: how long it may take, what is read from it, and how many such connections one node may have: with
// more, the oldest one is closed, so that connections that say nothing cannot keep a helper out.
const (
	mostProof     = 8 << 10
	mostKnocking  = 32
	readersAtOnce = 8 // of credentials, each of which starts a program
)

var proofPatience = 5 * time.Second // a variable for tests

func openDoor(at netip.Addr, m munge) (*door, error) {
	key, pin, err := newKey()
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String())
	if err != nil {
		return nil, err
	}
	d := &door{munge: m, listener: l, key: key, pin: pin, reading: make(chan struct{}, readersAtOnce), validity: time.Minute,
		expected: map[[sha256.Size]byte]*guest{}, knocking: map[netip.Addr][]net.Conn{}}
	d.running.Go(d.serve)
	return d, nil
}

// newKey makes the key pair of a run, with a certificate that says nothing: it is known by its digest.
func newKey() (tls.Certificate, string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{SerialNumber: big.NewInt(1)}, &x509.Certificate{}, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, "", err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, digest(der), nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// invite expects a helper from each node, and returns the credential for them, which only root can decode.
func (d *door) invite(ctx context.Context, ns []node) ([]*guest, string, error) {
	in := invitation{Door: d.listener.Addr().String(), Pin: d.pin, Secrets: map[string]string{}, From: map[string]string{}, Controllers: d.controllers}
	guests := make([]*guest, len(ns))
	for i, n := range ns {
		secret := rand.Text() + rand.Text()
		in.Secrets[n.name], in.From[n.name] = secret, n.addrs[0].String()
		guests[i] = &guest{digest: sha256.Sum256([]byte(secret)), from: n.addrs, until: time.Now().Add(d.validity), arrived: make(chan net.Conn, 1)}
	}
	payload, err := json.Marshal(in)
	if err != nil {
		return nil, "", err
	}
	credential, err := d.munge.encode(ctx, string(payload), root)
	if err != nil {
		return nil, "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, g := range guests {
		d.expected[g.digest] = g
	}
	return guests, credential, nil
}

// forget ends an invitation. A connection that comes later is closed.
func (d *door) forget(g *guest) {
	d.mu.Lock()
	delete(d.expected, g.digest)
	g.forgotten = true
	d.mu.Unlock()
	select {
	case late := <-g.arrived:
		late.Close()
	default:
	}
}

// hand gives the guest its connection.
func (d *door) hand(g *guest, c net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if g.forgotten {
		return errors.New("nobody waits for this helper any more")
	}
	g.arrived <- c
	return nil
}

// await returns the connection of the helper, or why it does not come: its step may end before.
func (g *guest) await(ctx context.Context, p *process, node string) (net.Conn, error) {
	late := time.NewTimer(startPatience)
	defer late.Stop()
	select {
	case c := <-g.arrived:
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-late.C:
		return nil, fmt.Errorf("it has not dialled back within %s; the node must reach this machine by TCP: %s", startPatience, p.errs.String())
	case <-p.exited:
	}
	select {
	case c := <-g.arrived: // it was faster than its step's end
		return c, nil
	default:
	}
	if said := p.failures.of(node); said != "" {
		return nil, errors.New("it ended before it had dialled back: " + said)
	}
	return nil, errors.New("it ended before it had dialled back: " + p.said())
}

// failure begins the line by which a helper says why it ends.
const failure = "fabricform-failed"

func (d *door) serve() {
	for {
		c, err := d.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of files, for a moment
			time.Sleep(50 * time.Millisecond)
			continue
		}
		if !d.knock(c) {
			c.Close()
			continue
		}
		d.running.Go(func() {
			if err := d.admit(c); err != nil {
				c.Close()
			}
			d.left(c)
		})
	}
}

func from(c net.Conn) netip.Addr { return c.RemoteAddr().(*net.TCPAddr).AddrPort().Addr().Unmap() }

// knock reports whether a connection comes from root of an address from which a helper is expected.
func (d *door) knock(c net.Conn) bool {
	if !reserved(uint16(c.RemoteAddr().(*net.TCPAddr).Port)) {
		return false
	}
	at := from(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	now, wanted := time.Now(), false
	for _, g := range d.expected {
		wanted = wanted || now.Before(g.until) && slices.Contains(g.from, at)
	}
	if !wanted || d.closed {
		return false
	}
	if len(d.knocking[at]) == mostKnocking {
		d.knocking[at][0].Close() // its admit fails
		d.knocking[at] = d.knocking[at][1:]
	}
	d.knocking[at] = append(d.knocking[at], c)
	return true
}

// left removes a connection that has proven itself or failed.
func (d *door) left(c net.Conn) {
	at := from(c)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.knocking[at] = slices.DeleteFunc(d.knocking[at], func(k net.Conn) bool { return k == c }); len(d.knocking[at]) == 0 {
		delete(d.knocking, at)
	}
}

// admit hands a connection to the guest whose secret it proves.
func (d *door) admit(c net.Conn) error {
	if err := c.SetDeadline(time.Now().Add(proofPatience)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), proofPatience)
	defer cancel()
	secure := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{d.key}, MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true})
	if err := secure.HandshakeContext(ctx); err != nil {
		return err
	}
	credential, err := readBounded(secure, mostProof)
	if err != nil {
		return err
	}
	select {
	case d.reading <- struct{}{}:
		defer func() { <-d.reading }()
	case <-ctx.Done():
		return ctx.Err()
	}
	payload, err := d.munge.decode(ctx, credential, root)
	if err != nil {
		return err
	}
	var p proof
	if err := json.Unmarshal([]byte(payload), &p); err != nil {
		return err
	}
	if want, err := binding(secure); err != nil || p.Binding != want {
		return errors.Join(err, errors.New("the credential belongs to another connection"))
	}
	g, err := d.spend(p.Secret, from(c))
	if err != nil {
		return err
	}
	if err = errors.Join(writeBounded(secure, "welcome"), c.SetDeadline(time.Time{})); err != nil {
		return err
	}
	return d.hand(g, &stream{secure})
}

// spend takes the guest whose secret this is. A secret that is shown from another address stays that of its node.
func (d *door) spend(secret string, from netip.Addr) (*guest, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	g := d.expected[sha256.Sum256([]byte(secret))]
	switch {
	case g == nil:
		return nil, errors.New("nobody has this secret, or it was used")
	case !slices.Contains(g.from, from):
		return nil, fmt.Errorf("this secret is not that of %s", from)
	case !time.Now().Before(g.until):
		return nil, errors.New("this secret is too old")
	}
	delete(d.expected, g.digest)
	return g, nil
}

func (d *door) close() {
	d.listener.Close()
	d.mu.Lock()
	d.closed = true
	for _, all := range d.knocking {
		for _, c := range all {
			c.Close()
		}
	}
	d.mu.Unlock()
	d.running.Wait()
}

// binding is a value that only the two ends of a TLS connection know (RFC 9266).
func binding(c *tls.Conn) (string, error) {
	state := c.ConnectionState()
	b, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	return hex.EncodeToString(b), err
}

// readBounded reads what writeBounded has written.
func readBounded(r io.Reader, most int) (string, error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > uint32(most) {
		return "", fmt.Errorf("%d bytes exceed the limit of %d", n, most)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r, b)
	return string(b), err
}

func writeBounded(w io.Writer, s string) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(s))), s...))
	return err
}

// stream is a proven connection. Its Close does not wait for a path that is broken.
type stream struct{ *tls.Conn }

func (s *stream) Close() error {
	_ = s.SetDeadline(time.Now().Add(200 * time.Millisecond)) // of the farewell
	return s.Conn.Close()
}
