package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// resolved is a target with all values filled in.
type resolved struct {
	Target
	identities    []string // key files in the order of use
	identityAgent string   // path of the agent's socket; "" if there is none
	knownHosts    []string
	hostKeyAlias  string
	parsed        *knownFiles
}

// defaultKeys are OpenSSH's default key files, in its order.
var defaultKeys = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}

func (d *Dialer) resolve(ctx context.Context, t Target) (resolved, error) {
	if err := t.check(); err != nil {
		return resolved{}, err
	}
	r := resolved{Target: t, parsed: &d.known, identityAgent: os.Getenv("SSH_AUTH_SOCK")}
	conf := map[string][]string{}
	if d.SSHConfig {
		var err error
		if conf, err = askSSH(ctx, t); err != nil {
			return r, &Error{Host: t.Name, Op: "read ssh configuration", Err: err}
		}
	}
	one := func(key string) string {
		if v := conf[key]; len(v) > 0 && v[0] != "none" {
			return v[0]
		}
		return ""
	}
	if v := one("proxycommand"); v != "" {
		return r, &Error{Host: t.Name, Op: "read ssh configuration", Err: errors.New("ProxyCommand is set for this host, but is not supported"), Hint: "use ProxyJump"}
	}
	if v := one("hostname"); v != "" {
		r.Address = v
	}
	r.User = firstOf(t.User, one("user"), currentUser())
	r.ProxyJump = firstOf(t.ProxyJump, one("proxyjump"))
	r.hostKeyAlias = one("hostkeyalias")
	if r.Port == 0 {
		r.Port, _ = strconv.Atoi(firstOf(one("port"), "22")) // ssh has checked it
	}
	if v := one("identityagent"); v != "" && v != "SSH_AUTH_SOCK" {
		r.identityAgent = v
	}
	r.identities = conf["identityfile"]
	if t.IdentityFile != "" {
		r.identities = []string{t.IdentityFile}
	} else if len(r.identities) == 0 {
		r.identities = defaultKeys
	}
	r.knownHosts = append(strings.Fields(one("userknownhostsfile")), strings.Fields(one("globalknownhostsfile"))...)
	if t.KnownHosts != "" {
		r.knownHosts = []string{t.KnownHosts}
	} else if len(r.knownHosts) == 0 {
		r.knownHosts = []string{"~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"}
	}
	if r.ConnectTimeout <= 0 {
		r.ConnectTimeout = 10 * time.Second
	}
	if t.Via != "" { // the host is the same, so it must show the key that is known for Address
		r.hostKeyAlias, r.Address = firstOf(r.hostKeyAlias, r.Address), t.Via
	}
	return r, r.check()
}

// askSSH lets OpenSSH read its own configuration, because no library supports all of it. Without an ssh
// program the configuration is ignored.
func askSSH(ctx context.Context, t Target) (map[string][]string, error) {
	path, err := exec.LookPath("ssh")
	if errors.Is(err, exec.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find ssh: %w", err)
	}
	args := []string{"-G"}
	if t.User != "" {
		args = append(args, "-l", t.User)
	}
	var errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append(args, "--", t.Address)...)
	cmd.Stderr, cmd.WaitDelay = &errs, time.Second // a program of `Match exec` may survive ssh and keep the output open
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ssh -G: %w: %s", err, neutral(errs.String()))
	}
	return parseSSHG(out), nil
}

// parseSSHG parses lines of the form "key value". Keys may repeat.
func parseSSHG(out []byte) map[string][]string {
	conf := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok {
			conf[key] = append(conf[key], value)
		}
	}
	return conf
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

func currentUser() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}

// home expands a leading ~/ as ssh does.
func home(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if dir, err := os.UserHomeDir(); err == nil {
			return filepath.Join(dir, rest)
		}
	}
	return path
}

// neutral limits the length of a text from a host and replaces its control characters.
func neutral(s string) string {
	s = strings.TrimSpace(s)
	if len(s) > 2000 {
		s = s[len(s)-2000:]
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' {
			return ' '
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}
