package transport

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
)

// TestStartupFilesThatPrintOrTakeLongAreNamed: nobody else would find what every login to a host pays for.
func TestStartupFilesThatPrintOrTakeLongAreNamed(t *testing.T) {
	for _, c := range []struct {
		name, out, errs string
		took, login     time.Duration
		warned          []string // parts of each warning
	}{
		{name: "as it should be", out: shellRan + " bash\n\x00", errs: shellRan + "\n"},
		{name: "slow", out: shellRan + " bash\n\x00", took: 3 * time.Second, warned: []string{"a login takes more than 1s"}},
		{name: "a slow host", out: shellRan + " bash\n\x00", took: 3 * time.Second, login: time.Minute},
		{name: "it prints", out: "Welcome\n" + shellRan + " bash\n\x00", warned: []string{`prints "Welcome"`}},
		{name: "it prints errors, slowly", out: shellRan + " bash\n\x00", errs: "stty: not a terminal\n" + shellRan + "\nsudo: hello", took: 2 * time.Second,
			warned: []string{"more than 1s", `prints "stty: not a terminal" before`}},
		{name: "only what the script ran prints", out: shellRan + " bash\n\x00", errs: shellRan + "\nsudo: hello"},
		{name: "the helper is missing", out: "Hi " + shellRan + " bash\n" + missing + " x\n\x00", warned: []string{`prints "Hi"`}},
	} {
		var warned []string
		d := &Dialer{Warn: func(host, message string) { warned = append(warned, host+": "+message) }}
		s := &Session{host: "h", out: strings.NewReader(c.out), began: time.Now().Add(-c.took), deadline: time.NewTimer(time.Hour)}
		fmt.Fprint(&s.errs, c.errs)
		if where, err := s.awaitGreeting(); where != nil || err != nil {
			t.Fatal(where, err)
		}
		d.startup(&connection{login: c.login}, s)
		ok := len(warned) == len(c.warned)
		for i := range min(len(warned), len(c.warned)) {
			ok = ok && strings.Contains(warned[i], c.warned[i]) && strings.Contains(warned[i], "startup files of bash (~/.bashrc, /etc/bash.bashrc)")
		}
		if !ok {
			t.Errorf("%s: %q", c.name, warned)
		}
	}
}

// TestALoginShellThatWaitsIsToldApart: its host looks as if it had hung.
func TestALoginShellThatWaitsIsToldApart(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "")
	s := openssh(t, nil)
	s.write("known", s.line(s.host))
	patience := startPatience
	startPatience = 2 * time.Second
	t.Cleanup(func() { startPatience = patience })
	target := Target{Name: "h", Address: "127.0.0.1", Port: s.port, User: currentUser(), IdentityFile: s.path("id"), KnownHosts: s.path("known"), ConnectTimeout: 5 * time.Second}
	c, err := new(Dialer).connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	session, err := c.run(t.Context(), "h", "sleep 5")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.awaitGreeting(); err == nil || !strings.Contains(err.Error(), "the login shell ran no command within 2s; something in the startup files waits: check the startup files") {
		t.Error(err)
	}
}

// TestAHostThatStartsNoCommandIsNotWaitedForLongerThanOthers, although it answers keepalives.
func TestAHostThatStartsNoCommandIsNotWaitedForLongerThanOthers(t *testing.T) {
	patience := startPatience
	startPatience = 200 * time.Millisecond
	t.Cleanup(func() { startPatience = patience })
	for what, opens := range map[string]bool{"no session": false, "a session": true} {
		near, far := pair(t)
		_, private, err := ed25519.GenerateKey(nil)
		if err != nil {
			t.Fatal(err)
		}
		hostKey, err := ssh.NewSignerFromSigner(private)
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with the connection
			config := &ssh.ServerConfig{NoClientAuth: true}
			config.AddHostKey(hostKey)
			_, channels, requests, err := ssh.NewServerConn(far.UnixConn, config)
			if err != nil {
				t.Error(err)
				return
			}
			go ssh.DiscardRequests(requests)
			for c := range channels {
				if opens {
					_, _, _ = c.Accept()
				}
			}
		}()
		sc, channels, requests, err := ssh.NewClientConn(near.UnixConn, "h", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(hostKey.PublicKey())})
		if err != nil {
			t.Fatal(err)
		}
		c := &connection{client: ssh.NewClient(sc, channels, requests), ended: make(chan struct{})}
		if _, err := c.run(t.Context(), "h", "true"); err == nil || !strings.Contains(err.Error(), "sshd started no command within 200ms; the host may be overloaded") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestTestsRunNoStartupFilesOfTheirOwner: a bench of logins would measure them.
func TestTestsRunNoStartupFilesOfTheirOwner(t *testing.T) {
	s, c := loggedIn(t)
	if home, err := c.output("echo $HOME"); err != nil || strings.TrimSpace(home) != s.path("home") {
		t.Errorf("a login's home is %q, %v; the test's is %s", home, err, os.Getenv("HOME"))
	}
}

// TestAKilledHelperIsTold: nothing else says why it is gone.
func TestAKilledHelperIsTold(t *testing.T) {
	for command, hint := range map[string]string{"kill -KILL $$": "Out of memory", "echo no >&2; kill -KILL $$": "Out of memory", "kill -TERM $$": "", "exit 137": ""} {
		_, c := loggedIn(t)
		s, err := c.run(t.Context(), "h", command)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.awaitGreeting()
		var e *Error
		if !errors.As(err, &e) || (hint == "") != (e.Hint == "") || !strings.Contains(e.Hint, hint) {
			t.Errorf("%s: %v", command, err)
		}
	}
}

// TestSudoThatRefusesPointsToTheRuleOfTheHelper: the section exists, and a rule that allows every command is not advised.
func TestSudoThatRefusesPointsToTheRuleOfTheHelper(t *testing.T) {
	page, err := os.ReadFile("../docs/questions.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"sudo: a password is required", "sudo: a terminal is required to read the password",
		"deploy is not in the sudoers file.", "Sorry, user deploy is not allowed to execute", "Sorry, user deploy may not run sudo on h."} {
		s := &Session{host: "h", conn: &connection{user: "deploy"}, exit: io.EOF}
		fmt.Fprint(&s.errs, shellRan+"\n"+said)
		var e *Error
		if !errors.As(s.whyEnded(), &e) || strings.Contains(e.Hint, "ALL") || !strings.Contains(e.Hint, "let deploy run the helper") {
			t.Fatalf("%s: %v", said, e)
		}
		_, section, _ := strings.Cut(e.Hint, `"`)
		section, _, _ = strings.Cut(section, `"`)
		if !strings.Contains(string(page), "\n## "+section+"\n") {
			t.Errorf("docs/questions.md has no section %q", section)
		}
	}
}
