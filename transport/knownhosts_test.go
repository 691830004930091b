package transport

import (
	crand "crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// checkKnown asks for a host's key with this text as known_hosts, and returns the verdict: "known", or a kind of HostKeyError with its line.
func checkKnown(t *testing.T, file, hostPort string, shown ssh.PublicKey) (verdict string, algorithms []string) {
	t.Helper()
	r := resolved{Target: Target{KnownHosts: file}, knownHosts: []string{file}, read: &readOnce{}}
	check, algorithms, err := r.hostKeys(hostPort)
	if err != nil {
		return err.Error(), nil
	}
	var e *HostKeyError
	switch err := check("", &net.TCPAddr{}, shown); {
	case err == nil:
		return "known", algorithms
	case errors.As(err, &e):
		return e.Kind + " " + strings.TrimPrefix(e.Known, file+":"), algorithms
	default:
		return err.Error(), algorithms
	}
}

// TestKnownHostsAreFoundAsALineByLineSearchFindsThem compares random files with golang.org/x/crypto/ssh/knownhosts, which tries each line.
func TestKnownHostsAreFoundAsALineByLineSearchFindsThem(t *testing.T) {
	dir := t.TempDir()
	var keys []ssh.PublicKey
	for range 3 {
		_, k := key(t, filepath.Join(dir, "key"))
		keys = append(keys, k)
	}
	_, authority := key(t, filepath.Join(dir, "key"))
	file := filepath.Join(dir, "known")
	verdicts := map[string]int{}
	for seed := range 300 {
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		port := []string{"22", "2222"}[seed%2]
		one := func(of ...string) string { return of[r.IntN(len(of))] }
		names := []string{"gpu01", "gpu02", "10.0.0.1", "fd00::1", "gpu01,10.0.0.1", "[gpu01]:2222", "[fd00::1]:2222", "gpu02,[gpu01]:2222", "[gpu*]:2222", "[gpu*]:2222,![gpu02]:2222",
			knownhosts.HashHostname("gpu01"), knownhosts.HashHostname("[gpu02]:2222"), knownhosts.HashHostname("fd00::1")}
		if port == "22" { // of names with * x/crypto does not know that they stand for all ports
			names = append(names, "*", "gpu*", "gpu*,!gpu02", "10.0.0.*", "gpu0?", "!gpu01,*")
		}
		var b strings.Builder
		for range r.IntN(8) {
			line := func(marker string, k ssh.PublicKey) {
				fmt.Fprintf(&b, "%s%s%s%s%s", one("", " ", "\t"), marker, one(names...), one(" ", "\t ", " "), ssh.MarshalAuthorizedKey(k))
			}
			switch r.IntN(8) {
			case 0:
				b.WriteString(one("\n", "# gpu01 comment\n", "  \r\n"))
			case 1:
				line("@cert-authority ", authority)
			case 2:
				line("@revoked ", keys[2])
			default:
				line("", keys[r.IntN(3)])
			}
		}
		text := b.String()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		oracle, err := knownhosts.New(file)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for _, host := range []string{"gpu01", "gpu02", "gpu033", "10.0.0.1", "fd00::1"} {
			for _, k := range keys {
				at := net.JoinHostPort(host, port)
				want := "known"
				var known *knownhosts.KeyError
				var revoked *knownhosts.RevokedError
				switch err := oracle(at, &net.TCPAddr{}, k); {
				case errors.As(err, &revoked):
					want = fmt.Sprintf("revoked %d", revoked.Revoked.Line)
				case errors.As(err, &known) && len(known.Want) > 0:
					want = fmt.Sprintf("changed %d", known.Want[0].Line)
				case err != nil:
					want = "unknown "
				}
				got, _ := checkKnown(t, file, at, k)
				if got != want {
					t.Fatalf("seed %d: %s: %q, expected %q:\n%s", seed, at, got, want, text)
				}
				kind, _, _ := strings.Cut(got, " ")
				verdicts[kind]++
			}
		}
	}
	if len(verdicts) != 4 || slices.Min([]int{verdicts["known"], verdicts["changed"], verdicts["unknown"], verdicts["revoked"]}) < 50 {
		t.Errorf("the files do not try enough: %v", verdicts)
	}
}

func TestKnownHostsOfManyForms(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "known")
	_, k := key(t, filepath.Join(dir, "key"))
	text := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
	rsaKey := "ssh-rsa " + base64.StdEncoding.EncodeToString(append([]byte("\x00\x00\x00\x07ssh-rsa\x00\x00\x00\x03\x01\x00\x01\x00\x00\x01\x01\x00\xc1"), slices.Repeat([]byte{3}, 255)...))
	p, q := new(big.Int).SetBit(big.NewInt(1), 1023, 1), new(big.Int).SetBit(big.NewInt(1), 159, 1)
	dss := "ssh-dss " + base64.StdEncoding.EncodeToString(ssh.Marshal(struct {
		Type       string
		P, Q, G, Y *big.Int
	}{"ssh-dss", p, q, big.NewInt(2), big.NewInt(3)}))
	for _, c := range []struct {
		known, host, verdict, algorithms string
	}{
		{"*.example.com " + text, "a.example.com:2222", "known", "ssh-ed25519"}, // as OpenSSH, which compares [a.example.com]:2222 with the pattern
		{"[*.example.com]:22 " + text, "a.example.com:2222", "unknown ", ""},
		{"a.example.com " + text, "a.example.com:2222", "unknown ", ""},
		{"*.example.com " + rsaKey, "a.example.com:2222", "changed 1", "rsa-sha2-512 rsa-sha2-256"},
		{"gpu* " + text, "gpu:22", "known", "ssh-ed25519"},
		{"h " + rsaKey + "\nh " + text + "\nh " + text, "h:22", "known", "rsa-sha2-512 rsa-sha2-256 ssh-ed25519"},
		{"@cert-authority h " + text, "h:22", "changed 1", "ssh-ed25519-cert-v01@openssh.com"}, // an authority is no host
		{"@cert-authority * " + rsaKey, "h:22", "changed 1", "rsa-sha2-512-cert-v01@openssh.com rsa-sha2-256-cert-v01@openssh.com"},
		{"h " + dss, "h:22", "unknown ", ""},
		{"@cert-authority h " + dss + "\nh " + text, "h:22", "known", "ssh-ed25519"},
		{"*.lab,!Bad.lab " + text, "bad.lab:22", "unknown ", ""},
		{"*.lab,!bad.lab " + text, "BAD.lab:22", "unknown ", ""},
		{"GPU01 " + text, "gpu01:22", "known", "ssh-ed25519"},
		{"gpu01 " + text, "GPU01:22", "known", "ssh-ed25519"},
		{"other ssh-new AAAA\nother\nh " + text, "h:22", "known", "ssh-ed25519"}, // lines of other hosts may be of a newer kind
		{"h ssh-new AAAA\nh " + text, "h:22", "read known_hosts: " + file + ":1: ", ""},
		{"h ssh-rsa " + strings.Fields(text)[1], "h:22", "read known_hosts: " + file + ":1: the key is of the type ssh-ed25519, and not ssh-rsa", ""},
		{"@revoked h ssh-new AAAA\n", "x:22", "read known_hosts: " + file + ":1: ", ""}, // what is revoked is never passed over
		{"@new h " + text, "x:22", "read known_hosts: " + file + ":1: unexpected marker", ""},
		{"@cert-authority @revoked h " + text, "x:22", "read known_hosts: " + file + ":1: unexpected marker", ""},
	} {
		if err := os.WriteFile(file, []byte(c.known), 0o600); err != nil {
			t.Fatal(err)
		}
		verdict, algorithms := checkKnown(t, file, c.host, k)
		if !strings.HasPrefix(verdict, c.verdict) || c.verdict == "known" && verdict != "known" || strings.Join(algorithms, " ") != c.algorithms {
			t.Errorf("%.40s: %s: %q %q, expected %q %q", c.known, c.host, verdict, algorithms, c.verdict, c.algorithms)
		}
	}
}

// TestACertificateSignedWithSHA1IsRefused: OpenSSH takes none since 8.2 (CASignatureAlgorithms).
func TestACertificateSignedWithSHA1IsRefused(t *testing.T) {
	dir := t.TempDir()
	_, host := key(t, filepath.Join(dir, "key"))
	private, err := rsa.GenerateKey(crand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	authority, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "known")
	if err := os.WriteFile(file, fmt.Appendf(nil, "@cert-authority h %s", ssh.MarshalAuthorizedKey(authority.PublicKey())), 0o600); err != nil {
		t.Fatal(err)
	}
	for algorithm, want := range map[string]string{ssh.KeyAlgoRSASHA512: "known", ssh.KeyAlgoRSA: "the certificate of the host's key is signed by ssh-rsa"} {
		signer, err := ssh.NewSignerWithAlgorithms(authority.(ssh.AlgorithmSigner), []string{algorithm})
		if err != nil {
			t.Fatal(err)
		}
		c := &ssh.Certificate{Key: host, CertType: ssh.HostCert, ValidPrincipals: []string{"h"}, ValidBefore: ssh.CertTimeInfinity}
		if err := c.SignCert(crand.Reader, signer); err != nil {
			t.Fatal(err)
		}
		if verdict, _ := checkKnown(t, file, "h:22", c); !strings.HasPrefix(verdict, want) {
			t.Errorf("%s: %s", algorithm, verdict)
		}
	}
}

// TestKeysThatSSHConfigRevokesAreRefused: also when the files of a fabric name another known_hosts, as ssh -o UserKnownHostsFile does.
func TestKeysThatSSHConfigRevokesAreRefused(t *testing.T) {
	dir := t.TempDir()
	_, shown := key(t, filepath.Join(dir, "key"))
	_, other := key(t, filepath.Join(dir, "other"))
	line, another := string(ssh.MarshalAuthorizedKey(shown)), string(ssh.MarshalAuthorizedKey(other))
	known, file := filepath.Join(dir, "known"), filepath.Join(dir, "file")
	if err := os.WriteFile(known, []byte("h "+line), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ config, file, want string }{
		{"RevokedHostKeys none", line, ""},
		{"RevokedHostKeys FILE", another, ""},
		{"RevokedHostKeys FILE", "# lost\n" + another + "\n" + line, "host key of h is revoked"},
		{"RevokedHostKeys FILE", "SSHKRL\n\x00\x00", "is a binary list (KRL), which is not supported"},
		{"RevokedHostKeys FILE", "ssh-new AAAA", "FILE:1: "},
		{"RevokedHostKeys FILE.gone", line, "RevokedHostKeys: open FILE.gone: "},
		{"GlobalKnownHostsFile FILE", "h ssh-new AAAA\n" + "@revoked * " + line, "host key of h is revoked"},
		{"GlobalKnownHostsFile FILE", "h " + another + "@revoked * " + another, ""},
		{"GlobalKnownHostsFile FILE", "@revoked * ssh-new AAAA", "FILE:1: "},
		{"GlobalKnownHostsFile FILE.gone", "", ""},
	} {
		in := strings.NewReplacer("FILE", file)
		if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		configured(t, in.Replace(c.config)+"\n")
		r, err := (&Dialer{SSHConfig: true}).resolve(t.Context(), Target{Address: "h", KnownHosts: known})
		if err != nil {
			t.Fatal(err)
		}
		check, _, err := r.hostKeys("h:22")
		if err == nil {
			err = check("", &net.TCPAddr{}, shown)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), in.Replace(c.want)) {
			t.Errorf("%s with %q: %v, expected %q", c.config, c.file, err, c.want)
		}
	}
}

// TestAnAliasIsLookedUpWithoutAPort, as ssh does it (sshconnect.c, get_hostfile_hostname_ipaddr). Another address of a host is no alias.
func TestAnAliasIsLookedUpWithoutAPort(t *testing.T) {
	dir := t.TempDir()
	_, shown := key(t, filepath.Join(dir, "key"))
	line, known := string(ssh.MarshalAuthorizedKey(shown)), filepath.Join(dir, "known")
	for _, c := range []struct{ config, via, names, want string }{
		{"HostKeyAlias alias", "", "alias", ""},
		{"HostKeyAlias alias", "10.0.0.9", "alias", ""},
		{"HostKeyAlias alias", "", "[alias]:2222", "host key of alias is unknown"},
		{"", "10.0.0.9", "[h]:2222", ""},
		{"", "10.0.0.9", "h", "host key of [h]:2222 is unknown"},
		{"", "10.0.0.9", "[10.0.0.9]:2222", "host key of [h]:2222 is unknown"},
	} {
		if err := os.WriteFile(known, []byte(c.names+" "+line), 0o600); err != nil {
			t.Fatal(err)
		}
		configured(t, c.config+"\n")
		r, err := (&Dialer{SSHConfig: true}).resolve(t.Context(), Target{Address: "h", Port: 2222, Via: c.via, KnownHosts: known})
		if err != nil {
			t.Fatal(err)
		}
		check, _, err := r.hostKeys(net.JoinHostPort(r.Address, "2222"))
		if err == nil {
			err = check("", &net.TCPAddr{}, shown)
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func FuzzKnownHosts(f *testing.F) {
	f.Add("h ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f\n@revoked *\n|1|x|y ssh-rsa AAAA\n")
	f.Fuzz(func(t *testing.T, text string) {
		k := &knownHosts{named: map[string][]int32{}, revoked: map[string]knownKey{}}
		for line := range strings.Lines(text) {
			if line = strings.Trim(line, " \t\r\n"); line != "" {
				_ = k.add(knownLine{"f", 1, line})
			}
		}
		_, _ = k.find("h", "22")
	})
}
