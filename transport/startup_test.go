package transport

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
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
		s := &Session{host: "h", out: strings.NewReader(c.out), began: time.Now().Add(-c.took)}
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
	startPatience = 300 * time.Millisecond
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
	if _, err := session.awaitGreeting(); err == nil || !strings.Contains(err.Error(), "the login shell ran no command within 300ms; something in the startup files waits: check the startup files") {
		t.Error(err)
	}
}

// TestTestsRunNoStartupFilesOfTheirOwner: a bench of logins would measure them.
func TestTestsRunNoStartupFilesOfTheirOwner(t *testing.T) {
	s, c := loggedIn(t)
	if home, err := c.output("echo $HOME"); err != nil || strings.TrimSpace(home) != s.path("home") {
		t.Errorf("a login's home is %q, %v; the test's is %s", home, err, os.Getenv("HOME"))
	}
}
