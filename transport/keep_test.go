package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// keepsFor is the environment variable that makes a run of a test a keeper, with the time for which it keeps connections.
const keepsFor = "FABRICFORM_TEST_KEEPS_FOR"

// runtimeDir gives the test a folder for sockets, whose path is short enough.
func runtimeDir(t *testing.T) (path string) {
	t.Helper()
	path, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("XDG_RUNTIME_DIR", path)
	t.Cleanup(func() {
		_, _ = Disconnect(context.Background())
		_ = os.RemoveAll(path)
	})
	return path
}

// asKeeper returns the Keeping of a command whose keeper is this test, run again. In that run it does not return.
func asKeeper(t *testing.T, keep string) *Keeping {
	t.Helper()
	if given := os.Getenv(keepsFor); given != "" {
		l, err := net.FileListener(os.NewFile(3, "socket"))
		if err != nil {
			panic(err)
		}
		keep, err := time.ParseDuration(given)
		if err != nil {
			panic(err)
		}
		command := make(chan struct{})
		go func() {
			_, _ = io.Copy(io.Discard, os.Stdin)
			close(command)
		}()
		Keep(context.Background(), new(Dialer), l.(*net.UnixListener), command, keep)
		os.Exit(0)
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv(keepsFor, keep)
	for_, err := time.ParseDuration(keep)
	if err != nil {
		t.Fatal(err)
	}
	k := &Keeping{For: for_, Build: "00000000000000aa", Program: []string{"-test.run=^" + t.Name() + "$"}}
	t.Cleanup(k.leave)
	return k
}

// leave lets the keeper know that the command has ended.
func (k *Keeping) leave() {
	if k.hold != nil {
		_ = k.hold.Close()
	}
}

// later is the Keeping of a later command, which keeps nothing itself.
func (k *Keeping) later() *Keeping { return &Keeping{Build: k.Build} }

// shell runs a command over a connection of its own to the server, and returns what it printed and its error.
func (s *server) shell(k *Keeping, to Target, command string) (out, errs string, err error) {
	d := &Dialer{Keeping: k, Progress: func(_, message string) { s.t.Log(message) }}
	c, err := d.connect(s.t.Context(), to)
	if err != nil {
		return "", "", err
	}
	defer c.close()
	sess, err := c.client.NewSession()
	if err != nil {
		return "", "", err
	}
	var o, e bytes.Buffer
	sess.Stdout, sess.Stderr = &o, &e
	if strings.HasPrefix(command, "wc") {
		sess.Stdin = strings.NewReader(strings.Repeat("input\n", 100000))
	}
	err = sess.Run(command)
	return o.String(), e.String(), err
}

// target is the server, which may be reached over a kept connection.
func (s *server) target() Target {
	return Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"),
		KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second, MayReuse: true}
}

// until waits for something that must happen soon.
func until(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !happened(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not happen: " + what)
		}
	}
}

// sockets returns how many keepers there are.
func sockets(t *testing.T) int {
	t.Helper()
	all, err := keepers()
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestLaterCommandsUseAKeptConnection: what they run behaves as over a connection of their own. Who needs proof that a new login works
// gets a new login, and so does everybody after `disconnect`.
func TestLaterCommandsUseAKeptConnection(t *testing.T) {
	first := asKeeper(t, "1m")
	s := openssh(t, nil)
	runtimeDir(t)
	s.write("known", s.line(s.host))
	to := s.target()
	expect := func(what string, k *Keeping, to Target, logins int) {
		t.Helper()
		out, errs, err := s.shell(k, to, "wc -c; echo problem >&2; exit 3")
		var status *ssh.ExitError
		if out != "600000\n" || errs != "problem\n" || !errors.As(err, &status) || status.ExitStatus() != 3 {
			t.Errorf("%s: %q, %q, %v", what, out, errs, err)
		}
		if got := s.logins(); got != logins {
			t.Fatalf("%s: %d logins, want %d", what, got, logins)
		}
	}
	expect("the first command", first, to, 1)
	expect("the same command again", first, to, 1)
	first.leave()
	expect("a later command", first.later(), to, 1)
	expect("a later command with a keeper of its own", asLater(first), to, 1)
	fresh := to
	fresh.MayReuse = false
	expect("a proof of a new login", first.later(), fresh, 2)
	other := first.later()
	other.Build = "00000000000000bb"
	expect("another build", other, to, 3)

	ended, err := Disconnect(t.Context())
	if err != nil || len(ended) != 1 || ended[0].Host != "h" || ended[0].InUse {
		t.Errorf("%v, %v", ended, err)
	}
	expect("after disconnect", first.later(), to, 4)
	until(t, "the keeper ends", func() bool { return sockets(t) == 0 })
	if ended, err := Disconnect(t.Context()); err != nil || len(ended) > 0 {
		t.Errorf("%v, %v", ended, err)
	}
}

// asLater is later, for a command that keeps what it makes.
func asLater(k *Keeping) *Keeping {
	return &Keeping{For: k.For, Build: k.Build, Program: k.Program}
}

// TestAKeptConnectionThatIsInUseIsNotCut: neither by its time nor by disconnect.
func TestAKeptConnectionThatIsInUseIsNotCut(t *testing.T) {
	first := asKeeper(t, "1s")
	s := openssh(t, nil)
	runtimeDir(t)
	s.write("known", s.line(s.host))
	c, err := (&Dialer{Keeping: first}).connect(t.Context(), s.target())
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	sess, err := c.client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := sess.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sess.Stdout = &out
	if err := sess.Start("cat"); err != nil {
		t.Fatal(err)
	}
	until(t, "its time is over", func() bool {
		_, _, err := ask(t.Context(), first.keeper, keepRequest{Do: doOpen, Key: c.kept.kept.Key}, answerPatience)
		return err != nil && strings.Contains(err.Error(), "not kept any more")
	})
	if _, err := Disconnect(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := in.Write([]byte("still here")); err != nil {
		t.Error(err)
	}
	_ = in.Close()
	if err := sess.Wait(); err != nil || out.String() != "still here" {
		t.Errorf("%v: %q", err, out.String())
	}
	if _, _, err := s.shell(asLater(first), s.target(), "true"); err != nil || s.logins() != 2 {
		t.Errorf("after its time: %v, %d logins", err, s.logins())
	}
}

// TestAKeeperThatIsToldToEndLetsCommandsFinish: a revert may need the connection at a logout.
func TestAKeeperThatIsToldToEndLetsCommandsFinish(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	dir, err := filepath.Abs(runtimeDir(t))
	if err != nil {
		t.Fatal(err)
	}
	s.write("known", s.line(s.host))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "own.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended, command := make(chan struct{}), make(chan struct{}) // the command does not end
	go func() {
		defer close(ended)
		Keep(ctx, new(Dialer), l, command, time.Hour)
	}()
	k := &Keeping{For: time.Hour, Build: "00000000000000aa", keeper: l.Addr().String()}
	k.start.Do(func() {})
	d := &Dialer{Keeping: k}
	c, err := d.connect(t.Context(), s.target())
	if err != nil || c.kept == nil {
		t.Fatal(c, err)
	}
	defer c.close()
	sess, err := c.client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := sess.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	sess.Stdout = &out
	if err := sess.Start("cat"); err != nil {
		t.Fatal(err)
	}
	end()
	until(t, "the keeper removes its socket", func() bool { return errors.Is(exists(k.keeper), fs.ErrNotExist) })
	if await(ended, 100*time.Millisecond) {
		t.Error("the keeper ended before the command")
	}
	if _, err := in.Write([]byte("still here")); err != nil {
		t.Error(err)
	}
	_ = in.Close()
	if err := sess.Wait(); err != nil || out.String() != "still here" {
		t.Errorf("%v: %q", err, out.String())
	}
	until(t, "the keeper ends", func() bool { return await(ended, 0) })
}

func exists(path string) error {
	_, err := os.Stat(path)
	return err
}

// TestASlowHostKeepsItsConnection if it was given more time to connect, or took more.
func TestASlowHostKeepsItsConnection(t *testing.T) {
	first := asKeeper(t, "1m")
	s := openssh(t, nil)
	runtimeDir(t)
	s.write("known", s.line(s.host))
	to := s.target()
	to.ConnectTimeout = time.Minute
	if _, _, err := s.shell(first, to, "true"); err != nil {
		t.Fatal(err)
	}
	s.signalConnections(syscall.SIGSTOP)
	time.AfterFunc(openPatience+time.Second, func() { s.signalConnections(syscall.SIGCONT) })
	if _, _, err := s.shell(first.later(), to, "true"); err != nil || s.logins() != 1 {
		t.Errorf("%v, %d logins", err, s.logins())
	}
	for range 2 { // the first one makes it
		d, to := &Dialer{Keeping: first}, s.target()
		c, err := d.connect(t.Context(), to)
		if err != nil {
			t.Fatal(err)
		}
		saved := (&Session{conn: c}).Saved()
		if again := s.logins() == 2 && first.kept[c.kept.kept.Key].kept.Made == saved; again != (saved > 0) {
			t.Errorf("it took an earlier command %s", saved)
		}
		c.close()
	}
}

// TestDisconnectEndsAKeeperThatDoesNotAnswer: later commands do not wait for it, and it ends when it notices that it has no socket.
func TestDisconnectEndsAKeeperThatDoesNotAnswer(t *testing.T) {
	dir := filepath.Join(runtimeDir(t), "fabricform-keep")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	silent(t, dir)
	if _, err := Disconnect(t.Context()); err == nil || !strings.Contains(err.Error(), "it does not answer, and ends when it runs again") {
		t.Error(err)
	}
	if ended, err := Disconnect(t.Context()); err != nil || len(ended) > 0 || sockets(t) != 0 {
		t.Errorf("%v, %v, %d sockets", ended, err, sockets(t))
	}
}

// TestAKeptConnectionIsNotUsedAfterAChange of the host's key in known_hosts, or of the key to log in with.
func TestAKeptConnectionIsNotUsedAfterAChange(t *testing.T) {
	first := asKeeper(t, "1m")
	s := openssh(t, nil)
	runtimeDir(t)
	s.write("known", s.line(s.host))
	if _, _, err := s.shell(first, s.target(), "true"); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keeping{first.later(), asLater(first)} { // logs in itself, or by its keeper
		s.write("known", s.line(s.other))
		_, _, err := s.shell(k, s.target(), "true")
		if err == nil || !strings.Contains(err.Error(), "changed") || !strings.Contains(err.Error(), "nothing was sent") {
			t.Errorf("another host key: %v", err)
		}
	}
	s.write("known", s.line(s.host)+"@revoked * "+string(ssh.MarshalAuthorizedKey(s.host)))
	if _, _, err := s.shell(first.later(), s.target(), "true"); err == nil || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked host key: %v", err)
	}
	s.write("known", s.line(s.host))
	was, err := os.ReadFile(s.path("id"))
	if err != nil {
		t.Fatal(err)
	}
	key(t, s.path("id"))
	if _, _, err := s.shell(first.later(), s.target(), "true"); err == nil || !strings.Contains(err.Error(), "none of our keys") {
		t.Errorf("another key to log in with: %v", err)
	}
	s.write("id", string(was))
	if _, _, err := s.shell(first.later(), s.target(), "true"); err != nil || s.logins() != 1 {
		t.Errorf("as it was: %v, %d logins", err, s.logins())
	}
}

// TestWithoutItsKeeperACommandLogsIn: neither a keeper that is gone, nor a connection that is, nor a folder that is not private fails the
// command, and it says why it logs in.
func TestWithoutItsKeeperACommandLogsIn(t *testing.T) {
	first := asKeeper(t, "1m")
	s := openssh(t, nil)
	dir := runtimeDir(t)
	s.write("known", s.line(s.host))
	putHelper(t, filepath.Join(s.path("home"), ".cache", "fabricform"), "home")
	s.write("home/.cache/fabricform/fabricform-"+first.Build, "#!/bin/sh\nprintf '\\0hello'\nexec cat\n")
	start := func(k *Keeping, logins int, reason string) {
		t.Helper()
		said := ""
		d := &Dialer{Keeping: k, Helper: brought{}, Progress: func(_, message string) { said += message }}
		stream, err := d.Start(t.Context(), s.target())
		if err != nil {
			t.Fatal(err)
		}
		_, err = stream.Write([]byte(" world"))
		r := bufio.NewReader(stream)
		_, noise := r.ReadString(0)
		var out [len("hello world")]byte
		if _, rerr := io.ReadFull(r, out[:]); err != nil || noise != nil || rerr != nil || string(out[:]) != "hello world" {
			t.Errorf("%q, %v, %v, %v", out, err, noise, rerr)
		}
		if of := stream.(*Session); !strings.Contains(s.line(s.host), of.HostKey()) || of.Dialled().String() != s.addr() {
			t.Errorf("the host key is %s, and the host was dialled at %s", of.HostKey(), of.Dialled())
		}
		if err := stream.Close(); err != nil {
			t.Error(err)
		}
		if got := s.logins(); got != logins || (reason == "") != (said == "") || !strings.Contains(said, reason) {
			t.Errorf("%d logins, want %d; said %q, want %q", got, logins, said, reason)
		}
	}
	start(first, 1, "")
	start(first.later(), 1, "")

	later := first.later()
	later.look.Do(func() { later.find(t.Context()) })
	if _, err := Disconnect(t.Context()); err != nil || len(later.kept) != 1 {
		t.Fatalf("%v, %v was kept", err, later.kept)
	}
	start(later, 2, "the kept connection failed")

	again := asLater(first)
	t.Cleanup(again.leave)
	start(again, 3, "")
	s.signalConnections(syscall.SIGKILL) // as a host that restarts does
	until(t, "the keeper notices", func() bool {
		k := first.later()
		k.find(t.Context())
		return len(k.kept) == 0
	})
	start(first.later(), 4, "")

	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	start(asLater(first), 5, "the connection cannot be kept: XDG_RUNTIME_DIR")
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestWhatAConnectionIsMadeFromIdentifiesIt: with any of it changed, another login is made.
func TestWhatAConnectionIsMadeFromIdentifiesIt(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("HOME", dir)
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	t.Setenv("HTTPS_PROXY", "")
	id := filepath.Join(dir, "id")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(id, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	writePublic := func(text string) {
		t.Helper()
		if err := os.WriteFile(id+".pub", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type input struct {
		Keeping
		hops []hop
	}
	key := func(change func(*input)) string {
		t.Helper()
		write("a key")
		_ = os.Remove(id + ".pub")
		in := &input{Keeping: Keeping{Build: "b", files: map[string]string{}}, hops: []hop{
			{Target: Target{Name: "j", Address: "jump.example"}},
			{Target: Target{Name: "h", Address: "h.example", User: "ann", IdentityFile: id, ConnectTimeout: time.Second},
				Conf: map[string][]string{"user": {"bob"}, "ciphers": {"aes"}, "proxycommand": {"nc %h %p"}}, Hostname: "10.0.0.1"}}}
		if change != nil {
			change(in)
		}
		var way []resolved
		for _, h := range in.hops {
			r, err := new(Dialer).fill(h)
			if err != nil {
				t.Fatal(err)
			}
			way = append(way, r)
		}
		got, err := in.key(way)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	seen := map[string]string{key(nil): "no change"}
	if again := key(nil); seen[again] == "" {
		t.Error("the same input has two keys")
	}
	sameLogin := key(func(in *input) { // these differ between hosts that share an answer of ssh -G
		in.hops[1].Conf["host"], in.hops[1].Conf["hostname"], in.hops[1].Conf["controlpath"] = []string{"x"}, []string{"x"}, []string{"x"}
	})
	if seen[sameLogin] == "" {
		t.Error("what differs between hosts that share an answer changes the key")
	}
	sudo := true
	for what, change := range map[string]func(*input){
		"build":           func(in *input) { in.Build = "c" },
		"network":         func(in *input) { in.Network = "lab" },
		"identity":        func(*input) { write("another key") },
		"public key":      func(*input) { writePublic("a public key") },
		"identity gone":   func(*input) { _ = os.Remove(id) },
		"address":         func(in *input) { in.hops[1].Target.Address = "h2.example" },
		"name":            func(in *input) { in.hops[1].Target.Name = "h2" },
		"via":             func(in *input) { in.hops[1].Target.Via = "10.0.0.9" },
		"user":            func(in *input) { in.hops[1].Target.User = "eve" },
		"port":            func(in *input) { in.hops[1].Target.Port = 2222 },
		"identity file":   func(in *input) { in.hops[1].Target.IdentityFile = id + "2" },
		"known_hosts":     func(in *input) { in.hops[1].Target.KnownHosts = "/known" },
		"sudo":            func(in *input) { in.hops[1].Target.Sudo = &sudo },
		"connect_timeout": func(in *input) { in.hops[1].Target.ConnectTimeout++ },
		"hostname":        func(in *input) { in.hops[1].Hostname = "10.0.0.2" },
		"ssh config":      func(in *input) { in.hops[1].Conf["ciphers"] = []string{"chacha"} },
		"proxy command":   func(in *input) { in.hops[1].Conf["proxycommand"] = []string{"nc -4 %h %p"} },
		"jump host":       func(in *input) { in.hops[0].Target.Address = "jump2.example" },
		"no jump host":    func(in *input) { in.hops = in.hops[1:] },
		"agent":           func(*input) { t.Setenv("SSH_AUTH_SOCK", "/run/agent2") },
		"shell":           func(*input) { t.Setenv("SSH_AUTH_SOCK", "/run/agent"); t.Setenv("SHELL", "/bin/other") },
		"path":            func(*input) { t.Setenv("PATH", "/elsewhere") },
		"a variable":      func(*input) { t.Setenv("HTTPS_PROXY", "proxy.example:3128") },
		"home":            func(*input) { t.Setenv("HOME", "/elsewhere") },
	} {
		t.Run(what, func(t *testing.T) {
			for _, name := range []string{"SSH_AUTH_SOCK", "SHELL", "PATH", "HOME", "HTTPS_PROXY"} {
				t.Setenv(name, os.Getenv(name))
			}
			got := key(change)
			if seen[got] != "" {
				t.Errorf("the same key as with: %s", seen[got])
			}
			seen[got] = what
		})
	}
}

// TestAFolderThatOthersCanUseHoldsNoSockets, and the refusal says what to do.
func TestAFolderThatOthersCanUseHoldsNoSockets(t *testing.T) {
	const inner = "/fabricform-keep"
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string) error
		want string
	}{
		"as it should be": {func(*testing.T, string) error { return nil }, ""},
		"readable":        {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o755) }, ""},
		"no variable": {func(t *testing.T, _ string) error { t.Setenv("XDG_RUNTIME_DIR", ""); return nil },
			"XDG_RUNTIME_DIR is not set to an absolute path: set it to a folder of your own with mode 0700"},
		"a relative path": {func(t *testing.T, _ string) error { t.Setenv("XDG_RUNTIME_DIR", "run"); return nil },
			"XDG_RUNTIME_DIR is not set to an absolute path"},
		"missing": {func(_ *testing.T, dir string) error { return os.Remove(dir) },
			"no such file or directory: set it to a folder of your own"},
		"a file": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Remove(dir), os.WriteFile(dir, nil, 0o600))
		},
			"is not a folder"},
		"group may write": {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o770) },
			"has mode 0770, which lets other users in"},
		"others may write": {func(_ *testing.T, dir string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) },
			"which lets other users in"},
		"another user's": {func(_ *testing.T, dir string) error { return os.Chown(dir, 12345, 0) },
			"belongs to user ID 12345, not to you"},
		"inner folder is readable": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Mkdir(dir+inner, 0o700), os.Chmod(dir+inner, 0o750))
		}, inner + " has mode 0750, which lets other users in: remove it"},
		"inner folder is another user's": {func(_ *testing.T, dir string) error {
			return errors.Join(os.Mkdir(dir+inner, 0o700), os.Chown(dir+inner, 12345, 0))
		}, inner + " belongs to user ID 12345"},
		"inner folder is a link": {func(t *testing.T, dir string) error { return os.Symlink(t.TempDir(), dir+inner) },
			inner + " is not a folder"},
		"a long path": {func(t *testing.T, dir string) error {
			long := dir + "/" + strings.Repeat("x", 90)
			t.Setenv("XDG_RUNTIME_DIR", long)
			return os.Mkdir(long, 0o700)
		}, "too long for a socket"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := c.make(t, runtimeDir(t)); errors.Is(err, fs.ErrPermission) {
				t.Skip("only root can give a folder to another user")
			} else if err != nil {
				t.Fatal(err)
			}
			err := CanKeep()
			if c.want == "" && err == nil {
				return
			}
			if err == nil || c.want == "" || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if _, err := (&Keeping{For: time.Minute, Build: "b", Program: []string{"-test.run=^$"}}).startKeeper(); err == nil {
				t.Error("a keeper was started")
			}
			if all, err := keepers(); err == nil || len(all) > 0 {
				t.Errorf("%v, %v", all, err)
			}
		})
	}
}

// FuzzFrames: whatever a process at the other end of a socket sends, both sides decode it within limits and do not panic.
func FuzzFrames(f *testing.F) {
	frame := func(kind byte, text string) string {
		return string(append([]byte{kind, 0, 0, byte(len(text) >> 8), byte(len(text))}, text...))
	}
	exit, _ := json.Marshal(channelRequest{Type: "exit-status", Payload: []byte{0, 0, 0, 3}})
	f.Add([]byte(frame(frameData, "out") + frame(frameErrors, "err") + frame(frameRequest, string(exit)) + frame(frameEnd, "")))
	f.Add([]byte(frame(frameRequest, `{"Type":"exit-signal","Payload":"AAAA"}`) + frame(frameReply, "\x01")))
	f.Add([]byte(frame(frameJSON, `{"Do":"list"}`)))
	f.Add([]byte(frame(frameJSON, `{"Do":"open","Key":"x"}`) + frame(frameData, "x")))
	f.Add([]byte{frameJSON, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, raw []byte) {
		k := &keeper{ending: true, kept: map[string]*keptConnection{}, changed: make(chan struct{}, 1)} // logs in nowhere
		sends(t, raw, k.serve)
		sends(t, raw, func(s *socket) {
			ch := newRelayedChannel(newRelayed(place{}, ""), s)
			var all sync.WaitGroup
			all.Go(func() { ssh.DiscardRequests(ch.requests) })
			all.Go(func() { _, _ = io.Copy(io.Discard, ch.Stderr()) })
			all.Go(func() { _, _ = ch.SendRequest("exec", true, nil) })
			all.Go(func() { _, _ = io.Copy(io.Discard, ch) })
			ch.read()
			all.Wait()
		})
	})
}

// sends gives one end of a socket to read, while the other end sends bytes and then nothing more.
func sends(t *testing.T, raw []byte, read func(*socket)) {
	t.Helper()
	near, far := pair(t)
	var other sync.WaitGroup
	other.Go(func() {
		_, _ = far.Write(raw)
		_ = far.CloseWrite()
	})
	other.Go(func() { _, _ = io.Copy(io.Discard, far) })
	read(near)
	_ = near.Close()
	other.Wait()
	_ = far.Close()
}

// pair returns both ends of a socket.
func pair(t *testing.T) (a, b *socket) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(t.TempDir(), "s"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.DialUnix("unix", nil, l.Addr().(*net.UnixAddr))
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.AcceptUnix()
	if err != nil {
		t.Fatal(err)
	}
	return newSocket(c), newSocket(other)
}
