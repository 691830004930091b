package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
)

// proxyTo makes this program a ProxyCommand: it connects its input and output to an address, and writes its process ID to a file.
const proxyTo = "FABRICFORM_TEST_PROXY"

func TestMain(m *testing.M) {
	pid := os.Getenv(proxyTo)
	if pid == "" || len(os.Args) != 3 {
		os.Exit(m.Run())
	}
	conn, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		fmt.Fprintln(os.Stderr, "\x1b[31mcannot connect\x07", err)
		os.Exit(7)
	}
	if err := os.WriteFile(pid, fmt.Append(nil, os.Getpid()), 0o600); err != nil {
		panic(err)
	}
	go io.Copy(conn, os.Stdin)
	io.Copy(os.Stdout, conn)
}

// through configures a ProxyCommand for a Dialer. The program that it can name as SELF writes its process ID to the file pid.
func (s *server) through(config string) (*Dialer, Target) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Setenv("SSH_AUTH_SOCK", "")
	s.t.Setenv("SHELL", "/bin/sh")
	s.t.Setenv(proxyTo, s.path("pid"))
	configured(s.t, strings.NewReplacer("SELF", self, "DIR", s.dir).Replace(config))
	return &Dialer{SSHConfig: true}, Target{Name: "h", Address: "far", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second}
}

// TestProxyCommandReachesAHost: through a program, with the tokens of ssh_config(5), through ssh -W, and to a jump host.
func TestProxyCommandReachesAHost(t *testing.T) {
	s := openssh(t, nil)
	s.write("known", "far.example "+string(ssh.MarshalAuthorizedKey(s.host))+s.line(s.host)) // an alias has no port
	tokens := "Host far\n  HostName far.example\n  HostKeyAlias far.example\n"
	for name, config := range map[string]string{
		"tokens":          tokens + "  ProxyCommand sh -c 'echo %h %n %k %p %r %% > DIR/tokens; exec SELF 127.0.0.1 %p'\n",
		"exec":            tokens + "  ProxyCommand SELF 127.0.0.1 %p\n",
		"ssh -W":          tokens + fmt.Sprintf("  ProxyCommand ssh -i DIR/id -o UserKnownHostsFile=DIR/known -W 127.0.0.1:%%p -p %d %%r@127.0.0.1\n", s.port),
		"of a jump host":  fmt.Sprintf("Host far\n  HostName 127.0.0.1\n  ProxyJump gate:%d\nHost gate\n  HostName 127.0.0.1\n  ProxyCommand SELF %%h %%p\n", s.port),
		"jumps of a jump": fmt.Sprintf("Host far\n  HostName 127.0.0.1\n  ProxyJump gate:%d\nHost gate\n  HostName 127.0.0.1\n  ProxyJump outer:%[1]d\nHost outer\n  HostName 127.0.0.1\n", s.port),
	} {
		t.Run(name, func(t *testing.T) {
			d, target := s.through(config)
			c, err := d.connect(t.Context(), target)
			if err != nil {
				t.Fatal(err)
			}
			if name == "exec" {
				checkGone(t, s.path("pid"), c.close)
			}
			c.close()
			if way := len(c.below); name == "jumps of a jump" && way != 2 {
				t.Errorf("logged in to %d jump hosts", way)
			}
			if name == "exec" && c.dialled.IsValid() {
				t.Errorf("claims to know the address: %s", c.dialled)
			}
		})
	}
	raw, err := os.ReadFile(s.path("tokens"))
	if want := fmt.Sprintf("far.example far far.example %d %s %%\n", s.port, currentUser()); string(raw) != want || err != nil {
		t.Errorf("the shell got %q, expected %q (%v)", raw, want, err)
	}
}

// checkGone checks that a process runs, and that it does not any more after end.
func checkGone(t *testing.T, file string, end func()) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(raw), &pid); err != nil {
		t.Fatal(err)
	}
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("ProxyCommand %d is in the session %d (%v): Ctrl-C reaches it", pid, sid, err)
	}
	end()
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("ProxyCommand outlives its connection: %v", err)
	}
}

// TestAProxyCommandThatFailsIsQuoted: what it printed is shown without control characters.
func TestAProxyCommandThatFailsIsQuoted(t *testing.T) {
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	for command, want := range map[string][]string{
		"SELF 127.0.0.1 1": {"through ProxyCommand", "exit status 7", "cannot connect", "connection refused"},
		"sh -c 'echo never >&2; trap \"\" HUP; sleep 60'":     {"no SSH within 2s", "ProxyCommand printed: never"},
		"sh -c 'echo unable to authenticate at the gate >&2'": {"through ProxyCommand", "printed: unable to authenticate at the gate"},
		"/no/such/program": {"exit status 127", "not found"},
		"SELF %z":          {`unknown token "%z"`},
		"SELF %":           {"single %"},
	} {
		d, target := s.through("ProxyCommand " + command + "\n")
		if strings.Contains(command, "sleep") {
			target.ConnectTimeout = 2 * time.Second
		}
		_, err := d.connect(t.Context(), target)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\x07") {
			t.Fatalf("%s: %v", command, err)
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v lacks %q", command, err, w)
			}
		}
	}
	d, target := s.through("ProxyCommand SELF 127.0.0.1 %p\n")
	s.write("known", strings.Replace(s.line(s.other), "127.0.0.1", "far", 1))
	var wrong *HostKeyError
	if _, err := d.connect(t.Context(), target); !errors.As(err, &wrong) || wrong.Kind != "changed" {
		t.Errorf("a wrong host key behind a ProxyCommand: %v", err)
	}
}

// TestWhatAProxyCommandLeftBehindIsEnded: a program in the background, after the ProxyCommand itself has ended.
func TestWhatAProxyCommandLeftBehindIsEnded(t *testing.T) {
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	if err := unix.Mkfifo(s.path("held"), 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(s.path("held"), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	d, target := s.through("ProxyCommand sh -c 'exec 3>DIR/held; sleep 20 >/dev/null 2>&1 & exit 5'\n")
	if _, err := d.connect(t.Context(), target); err == nil || !strings.Contains(err.Error(), "exit status 5") {
		t.Errorf("got %v", err)
	}
	if err := held.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := held.Read(make([]byte, 1)); !errors.Is(err, io.EOF) { // as long as a program has it open for writing
		t.Errorf("a program outlives its ProxyCommand and the connection: %v", err)
	}
}

// TestNoHostileNameReachesAShell: of what a ProxyCommand gets, only the command is the user's own.
func TestNoHostileNameReachesAShell(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, bad := range []string{"*", "~", "a[b]", "-x", "a b", "#", "a!b", "a=b", "é", "a\\b", "$(touch " + file + ")", "`touch " + file + "`", ";touch " + file} {
		for token, r := range map[string]resolved{
			"%h": {Target: Target{Address: bad}}, "%n": {asked: bad}, "%k": {hostKeyAlias: bad}, "%r": {Target: Target{User: bad}},
		} {
			r.proxyCommand = "true " + token
			if c, err := r.dialProxy(context.Background(), "", ""); err == nil {
				c.Close()
				t.Errorf("%s: %q is taken", token, bad)
			}
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a shell ran what a name contains")
	}
}

func TestWaysOfProxyCommandThatAreRefused(t *testing.T) {
	for config, want := range map[string]string{
		"ProxyCommand x %h\nProxyUseFdpass yes\n": "ProxyUseFdpass and `ProxyCommand -` are not supported",
		"ProxyCommand -\n":                        "ProxyUseFdpass and `ProxyCommand -` are not supported",
		"ProxyUseFdpass yes\n":                    "",
		"ProxyCommand None\n":                     "",
		"ProxyCommand none\nProxyUseFdpass yes\n": "",
	} {
		configured(t, config)
		r, err := (&Dialer{SSHConfig: true}).resolve(t.Context(), Target{Address: "far"})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) || r.proxyCommand != "" && want == "" {
			t.Errorf("%q: %q, %v", config, r.proxyCommand, err)
		}
	}
	configured(t, "ProxyCommand x %h\n") // ssh -J takes precedence over it
	if r, err := (&Dialer{SSHConfig: true}).resolve(t.Context(), Target{Address: "far", ProxyJump: "gate"}); err != nil || r.proxyCommand != "" {
		t.Errorf("proxy_jump of the files: %q, %v", r.proxyCommand, err)
	}
	configured(t, "Host a\n  ProxyJump b\nHost b\n  ProxyJump a\n")
	if _, err := (&Dialer{SSHConfig: true}).way(t.Context(), Target{Address: "a"}, maxJumps); err == nil || !strings.Contains(err.Error(), "too many jump hosts") {
		t.Errorf("jump hosts in a circle: %v", err)
	}
}
