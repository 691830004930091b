package transport

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// server is OpenSSH's sshd on a loopback port, with keys and configuration of the test's own.
type server struct {
	t       *testing.T
	dir     string
	port    int
	host    ssh.PublicKey // its host key
	other   ssh.PublicKey // a key that is not its
	private ed25519.PrivateKey
	pid     int
}

// signalConnections sends a signal to the server's processes of all connections.
func (s *server) signalConnections(sig syscall.Signal) {
	s.t.Helper()
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", s.pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, pid := range strings.Fields(string(children)) {
		n, err := strconv.Atoi(pid)
		if err == nil {
			err = syscall.Kill(n, sig)
		}
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// logins returns how many logins the server has accepted.
func (s *server) logins() int {
	s.t.Helper()
	log, err := os.ReadFile(s.path("log"))
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.Count(string(log), "Accepted publickey")
}

func key(t *testing.T, path string) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	pub, priv, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(priv, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return priv, key
}

// openssh starts the server; authority, where it is not nil, signs its host key. Further lines go into its configuration.
func openssh(t *testing.T, authority ed25519.PrivateKey, further ...string) *server {
	t.Helper()
	sshd := "/usr/sbin/sshd"
	if _, err := os.Stat(sshd); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("CI has no sshd: install openssh-server")
		}
		t.Skip("no sshd here: install openssh-server")
	}
	if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
		t.Skip("sshd needs /run/sshd, which only root can make")
	}
	s := &server{t: t, dir: t.TempDir()}
	_, s.host = key(t, s.path("host"))
	_, s.other = key(t, s.path("other"))
	var login ssh.PublicKey
	s.private, login = key(t, s.path("id"))
	if err := os.Mkdir(s.path("home"), 0o700); err != nil {
		t.Fatal(err)
	}
	s.write("authorized", string(ssh.MarshalAuthorizedKey(login)))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = l.Addr().(*net.TCPAddr).Port
	l.Close()
	config := fmt.Sprintf("ListenAddress 127.0.0.1:%d\nHostKey %s\nAuthorizedKeysFile %s\nPermitRootLogin prohibit-password\nUsePAM no\nStrictModes no\nPidFile none\nSubsystem sftp internal-sftp\nSetEnv HOME=%s\n",
		s.port, s.path("host"), s.path("authorized"), s.path("home")) // the logins run no startup files of the person who tests
	if authority != nil {
		s.certify(authority)
		config += "HostCertificate " + s.path("host-cert.pub") + "\n"
	}
	s.write("config", config+strings.Join(further, ""))
	cmd := exec.Command(sshd, "-D", "-E", s.path("log"), "-f", s.path("config"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	s.pid = cmd.Process.Pid
	for try := 0; ; try++ {
		c, err := net.Dial("tcp", s.addr())
		if err == nil {
			c.Close()
			return s
		}
		if try > 100 {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (s *server) path(name string) string { return filepath.Join(s.dir, name) }
func (s *server) addr() string            { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *server) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *server) certify(authority ed25519.PrivateKey) {
	s.t.Helper()
	signer, err := ssh.NewSignerFromKey(authority)
	if err != nil {
		s.t.Fatal(err)
	}
	c := &ssh.Certificate{Key: s.host, CertType: ssh.HostCert, ValidPrincipals: []string{"127.0.0.1"}, ValidBefore: ssh.CertTimeInfinity}
	if err := c.SignCert(rand.Reader, signer); err != nil {
		s.t.Fatal(err)
	}
	s.write("host-cert.pub", string(ssh.MarshalAuthorizedKey(c)))
}

// logIn connects, runs `true` and disconnects.
func logIn(t Target) error {
	c, err := new(Dialer).connect(context.Background(), t)
	if err != nil {
		return err
	}
	defer c.close()
	s, err := c.client.NewSession()
	if err != nil {
		return err
	}
	return s.Run("true")
}

// login tries a bare login with these lines in known_hosts.
func (s *server) login(known string, change func(*Target)) error {
	s.t.Helper()
	s.write("known", known)
	target := Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second}
	if change != nil {
		change(&target)
	}
	return logIn(target)
}

func (s *server) line(k ssh.PublicKey) string {
	return fmt.Sprintf("[127.0.0.1]:%d %s", s.port, ssh.MarshalAuthorizedKey(k))
}

func TestHostKeysAreHeldStrictly(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	if err := s.login(s.line(s.host), nil); err != nil {
		t.Fatal(err)
	}
	for kind, known := range map[string]string{
		"unknown": "",
		"changed": s.line(s.other),
		"revoked": s.line(s.host) + "@revoked * " + string(ssh.MarshalAuthorizedKey(s.host)),
	} {
		err := s.login(known, nil)
		var wrong *HostKeyError
		if !errors.As(err, &wrong) || wrong.Kind != kind || !strings.Contains(err.Error(), "nothing was sent") || !strings.Contains(err.Error(), ssh.FingerprintSHA256(s.host)) {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// TestAnotherAddressOfAHostMustShowItsKey: what known_hosts says of the address itself does not count.
func TestAnotherAddressOfAHostMustShowItsKey(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	via := func(to *Target) { to.Address, to.Via = "elsewhere.example", "127.0.0.1" }
	named := func(k ssh.PublicKey) string {
		return strings.Replace(s.line(k), "127.0.0.1", "elsewhere.example", 1)
	}
	if err := s.login(named(s.host), via); err != nil {
		t.Error(err)
	}
	for kind, known := range map[string]string{"changed": named(s.other) + s.line(s.host), "unknown": s.line(s.host)} {
		var wrong *HostKeyError
		if err := s.login(known, via); !errors.As(err, &wrong) || wrong.Kind != kind {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestHostCertificatesNeedAKnownAuthority(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	authority, public := key(t, filepath.Join(t.TempDir(), "ca"))
	s := openssh(t, authority)
	if err := s.login("@cert-authority * "+string(ssh.MarshalAuthorizedKey(public)), nil); err != nil {
		t.Fatal(err)
	}
	err := s.login("@cert-authority * "+string(ssh.MarshalAuthorizedKey(s.other)), nil)
	var wrong *HostKeyError
	if !errors.As(err, &wrong) {
		t.Fatalf("another authority's signature was taken: %v", err)
	}
}

// serveAgent serves an agent on a socket until the test ends.
func serveAgent(t *testing.T, sock string, a agent.Agent) {
	t.Helper()
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go agent.ServeAgent(a, c)
		}
	}()
}

func TestLoginByAgentAndWithoutAKey(t *testing.T) {
	s := openssh(t, nil)
	sock := filepath.Join(t.TempDir(), "agent")
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: s.private}); err != nil {
		t.Fatal(err)
	}
	serveAgent(t, sock, ring)
	stranger := func(target *Target) { target.IdentityFile = s.path("other") }
	t.Setenv("SSH_AUTH_SOCK", sock)
	if err := s.login(s.line(s.host), stranger); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	if err := s.login(s.line(s.host), stranger); err == nil || !strings.Contains(err.Error(), "accepts none of our keys (tried "+s.path("other")) {
		t.Fatalf("got %v", err)
	}
}

// muteAgent offers its keys and never signs; one without keys does not even answer that.
type muteAgent struct {
	agent.Agent
	never chan struct{}
}

func (m muteAgent) List() ([]*agent.Key, error) {
	if m.Agent == nil {
		<-m.never
		return nil, errors.New("ended")
	}
	return m.Agent.List()
}

func (m muteAgent) Sign(ssh.PublicKey, []byte) (*ssh.Signature, error) {
	<-m.never
	return nil, errors.New("ended")
}

// TestASilentAgentEndsWithTheConnectTimeout: fault 31. It accepts connections, and is silent when it is asked for its
// keys, or when it is asked to sign.
func TestASilentAgentEndsWithTheConnectTimeout(t *testing.T) {
	s := openssh(t, nil)
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: s.private}); err != nil {
		t.Fatal(err)
	}
	never := make(chan struct{})
	defer close(never)
	for name, mute := range map[string]muteAgent{"keys": {nil, never}, "sign": {ring, never}} {
		sock := s.path(name)
		serveAgent(t, sock, mute)
		t.Setenv("SSH_AUTH_SOCK", sock)
		ended := make(chan error, 1)
		go func() {
			ended <- s.login(s.line(s.host), func(target *Target) { target.ConnectTimeout = time.Second })
		}()
		select {
		case err := <-ended:
			if want := sock + " accepts connections, but does not answer within 1s"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", name, err)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: the login waits for the agent for ever", name)
		}
	}
}

func TestProxyJumpChecksBothHosts(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	gate, s := openssh(t, nil), openssh(t, nil)
	s.write("id", "")
	through := func(target *Target) {
		target.IdentityFile, target.ProxyJump = gate.path("id"), currentUser()+"@"+gate.addr()
	}
	raw, err := os.ReadFile(gate.path("authorized"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("authorized", string(raw))
	if err := s.login(s.line(s.host)+gate.line(gate.host), through); err != nil {
		t.Fatal(err)
	}
	if err := s.login(s.line(s.host), through); err == nil || !strings.Contains(err.Error(), "jump host") {
		t.Fatalf("an unknown jump host was taken: %v", err)
	}
}

// TestAnInterruptedLoginBlamesNoHost: whether the host, or the agent, is silent.
func TestAnInterruptedLoginBlamesNoHost(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir, never := t.TempDir(), make(chan struct{})
	defer close(never)
	serveAgent(t, filepath.Join(dir, "keys"), muteAgent{nil, never})
	for _, sock := range []string{"", filepath.Join(dir, "keys")} {
		t.Setenv("SSH_AUTH_SOCK", sock)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		time.AfterFunc(100*time.Millisecond, cancel)
		_, err := new(Dialer).connect(ctx, Target{Name: "h", Address: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, KnownHosts: os.DevNull, ConnectTimeout: time.Minute})
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "within") {
			t.Errorf("agent %q: %v", sock, err)
		}
	}
}

func TestRefusedAndSilentPortsAreToldApart(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	known := filepath.Join(t.TempDir(), "known")
	if err := os.WriteFile(known, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := Target{Name: "h", Address: "127.0.0.1", Port: port, KnownHosts: known, ConnectTimeout: 300 * time.Millisecond}
	if err := logIn(target); err == nil || !strings.Contains(err.Error(), "no SSH within") {
		t.Fatalf("silent: %v", err)
	}
	l.Close()
	if err := logIn(target); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Fatalf("refused: %v", err)
	}
}

// deadEnd is a connection whose path dies: nothing arrives any more, and nothing says so.
type deadEnd struct {
	net.Conn
	dead *atomic.Bool
	done chan struct{}
	once sync.Once
}

func (c *deadEnd) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.dead.Load() {
		<-c.done
		return 0, net.ErrClosed
	}
	return n, err
}

func (c *deadEnd) Write(p []byte) (int, error) {
	if c.dead.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *deadEnd) Close() error {
	c.once.Do(func() { close(c.done) })
	return c.Conn.Close()
}

// dying is a helper that is missing on every host; the path dies as it is about to be brought.
type dying struct{ dead *atomic.Bool }

func (d dying) Version() string { return "0123456789abcdef" }
func (d dying) Build(string) (Build, error) {
	d.dead.Store(true)
	return Build{SHA256: strings.Repeat("0", 64), Size: 1, Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("x")), nil }}, nil
}

func TestAPathThatDiesWhileTheHelperIsBroughtIsNoticed(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	every, patience := keepAliveEvery, keepAlivePatience
	keepAliveEvery, keepAlivePatience = 50*time.Millisecond, 400*time.Millisecond
	t.Cleanup(func() { keepAliveEvery, keepAlivePatience = every, patience })
	var dead atomic.Bool
	d := &Dialer{Helper: dying{&dead}, NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return &deadEnd{Conn: c, dead: &dead, done: make(chan struct{})}, err
	}}
	no := false
	target := Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), Sudo: &no}
	for timeout, want := range map[time.Duration]string{0: "no answer from the host for 400ms", 2 * time.Second: "no answer from the host for 2s"} { // who may take long to log in may be as long silent
		dead.Store(false)
		target.ConnectTimeout = timeout
		if _, err := d.Start(context.Background(), target); err == nil || !dead.Load() || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: dead is %v: %v", timeout, dead.Load(), err)
		}
	}
}
