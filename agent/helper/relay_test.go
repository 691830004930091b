//go:build linux

package helper

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestARelayAnswersWhoKnowsItsToken: a client with the token gets the rest of the file, and others
// get nothing.
func TestARelayAnswersWhoKnowsItsToken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	content := bytes.Repeat([]byte("0123456789abcdef"), 40*piece/16+1)
	path := filepath.Join(t.TempDir(), "b.tgz")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	const token = "GOOD"
	go handOut(l, path, token)
	for asked, want := range map[string][]byte{
		token + "\n0\n":             content,
		token + "\n1048577\n":       content[1048577:],
		token + "\n999999999\n":     nil, // beyond its end
		token + "\n-1\n":            nil,
		token + "\n0x10\n":          nil,
		token + "\n":                nil,
		"BAD\n0\n":                  nil,
		"\n0\n":                     nil,
		token + "X\n0\n":            nil,
		strings.Repeat("A", 100000): nil,
	} {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, asked) // the other side may have gone already
		_ = c.(*net.TCPConn).CloseWrite()
		got, err := io.ReadAll(c)
		if !bytes.Equal(got, want) || err != nil && want != nil {
			t.Errorf("%.20q: %d bytes and %v, want %d", asked, len(got), err, len(want))
		}
		_ = c.Close()
	}
}

// TestNearAddressesComeFirst, and none of this host's own, as of docker0.
func TestNearAddressesComeFirst(t *testing.T) {
	var addresses []netip.AddrPort
	for _, a := range []string{"172.17.0.1", "192.168.7.1", "fd00::1", "10.0.0.1", "10.0.1.1"} {
		addresses = append(addresses, netip.AddrPortFrom(netip.MustParseAddr(a), 7))
	}
	got := inTurn(addresses, []netip.Prefix{netip.MustParsePrefix("172.17.0.1/16"), netip.MustParsePrefix("10.0.1.2/24"), netip.MustParsePrefix("fd00::2/64")})
	if fmt.Sprint(got) != "[[fd00::1]:7 10.0.1.1:7 192.168.7.1:7 10.0.0.1:7]" {
		t.Error(got)
	}
}

// FuzzRelayRequest: whatever comes in from the network is a request or an error.
func FuzzRelayRequest(f *testing.F) {
	for _, s := range []string{"GOOD\n0\n", "GOOD\n9223372036854775808\n", "GOOD\n", "\n\n", "BAD\n1\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := readRequest(strings.NewReader(s), "GOOD")
		if err == nil && (at < 0 || !strings.HasPrefix(s, "GOOD\n")) {
			t.Errorf("%q: %d", s, at)
		}
	})
}
