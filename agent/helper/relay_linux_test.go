package helper

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/host/lock"
)

// relaying is a host that hands out a bundle, and what it said of it. It is reached by loopback here.
func relaying(t *testing.T, b calls.Bundle, content string) (*rack, calls.Relay) {
	t.Helper()
	r := withBundle(t, b, content)
	r.connection.SSH = "127.0.0.1 1024 127.0.0.1 22"
	at, err := r.relayServe(t.Context(), calls.RelayStart{Bundle: b})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = r.relayEnd(t.Context(), calls.RelayEnd{Token: at.Token}) })
	if len(at.Addresses) != 1 || at.Addresses[0].Addr().String() != "127.0.0.1" {
		t.Fatalf("%v", at.Addresses)
	}
	return r, at
}

// withBundle is a host that has a file of a bundle's name, or none.
func withBundle(t *testing.T, b calls.Bundle, content string) *rack {
	t.Helper()
	r := newRack(t)
	if err := os.MkdirAll(r.stack.bundles(), 0o700); err != nil {
		t.Fatal(err)
	}
	if content != "" {
		if err := os.WriteFile(filepath.Join(r.stack.bundles(), b.Name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *rack) has(t *testing.T, b calls.Bundle, content string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(r.stack.bundles(), b.Name))
	if err != nil || string(got) != content {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

func TestABundleComesFromARelay(t *testing.T) {
	content := strings.Repeat("0123456789", 50000)
	b := bundle("b.tgz", content)
	relay, at := relaying(t, b, content)
	for name, begin := range map[string]string{"nothing": "", "a beginning": content[:100001], "all": content, "too much": content + "x", "something else": strings.Repeat("x", 1000)} {
		to := withBundle(t, b, "")
		if err := os.WriteFile(filepath.Join(to.stack.bundles(), b.Part()), []byte(begin), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at})
		if name == "too much" || name == "something else" { // all of it goes, and the next one fetches
			if err != nil || got.Whole || got.Have != 0 {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			got, err = to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at})
		}
		for err == nil && !got.Whole && got.Have > 0 { // a slow machine needs more than one
			got, err = to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at})
		}
		if err != nil || !got.Whole || got.Have != b.Size {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
		to.has(t, b, content)
	}
	// Another file under the bundle's name, of its size, is not taken for it.
	to := withBundle(t, b, strings.Repeat("x", len(content)))
	if got, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at}); err != nil || !got.Whole {
		t.Error(got, err)
	}
	to.has(t, b, content)
	// Two who fetch at once would write into one file.
	unlock, err := lock.Try(to.stack.file("fetch.lock"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at}); !heldBy(err, "another run") {
		t.Error(err)
	}
	unlock()
	other := bundle("other.tgz", "x")
	if _, err := relay.relayServe(t.Context(), calls.RelayStart{Bundle: other}); err == nil || !strings.Contains(err.Error(), "is missing on the host") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(relay.stack.bundles(), b.Name), []byte(strings.Repeat("x", len(content))), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := relay.relayServe(t.Context(), calls.RelayStart{Bundle: b}); err == nil {
		t.Error("another file is handed out")
	}
	to = withBundle(t, b, "")
	if got, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at}); err != nil || got.Whole || got.Have != 0 {
		t.Errorf("another file was taken: %+v, %v", got, err)
	}
}

// TestWhatCameOfARelayCounts: a relay that ends half-way leaves the first part of the file, and the next fetch
// is an error.
func TestWhatCameOfARelayCounts(t *testing.T) {
	content := strings.Repeat("x", 10*piece)
	b := bundle("b.tgz", content)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte(content[:3*piece]))
		_ = l.Close()
		// Read the request first: otherwise closing would reset the connection and discard what was
		// sent.
		_, _ = c.Read(make([]byte, 1024))
		_ = c.Close()
	}()
	to := withBundle(t, b, "")
	at := calls.Relay{Addresses: []netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}, Token: "T"}
	if got, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at}); err != nil || got.Have != 3*piece || got.Whole {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := to.relayFetch(t.Context(), calls.FetchParams{Bundle: b, Relay: at}); err == nil || !strings.Contains(err.Error(), "the relay cannot be reached") {
		t.Error(err)
	}
}

// TestTheEndOfARelaying closes its port, and takes along what was there for others; it may come twice.
func TestTheEndOfARelaying(t *testing.T) {
	b := bundle("b.tgz", "content")
	relay, at := relaying(t, b, "content")
	for range 2 {
		if _, err := relay.relayEnd(t.Context(), calls.RelayEnd{Token: at.Token}); err != nil {
			t.Fatal(err)
		}
		relay.has(t, b, "content")
		if c, err := net.Dial("tcp", at.Addresses[0].String()); err == nil {
			c.Close()
			t.Error("its port is open")
		}
	}
	for range 2 {
		if _, err := relay.relayEnd(t.Context(), calls.RelayEnd{Remove: b}); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(relay.stack.bundles()); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
	b.Name = "../lock"
	if _, err := relay.relayEnd(t.Context(), calls.RelayEnd{Remove: b}); err == nil {
		t.Error("a hostile name")
	}
}

// TestARelayListensWhereItMustBeReached, and at no other of the host's addresses: those in the networks of the hosts that
// fetch, or else that of the operator's connection.
func TestARelayListensWhereItMustBeReached(t *testing.T) {
	prefixes := func(list ...string) (out []netip.Prefix) {
		for _, p := range list {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	own := prefixes("10.0.0.1/24", "172.17.0.1/16", "192.168.1.1/24", "fd00::1/64")
	for _, c := range []struct {
		ssh    string
		others []netip.Prefix
		want   string
	}{
		{"1.1.1.1 9 192.168.1.1 22", prefixes("10.0.0.2/24", "172.17.0.1/16"), "[10.0.0.1]"},
		{"1.1.1.1 9 192.168.1.1 22", prefixes("fd00::2/64", "10.0.0.3/24", "10.9.0.3/24"), "[10.0.0.1 fd00::1]"},
		{"1.1.1.1 9 192.168.1.1 22", prefixes("10.9.0.2/24"), "[192.168.1.1]"},
		{"", prefixes("10.9.0.2/24"), "[]"},
	} {
		s := &server{}
		s.connection.SSH = c.ssh
		if got := fmt.Sprint(s.relayAt(own, c.others)); got != c.want {
			t.Errorf("%v from %q: %s, want %s", c.others, c.ssh, got, c.want)
		}
	}
	b := bundle("b.tgz", "content")
	relay := withBundle(t, b, "content")
	relay.connection.SSH = ""
	if at, err := relay.relayServe(t.Context(), calls.RelayStart{Bundle: b}); err == nil || !strings.Contains(err.Error(), "no address in a network of the hosts that fetch it") {
		t.Errorf("it listens at %v", at.Addresses)
	}
}
