package transport

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestHostileTargetsAreRefused(t *testing.T) {
	for _, bad := range []string{"-oProxyCommand=touch /tmp/x", "a b", "a;b", "$(x)", "`x`", "a\nb", "a\x00b", "a'b", "a|b", ""} {
		if (Target{Name: "h", Address: bad}).check() == nil {
			t.Errorf("address %q is taken", bad)
		}
		if bad == "" {
			continue
		}
		if (Target{Name: "h", Address: "ok", User: bad}).check() == nil {
			t.Errorf("user %q is taken", bad)
		}
		if (Target{Name: "h", Address: "ok", Via: bad}).check() == nil {
			t.Errorf("address to come in by %q is taken", bad)
		}
		if (Target{Name: "h", Address: "ok", ProxyJump: bad}).check() == nil {
			t.Errorf("proxy_jump %q is taken", bad)
		}
	}
	for _, good := range []string{"10.0.0.1", "fe80::1%eth0", "gpu-01.example.net"} {
		if err := (Target{Name: "h", Address: good}).check(); err != nil {
			t.Error(err)
		}
	}
}

// TestTheShellLineIsFixedText holds the one shell line to what every login shell reads alike; of
// what varies, only a hexadecimal version gets into it.
func TestTheShellLineIsFixedText(t *testing.T) {
	a, b := script("00000000000000aa", true), script("ffffffffffffffff", true)
	if strings.ReplaceAll(a, "00000000000000aa", "ffffffffffffffff") != b {
		t.Fatal("the line varies by more than the version")
	}
	inner := strings.TrimSuffix(strings.TrimPrefix(a, "sh -c '"), "'")
	if strings.ContainsAny(inner, "'!\n") {
		t.Fatal("a login shell could read this differently")
	}
	for _, bad := range []string{"", "x", "0000000$(x)", "../../../../etc", strings.Repeat("a", 65)} {
		if versionID().MatchString(bad) {
			t.Errorf("version %q is taken", bad)
		}
	}
}

func TestParseMissingReadsPastLoginNoise(t *testing.T) {
	a, err := parseMissing("motd\nfabricform-missing Linux x86_64 1000 local /home/tutu\n")
	if err != nil || !slices.Equal(a.folders, []string{"/home/tutu/.cache/fabricform", "/var/tmp/fabricform-1000", "/run/user/1000/fabricform"}) {
		t.Fatal(a, err)
	}
	if far, err := parseMissing("fabricform-missing Linux x86_64 1000 remote /home/tutu\n"); err != nil || far.folders[0] != "/var/tmp/fabricform-1000" || far.folders[2] != "/home/tutu/.cache/fabricform" {
		t.Error("a home on another machine is preferred:", far, err)
	}
	if arch, err := a.goarch(); err != nil || arch != "amd64" {
		t.Fatal(arch, err)
	}
	for _, bad := range []string{"", "fabricform-missing Linux x86_64 0;x local /root", "fabricform-missing Linux x86_64 0 local /ro$(x)ot", "fabricform-missing Linux x86_64 0 local relative"} {
		if _, err := parseMissing(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for _, m := range []string{"armv7l", "riscv64"} {
		if _, err := (absence{system: "Linux", machine: m}).goarch(); err == nil || !strings.Contains(err.Error(), m) {
			t.Errorf("%s: %v", m, err)
		}
	}
}

func TestJumpReadsUserAndPort(t *testing.T) {
	j, err := jump("admin@gate:2222", Target{KnownHosts: "k"})
	if err != nil || j.User != "admin" || j.Address != "gate" || j.Port != 2222 || j.KnownHosts != "k" {
		t.Fatal(j, err)
	}
	for hop, want := range map[string]Target{"a@b@gate": {User: "a@b", Address: "gate"}, "[fd00::1]": {Address: "fd00::1"}, "[fd00::1]:24": {Address: "fd00::1", Port: 24}} {
		if j, err := jump(hop, Target{}); err != nil || j != want {
			t.Errorf("%s: %+v, %v", hop, j, err)
		}
	}
	if _, err := jump("gate:x", Target{}); err == nil {
		t.Fatal("a port that is none is taken")
	}
}

func FuzzParseSSHG(f *testing.F) {
	f.Add([]byte("hostname a\nidentityfile ~/.ssh/x\nidentityfile y\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { parseSSHG(b) })
}

func FuzzParseMissing(f *testing.F) {
	f.Add("x fabricform-missing Linux aarch64 0 local /root\n")
	f.Add("fabricform-missing  ")
	f.Fuzz(func(t *testing.T, s string) {
		a, err := parseMissing(s)
		if err != nil {
			return
		}
		for _, dir := range a.folders {
			if strings.ContainsAny(dir, " $;`'\"\n&|<>") {
				t.Fatalf("%q would reach a shell", dir)
			}
		}
		_, _ = a.goarch()
	})
}

// The same silence reads the same, whichever of the two timeouts the dialer returns.
func TestAHostThatDoesNotAnswerIsNamedInOneWay(t *testing.T) {
	for _, err := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		got := resolved{Target: Target{ConnectTimeout: 2 * time.Second}}.classifyDial("h:22", &net.OpError{Op: "dial", Err: err})
		if !strings.Contains(got.Error(), "no answer within 2s") {
			t.Errorf("%v: %v", err, got)
		}
	}
}

// TestTheAddressOfAHostIsWhatWeDialled: a jump host that looks up a name does not say what it found.
func TestTheAddressOfAHostIsWhatWeDialled(t *testing.T) {
	remote := &net.TCPAddr{IP: net.ParseIP("192.0.2.7"), Port: 22}
	for _, c := range []struct {
		declared string
		remote   net.Addr
		jumped   bool
		want     string
	}{
		{"192.0.2.1", remote, false, "192.0.2.1:22"},
		{"192.0.2.1", remote, true, "192.0.2.1:22"},
		{"gpu01", remote, false, "192.0.2.7:22"},
		{"gpu01", remote, true, "invalid AddrPort"},
		{"gpu01", &net.UnixAddr{}, false, "invalid AddrPort"},
	} {
		if got := dialled(resolved{Target: Target{Address: c.declared, Port: 22}}, c.remote, c.jumped).String(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// TestErrorOutputTakesLittleMemory: io.Copy would take 32 KiB for each host, with or without output.
func TestErrorOutputTakesLittleMemory(t *testing.T) {
	text := strings.Repeat("x", 40<<10) + "the end"
	var b bounded
	if n, err := io.Copy(&b, struct{ io.Reader }{strings.NewReader(text)}); n != int64(len(text)) || err != nil {
		t.Fatal(n, err)
	}
	if got := b.String(); len(b.buf) > 32<<10 || !strings.HasSuffix(got, "xthe end") {
		t.Errorf("%d bytes remain, which end with %.20q", len(b.buf), got[max(0, len(got)-20):])
	}
	broken := errors.New("broken")
	if _, err := io.Copy(&b, struct{ io.Reader }{iotest.ErrReader(broken)}); !errors.Is(err, broken) {
		t.Error(err)
	}
	each := testing.Benchmark(func(t *testing.B) {
		for range t.N {
			if _, err := io.Copy(new(bounded), struct{ io.Reader }{strings.NewReader("little")}); err != nil {
				t.Fatal(err)
			}
		}
	})
	if each.AllocedBytesPerOp() > 4<<10 {
		t.Errorf("%d bytes for a few", each.AllocedBytesPerOp())
	}
}
