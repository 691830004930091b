//go:build linux

package slurm

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// nobody is an ordinary user.
const nobody = 65534

// munged starts a munge daemon of the test's own.
func munged(t *testing.T) munge {
	t.Helper()
	if os.Getuid() != root {
		t.Skip("needs root: the credentials of root are accepted only")
	}
	if _, err := exec.LookPath("munged"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("munged is missing, and CI installs it")
		}
		t.Skip("munged is not installed")
	}
	dir, err := os.MkdirTemp("", "munge")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	key := filepath.Join(dir, "key")
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(key, bytes.Repeat([]byte("k"), 128), 0o400)); err != nil {
		t.Fatal(err)
	}
	m := munge{socket: filepath.Join(dir, "socket")}
	cmd := exec.Command("munged", "--foreground", "--force", "--socket="+m.socket, "--key-file="+key, "--pid-file="+filepath.Join(dir, "pid"),
		"--seed-file="+filepath.Join(dir, "seed"), "--log-file="+filepath.Join(dir, "log"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(10 * time.Second); ; {
		if _, err := m.encode(t.Context(), "x", root); err == nil {
			return m
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// as runs munge or unmunge as an ordinary user.
func as(t *testing.T, m munge, in string, argv ...string) (string, error) {
	t.Helper()
	argv = m.command(argv...)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	cmd.Stdin, cmd.Dir = strings.NewReader(in), "/"
	out, err := cmd.Output()
	return string(out), err
}

var (
	n1 = node{name: "n1", addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	n2 = node{name: "n2", addrs: []netip.Addr{netip.MustParseAddr("127.0.0.2")}}
)

// opened is a door that expects n1 and n2, and what they were sent.
type opened struct {
	*door
	guests     []*guest
	credential string
	invitation invitation
}

func open(t *testing.T) opened {
	t.Helper()
	m := munged(t)
	d, err := openDoor(netip.MustParseAddr("127.0.0.1"), m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.close)
	return opened{door: d}.invite(t)
}

func (o opened) invite(t *testing.T) opened {
	t.Helper()
	var err error
	if o.guests, o.credential, err = o.door.invite(t.Context(), []node{n1, n2}); err != nil {
		t.Fatal(err)
	}
	payload, err := o.munge.decode(t.Context(), o.credential, root)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(payload), &o.invitation); err != nil {
		t.Fatal(err)
	}
	if o.credential, err = o.munge.encode(t.Context(), payload, root); err != nil { // a credential is decoded once
		t.Fatal(err)
	}
	return o
}

// knockWith connects from a node's address, and shows the credential that make returns for the binding of the connection. It reports
// whether the door let it in.
func (o opened) knockWith(t *testing.T, from string, make func(binding string) string) bool {
	t.Helper()
	plain, err := dialReserved(t.Context(), netip.MustParseAddr(from), o.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	c := tls.Client(plain, &tls.Config{InsecureSkipVerify: true})
	if c.HandshakeContext(t.Context()) != nil {
		return false
	}
	bound, err := binding(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeBounded(c, make(bound)); err != nil {
		return false
	}
	said, err := readBounded(c, 16)
	return err == nil && said == "welcome"
}

func (o opened) proof(t *testing.T, secret, binding string) string {
	t.Helper()
	payload, err := json.Marshal(proof{Secret: secret, Binding: binding})
	if err != nil {
		t.Fatal(err)
	}
	c, err := o.munge.encode(t.Context(), string(payload), root)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// arrives fails unless the helper of n1 is let in by its credential, and both sides hear each other.
func (o opened) arrives(t *testing.T) {
	t.Helper()
	c, path, err := dialBack(t.Context(), o.munge, strings.NewReader(o.credential), "n1", root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fields := strings.Fields(path.Coordinator)
	if len(fields) != 4 || fields[0] != "127.0.0.1" || fields[2] != "127.0.0.1" {
		t.Errorf("the path is %q", path)
	}
	there := <-o.guests[0].arrived
	defer there.Close()
	for _, way := range [][2]io.ReadWriter{{c, there}, {there, c}} {
		got := make([]byte, 5)
		if _, err := way[0].Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(way[1], got); err != nil || string(got) != "hello" {
			t.Fatalf("%q, %v", got, err)
		}
	}
}

func TestAHelperDialsBack(t *testing.T) { open(t).arrives(t) }

// TestASlowMungeIsTriedAgain: the door does not wait for munge, and the helper comes again.
func TestASlowMungeIsTriedAgain(t *testing.T) {
	o := open(t)
	dir := t.TempDir()
	// The first call decodes what the helper was sent, the second one is the door's.
	script := "#!/bin/sh\ncd " + dir + "\necho >> calls\n[ $(wc -l < calls) != 2 ] || sleep 2\nexec /usr/bin/unmunge \"$@\"\n"
	if err := os.WriteFile(filepath.Join(dir, "unmunge"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	patience := proofPatience
	t.Cleanup(func() { proofPatience = patience })
	proofPatience = time.Second
	o.arrives(t)
}

func TestCredentialsOfAnOrdinaryUserAreRefused(t *testing.T) {
	o := open(t)
	if o.knockWith(t, "127.0.0.1", func(bound string) string {
		payload, _ := json.Marshal(proof{Secret: o.invitation.Secrets["n1"], Binding: bound})
		c, err := as(t, o.munge, string(payload), "munge", "--restrict-uid=0")
		if err != nil {
			t.Fatal(err)
		}
		return c
	}) {
		t.Error("the door let in the credential of an ordinary user, who knew the secret")
	}
	if text, err := as(t, o.munge, o.credential, "unmunge"); err == nil {
		t.Errorf("an ordinary user can read the secrets: %s", text)
	}
	forged, err := as(t, o.munge, `{"door":"127.0.0.1:1"}`, "munge", "--restrict-uid=0")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := dialBack(t.Context(), o.munge, strings.NewReader(forged), "n1", root); err == nil || !strings.Contains(err.Error(), "user 65534 made the credential") {
		t.Errorf("a helper took the credential of an ordinary user: %v", err)
	}
	if forged, err = as(t, o.munge, `{"door":"127.0.0.1:1"}`, "munge", "--restrict-uid=0"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := dialBack(t.Context(), o.munge, strings.NewReader(forged), "n1", 65534); err == nil || !strings.Contains(err.Error(), "no secret for node n1") {
		t.Errorf("a helper that this user started by sudo did not take the user's own credential: %v", err)
	}
	if !o.knockWith(t, "127.0.0.1", func(bound string) string { return o.proof(t, o.invitation.Secrets["n1"], bound) }) {
		t.Error("the true helper is not let in afterwards")
	}
}

func TestAReplayIsRefused(t *testing.T) {
	o := open(t)
	shown := ""
	if !o.knockWith(t, "127.0.0.1", func(bound string) string { shown = o.proof(t, o.invitation.Secrets["n1"], bound); return shown }) {
		t.Fatal("the first one is not let in")
	}
	if o.knockWith(t, "127.0.0.1", func(string) string { return shown }) {
		t.Error("the same credential is let in again")
	}
	if o.knockWith(t, "127.0.0.1", func(bound string) string { return o.proof(t, o.invitation.Secrets["n1"], bound) }) {
		t.Error("the same secret is let in again")
	}
	if o.knockWith(t, "127.0.0.2", func(string) string { return o.proof(t, o.invitation.Secrets["n2"], "of another connection") }) {
		t.Error("a credential for another connection is let in")
	}
}

func TestASecretWorksFromItsNodeOnly(t *testing.T) {
	o := open(t)
	if o.knockWith(t, "127.0.0.2", func(bound string) string { return o.proof(t, o.invitation.Secrets["n1"], bound) }) {
		t.Error("n2 is let in by the secret of n1")
	}
	o.arrives(t)
	if _, _, err := dialBack(t.Context(), o.munge, strings.NewReader(o.proof(t, "", "")), "n3", root); err == nil {
		t.Error("a node that was not invited connects")
	}
}

func TestASecretIsShortLived(t *testing.T) {
	o := open(t)
	out, err := pipe(t.Context(), o.credential, o.munge.command("unmunge", "--keys=TTL")...)
	if ttl, _, _ := strings.Cut(out, "\n"); err != nil || strings.Join(strings.Fields(ttl), " ") != "TTL: 60" {
		t.Errorf("munge says of the credential: %q, %v", ttl, err)
	}
	for _, g := range o.guests {
		o.forget(g)
	}
	if o.knockWith(t, "127.0.0.1", func(bound string) string { return o.proof(t, o.invitation.Secrets["n1"], bound) }) {
		t.Error("a secret is let in after it was forgotten")
	}
	o.validity = 0
	o = o.invite(t)
	if o.shakesHands(t, "127.0.0.1") {
		t.Error("a node is heard after its time")
	}
	o.validity = time.Minute
	if _, _, err := o.door.invite(t.Context(), []node{n1}); err != nil { // the door hears that address again
		t.Fatal(err)
	}
	if o.knockWith(t, "127.0.0.1", func(bound string) string { return o.proof(t, o.invitation.Secrets["n1"], bound) }) {
		t.Error("a secret is let in after its time")
	}
}

// shakesHands reports whether the door answers TLS to root of an address.
func (o opened) shakesHands(t *testing.T, from string) bool {
	t.Helper()
	plain, err := dialReserved(t.Context(), netip.MustParseAddr(from), o.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	return tls.Client(plain, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()) == nil
}

// TestStrangersAreNotHeard: not even root of an address from which no helper is expected.
func TestStrangersAreNotHeard(t *testing.T) {
	o := open(t)
	if !o.shakesHands(t, "127.0.0.1") || o.shakesHands(t, "127.0.0.9") {
		t.Error("a stranger is heard, or a node is not")
	}
}

// TestALateHelperIsClosed: nobody would serve it, and it would wait.
func TestALateHelperIsClosed(t *testing.T) {
	o := open(t)
	c, _, err := dialBack(t.Context(), o.munge, strings.NewReader(o.credential), "n1", root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for len(o.guests[0].arrived) == 0 { // it is welcome a moment before
		time.Sleep(time.Millisecond)
	}
	o.forget(o.guests[0])
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("its connection stays: %v", err)
	}
	here, there := net.Pipe() // it had proven itself before it was forgotten
	defer there.Close()
	if o.hand(o.guests[0], here) == nil {
		t.Error("a connection is handed to nobody")
	}
}

// TestAProvenConnectionStays: those that say nothing are closed, the oldest first, and it is not one of them.
func TestAProvenConnectionStays(t *testing.T) {
	o := open(t)
	c, _, err := dialBack(t.Context(), o.munge, strings.NewReader(o.credential), "n1", root)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	there := <-o.guests[0].arrived
	defer there.Close()
	o.invite(t)
	for range 2 * mostKnocking {
		silent, err := dialReserved(t.Context(), n1.addrs[0], o.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	if !o.shakesHands(t, "127.0.0.2") { // it was accepted after all of those
		t.Fatal("the door does not answer")
	}
	if _, err := there.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, make([]byte, 5)); err != nil {
		t.Error(err)
	}
}

// TestFewProgramsReadCredentials: connections that prove nothing start only so many at once.
func TestFewProgramsReadCredentials(t *testing.T) {
	o := open(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "unmunge"), []byte("#!/bin/sh\necho >> "+dir+"/started\nuntil [ -e "+dir+"/go ]; do sleep 0.05; done\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	var all sync.WaitGroup
	for range 2 * readersAtOnce {
		all.Go(func() { o.knockWith(t, "127.0.0.1", func(string) string { return "MUNGE:x:" }) })
	}
	started := func() int {
		text, _ := os.ReadFile(filepath.Join(dir, "started")) // not there at first
		return len(text)
	}
	for end := time.Now().Add(proofPatience - time.Second); started() < readersAtOnce && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	time.Sleep(300 * time.Millisecond)
	if n := started(); n == 0 || n > readersAtOnce {
		t.Errorf("%d programs read credentials at once", n)
	}
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// TestOldTLSIsRefused: with TLS 1.2, the value that binds a credential to a connection can be that of another one (RFC 9266, 3).
func TestOldTLSIsRefused(t *testing.T) {
	o := open(t)
	plain, err := dialReserved(t.Context(), n1.addrs[0], o.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if tls.Client(plain, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12}).HandshakeContext(t.Context()) == nil {
		t.Error("the door speaks TLS 1.2")
	}
	old, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{o.key}, MaxVersion: tls.VersionTLS12})
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	go func() {
		if c, err := old.Accept(); err == nil {
			_ = c.(*tls.Conn).HandshakeContext(t.Context()) // it fails, which the helper reports
			c.Close()
		}
	}()
	in := o.invitation
	in.Door = old.Addr().String()
	payload, _ := json.Marshal(in)
	credential, err := o.munge.encode(t.Context(), string(payload), root)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := dialBack(t.Context(), o.munge, strings.NewReader(credential), "n1", root); err == nil || !strings.Contains(err.Error(), "protocol version") {
		t.Errorf("the helper speaks TLS 1.2: %v", err)
	}
}

// endless is a credential without an end.
type endless struct{ n int }

func (e *endless) Read(p []byte) (int, error) {
	if e.n += len(p); e.n > 4*mostInvitation {
		return 0, errors.New("all of it is read")
	}
	return len(p), nil
}

func TestInvitationsAreBounded(t *testing.T) {
	if _, _, err := dialBack(t.Context(), munge{}, &endless{}, "n1", root); err == nil || strings.Contains(err.Error(), "all of it is read") {
		t.Error(err)
	}
}

// TestAnEavesdropperLearnsNothing: whoever carries the bytes reads no secret, and whoever answers in the coordinator's place gets none.
func TestAnEavesdropperLearnsNothing(t *testing.T) {
	o := open(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var mu sync.Mutex
	var heard bytes.Buffer
	go func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			to, err := dialReserved(t.Context(), n1.addrs[0], o.listener.Addr().String())
			if err != nil {
				return
			}
			copied := func(to io.Writer, from io.Reader) {
				_, _ = io.Copy(writer(func(p []byte) (int, error) {
					mu.Lock()
					heard.Write(p)
					mu.Unlock()
					return to.Write(p)
				}), from)
			}
			go copied(to, c)
			go copied(c, to)
		}
	}()
	in := o.invitation
	in.Door = l.Addr().String()
	payload, _ := json.Marshal(in)
	if o.credential, err = o.munge.encode(t.Context(), string(payload), root); err != nil {
		t.Fatal(err)
	}
	o.arrives(t)
	mu.Lock()
	text := heard.String()
	mu.Unlock()
	if len(text) < 500 || strings.Contains(text, in.Secrets["n1"]) || strings.Contains(text, "MUNGE:") || strings.Contains(text, "hello") {
		t.Errorf("of %d bytes, the secret or what was said is among them", len(text))
	}

	key, _, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{key}})
	if err != nil {
		t.Fatal(err)
	}
	defer impostor.Close()
	told := make(chan string, 1)
	go func() {
		c, err := impostor.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		said, _ := readBounded(c, mostProof)
		told <- said
	}()
	in = o.invite(t).invitation
	in.Door = impostor.Addr().String()
	payload, _ = json.Marshal(in)
	credential, err := o.munge.encode(t.Context(), string(payload), root)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := dialBack(t.Context(), o.munge, strings.NewReader(credential), "n1", root); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("the helper talks to another coordinator: %v", err)
	}
	if said := <-told; said != "" {
		t.Errorf("the other coordinator was told %q", said)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// TestSilentConnectionsKeepNobodyOut: 1,000 connections of a node's users and some of its root, which say nothing, and others from where nobody
// is expected.
func TestSilentConnectionsKeepNobodyOut(t *testing.T) {
	o := open(t)
	var silent []net.Conn
	for range 2 * mostKnocking {
		c, err := dialReserved(t.Context(), n1.addrs[0], o.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	shaken, err := dialReserved(t.Context(), n2.addrs[0], o.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer shaken.Close()
	if err := tls.Client(shaken, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	silent = append(silent, shaken)
	for range 1000 {
		c, err := net.Dial("tcp", o.listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		silent = append(silent, c)
	}
	stranger := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP("127.0.0.9")}}
	c, err := stranger.Dial("tcp", o.listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	silent = append(silent, c)
	o.arrives(t)
	o.mu.Lock()
	waiting := len(o.knocking[n1.addrs[0]])
	o.mu.Unlock()
	if waiting > mostKnocking {
		t.Errorf("%d connections wait", waiting)
	}
	for _, c := range silent { // all are closed by the door
		_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
		var timeout net.Error
		if _, err := c.Read(make([]byte, 1)); errors.As(err, &timeout) && timeout.Timeout() {
			t.Fatal("the door keeps a connection that says nothing")
		}
	}
}

// TestUsersOfANodeCannotKeepItsHelperOut: their connections keep coming, and are closed at once.
func TestUsersOfANodeCannotKeepItsHelperOut(t *testing.T) {
	o := open(t)
	ctx, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 8 {
		flood.Go(func() {
			var kept []net.Conn
			for ctx.Err() == nil {
				if c, err := net.Dial("tcp", o.listener.Addr().String()); err == nil { // else out of ports, for a moment
					kept = append(kept, c)
				}
				if len(kept) > 50 {
					_ = kept[0].(*net.TCPConn).SetLinger(0)
					kept[0].Close()
					kept = kept[1:]
				}
			}
			for _, c := range kept {
				c.Close()
			}
		})
	}
	time.Sleep(200 * time.Millisecond)
	o.arrives(t)
	stop()
	flood.Wait()
}

func TestProofsAreBounded(t *testing.T) {
	o := open(t)
	for _, long := range []string{strings.Repeat("x", mostProof+1), "MUNGE:x:", "", "-s"} {
		if o.knockWith(t, "127.0.0.1", func(string) string { return long }) {
			t.Errorf("%.10q is let in", long)
		}
	}
	if _, err := readBounded(bytes.NewReader([]byte{255, 255, 255, 255, 1}), mostProof); err == nil || !strings.Contains(err.Error(), "limit") {
		t.Errorf("a length alone takes memory: %v", err)
	}
	o.arrives(t)
}
