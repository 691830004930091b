package transport

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"encoding/pem"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// rsaKey writes an RSA key.
func rsaKey(t *testing.T, path string, bits int) (*rsa.PrivateKey, ssh.PublicKey) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, bits)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	return private, public
}

// TestAlgorithmsOfSSHConfigAreFollowed logs in to OpenSSH's server by configurations that limit keys, signatures and ciphers, as ssh(1) does
// with the same files: a login succeeds only if ssh's does.
func TestAlgorithmsOfSSHConfigAreFollowed(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	dir := t.TempDir()
	authority, public := key(t, filepath.Join(dir, "ca"))
	_, long := rsaKey(t, filepath.Join(dir, "host-rsa"), 2048)
	private, short := rsaKey(t, filepath.Join(dir, "id-rsa"), 1024)
	s := openssh(t, nil, "HostKey "+filepath.Join(dir, "host-rsa")+"\n")
	certified := openssh(t, authority)
	for _, of := range []*server{s, certified} {
		of.write("authorized", string(ssh.MarshalAuthorizedKey(short))+string(ssh.MarshalAuthorizedKey(of.login25519(t))))
	}
	both := s.line(long) + s.line(s.host) // not in ssh's order
	ca := "@cert-authority * " + string(ssh.MarshalAuthorizedKey(public))

	// ssh asks this host for its RSA key, which known_hosts does not have, and refuses it. We ask for the key that can be checked.
	const safer = "HostKeyAlgorithms rsa-sha2-512,ssh-ed25519"
	for _, c := range []struct {
		config   string
		to       *server
		known    string
		identity string
		want     string // the type of key that the host shows and the key exchange, or a part of the error
	}{
		{"", s, both, "id", "ssh-ed25519 curve25519-sha256"},
		{"HostKeyAlgorithms rsa-sha2-256,ssh-ed25519", s, both, "id", "ssh-rsa curve25519-sha256"},
		{"HostKeyAlgorithms -ssh-ed25519", s, both, "id", "ssh-rsa curve25519-sha256"},
		{safer, s, s.line(s.host), "id", "ssh-ed25519 curve25519-sha256"},
		{"HostKeyAlgorithms ecdsa-sha2-nistp256", s, both, "id", "HostKeyAlgorithms of ssh's configuration accepts none of these: it is ecdsa-sha2-nistp256"},
		{"HostKeyAlgorithms ecdsa-sha2-nistp256", s, "", "id", "no common algorithm for host key"},
		{"HostKeyAlgorithms rsa-sha2-512\nRequiredRSASize 2048", s, both, "id", "ssh-rsa curve25519-sha256"},
		{"HostKeyAlgorithms rsa-sha2-512\nRequiredRSASize 2049", s, both, "id", "the host's RSA key has 2048 bits, and RequiredRSASize of ssh's configuration is 2049"},
		{"RequiredRSASize 2049", s, both, "id", "ssh-ed25519 curve25519-sha256"},
		{"RequiredRSASize 1024", s, both, "id-rsa", "ssh-ed25519 curve25519-sha256"},
		{"RequiredRSASize 1025", s, both, "id-rsa", "RSA with 1024 bits, and RequiredRSASize is 1025: not used"},
		{"CASignatureAlgorithms ssh-ed25519", certified, ca, "id", "ssh-ed25519-cert-v01@openssh.com curve25519-sha256"},
		{"CASignatureAlgorithms rsa-sha2-512", certified, ca, "id", "signed by ssh-ed25519, which CASignatureAlgorithms of ssh's configuration does not accept"},
		{"KexAlgorithms ecdh-sha2-nistp521,curve25519-sha256", s, both, "id", "ssh-ed25519 ecdh-sha2-nistp521"},
		{"Host 10.*\nKexAlgorithms ecdh-sha2-nistp521", s, both, "id", "ssh-ed25519 curve25519-sha256"},
		{"KexAlgorithms sntrup761x25519-sha512@openssh.com", s, both, "id", "sets KexAlgorithms to sntrup761x25519-sha512@openssh.com, of which this program has none"},
		{"Ciphers aes256-ctr\nMACs hmac-sha2-512", s, both, "id", "ssh-ed25519 curve25519-sha256 aes256-ctr hmac-sha2-512"},
		{"Ciphers aes256-ctr\nMACs umac-64@openssh.com", s, both, "id", "sets MACs to umac-64@openssh.com, of which this program has none"},
	} {
		t.Run(strings.ReplaceAll(c.config, "\n", " "), func(t *testing.T) {
			configured(t, c.config+"\n")
			if said, err := exec.Command("ssh", "-G", "h").CombinedOutput(); err != nil && strings.Contains(string(said), "Bad configuration option") {
				t.Skipf("this ssh has no such option: %s", said) // RequiredRSASize came with 9.1
			}
			c.to.write("known", c.known)
			identity := filepath.Join(dir, c.identity)
			if c.identity == "id" {
				identity = c.to.path("id")
			}
			conn, err := (&Dialer{SSHConfig: true}).connect(t.Context(), Target{Name: "h", Address: "127.0.0.1", Port: c.to.port, User: currentUser(),
				IdentityFile: identity, KnownHosts: c.to.path("known"), ConnectTimeout: 20 * time.Second})
			var got string
			if err != nil {
				got = err.Error()
			} else {
				with := conn.client.Conn.(ssh.AlgorithmsConnMetadata).Algorithms()
				got = fmt.Sprintf("%s %s %s %s", conn.proven[0].Type(), with.KeyExchange, with.Write.Cipher, with.Write.MAC)
				conn.close()
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("%q does not say %q", got, c.want)
			}
			said, refused := exec.Command("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile="+c.to.path("known"),
				"-i", identity, "-p", fmt.Sprint(c.to.port), "127.0.0.1", "true").CombinedOutput()
			if missing := strings.Contains(got, "of which this program has none"); (err == nil) != (refused == nil) && !missing && c.config != safer {
				t.Errorf("ours: %q; ssh: %v: %s", got, refused, said)
			}
		})
	}

	t.Run("agent", func(t *testing.T) {
		keys := agent.NewKeyring()
		for _, k := range []any{s.private, private} {
			if err := keys.Add(agent.AddedKey{PrivateKey: k}); err != nil {
				t.Fatal(err)
			}
		}
		sock := filepath.Join(t.TempDir(), "agent")
		serveAgent(t, sock, keys)
		configured(t, "RequiredRSASize 2048\nIdentityFile none\n")
		t.Setenv("SSH_AUTH_SOCK", sock)
		r, err := (&Dialer{SSHConfig: true}).resolve(t.Context(), Target{Address: "127.0.0.1"})
		if err != nil {
			t.Fatal(err)
		}
		k, err := r.keys(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer k.close()
		if want := "agent (keys: 1, and 1 that RequiredRSASize refuses)"; !strings.Contains(k.String(), want) {
			t.Errorf("%q does not say %q", k, want)
		}
	})
}

// login25519 returns the public key of the login.
func (s *server) login25519(t *testing.T) ssh.PublicKey {
	t.Helper()
	k, err := ssh.NewPublicKey(s.private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestIdentitiesOnlyChoosesTheAgentsKey: the server closes the connection after two keys, and the agent has the right one last. ssh(1) logs in
// by the same configurations.
func TestIdentitiesOnlyChoosesTheAgentsKey(t *testing.T) {
	s := openssh(t, nil, "MaxAuthTries 2\n")
	s.write("known", s.line(s.host))
	dir := t.TempDir()
	keys := agent.NewKeyring()
	for range 4 {
		private, public := key(t, filepath.Join(dir, "none"))
		if err := keys.Add(agent.AddedKey{PrivateKey: private}); err != nil {
			t.Fatal(err)
		}
		s.write("wrong.pub", string(ssh.MarshalAuthorizedKey(public)))
	}
	if err := keys.Add(agent.AddedKey{PrivateKey: s.private}); err != nil {
		t.Fatal(err)
	}
	s.write("right.pub", string(ssh.MarshalAuthorizedKey(s.login25519(t))))
	sock := filepath.Join(t.TempDir(), "agent")
	serveAgent(t, sock, keys)
	t.Setenv("SSH_AUTH_SOCK", sock)
	for _, c := range []struct{ config, want string }{
		{"IdentitiesOnly yes\nIdentityFile DIR/right.pub", ""},
		{"IdentitiesOnly yes\nIdentityFile DIR/right", ""}, // the private key is not there
		{"IdentitiesOnly yes\nIdentityFile DIR/wrong.pub", "tried agent (keys: 5, used because of IdentitiesOnly: 1), DIR/wrong.pub (a public key: the agent must have the private one)"},
		{"IdentitiesOnly yes\nIdentityFile DIR/gone", "tried agent (keys: 5, used because of IdentitiesOnly: 0)"},
		{"IdentitiesOnly yes\nIdentityFile DIR/id", ""},
		{"IdentitiesOnly no\nIdentityFile DIR/gone", "Too many authentication failures"},
	} {
		in := strings.NewReplacer("DIR", s.dir)
		t.Run(c.config, func(t *testing.T) {
			configured(t, in.Replace(c.config)+"\n")
			conn, err := (&Dialer{SSHConfig: true}).connect(t.Context(), Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), KnownHosts: s.path("known")})
			if err == nil {
				conn.close()
			}
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), in.Replace(c.want)) {
				t.Errorf("%v, expected %q", err, in.Replace(c.want))
			}
			said, refused := exec.Command("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "UserKnownHostsFile="+s.path("known"),
				"-p", fmt.Sprint(s.port), "127.0.0.1", "true").CombinedOutput()
			if (err == nil) != (refused == nil) {
				t.Errorf("ours: %v; ssh: %v: %s", err, refused, said)
			}
		})
	}
}
