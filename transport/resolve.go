package transport

import (
	"context"
	"errors"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// resolved is a target with all values filled in.
type resolved struct {
	Target
	asked          string   // the address before HostName of ssh_config
	identities     []string // key files in the order of use
	identitiesOnly bool     // of the agent's keys, only those of the key files are used
	identityAgent  string   // path of the agent's socket; "" if there is none
	knownHosts     []string
	revoking       []string // further known_hosts files, of which only @revoked lines count
	revoked        []string // RevokedHostKeys of ssh_config
	hostKeyAlias   string
	accepts        accepts
	keyName        string // name of the host in known_hosts, if Address is Via
	proxyCommand   string // as ssh_config(5) has it, with its tokens; "" if there is none
	read           *readOnce
	from           hop // what it was resolved from
}

// hop is a target, or a jump host on the way to it, and what ssh's configuration says about it. Files and the environment supply
// the rest.
type hop struct {
	Target   Target
	Conf     map[string][]string // what `ssh -G` answered; nil if it was not asked
	Hostname string              // the host's name by HostName; "" if ssh was not asked
}

// defaultKeys are OpenSSH's default key files, in its order.
var defaultKeys = []string{"~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"}

func (d *Dialer) resolve(ctx context.Context, t Target) (resolved, error) {
	if err := t.check(); err != nil {
		return resolved{}, err
	}
	h := hop{Target: t}
	if d.SSHConfig {
		var err error
		if h.Conf, h.Hostname, err = d.config.ask(ctx, t); err != nil {
			return resolved{}, &Error{Host: t.Name, Op: "read ssh configuration", Err: err}
		}
	}
	return d.fill(h)
}

// fill fills in all values of a target.
func (d *Dialer) fill(h hop) (resolved, error) {
	t, conf := h.Target, h.Conf
	r := resolved{Target: t, asked: t.Address, read: &d.read, identityAgent: os.Getenv("SSH_AUTH_SOCK"), from: h}
	r.Address = firstOf(h.Hostname, t.Address)
	one := func(key string) string {
		if v := conf[key]; len(v) > 0 && v[0] != "none" {
			return v[0]
		}
		return ""
	}
	r.User = firstOf(t.User, one("user"), currentUser())
	r.ProxyJump = firstOf(t.ProxyJump, one("proxyjump"))
	r.hostKeyAlias = one("hostkeyalias")
	if v := one("proxycommand"); r.ProxyJump == "" && !strings.EqualFold(v, "none") {
		r.proxyCommand = v
	}
	if r.proxyCommand == "-" || r.proxyCommand != "" && one("proxyusefdpass") == "yes" {
		return r, &Error{Host: t.Name, Op: "read ssh configuration", Err: errors.New("ProxyUseFdpass and `ProxyCommand -` are not supported"),
			Hint: "use ProxyJump, or a ProxyCommand that copies its input and output to the SSH server"}
	}
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
	own, global := strings.Fields(one("userknownhostsfile")), strings.Fields(one("globalknownhostsfile"))
	if len(own)+len(global) == 0 {
		own, global = []string{"~/.ssh/known_hosts"}, []string{"/etc/ssh/ssh_known_hosts"}
	}
	if r.knownHosts = slices.Concat(own, global); t.KnownHosts != "" {
		r.knownHosts, r.revoking = []string{t.KnownHosts}, global
	}
	r.identitiesOnly = one("identitiesonly") == "yes"
	r.revoked = strings.Fields(one("revokedhostkeys"))
	list := func(key string) []string {
		if v := one(key); v != "" {
			return strings.Split(v, ",")
		}
		return nil
	}
	r.accepts = accepts{hostKeys: list("hostkeyalgorithms"), authorities: list("casignaturealgorithms"),
		exchanges: list("kexalgorithms"), ciphers: list("ciphers"), macs: list("macs")}
	r.accepts.rsaBits, _ = strconv.Atoi(one("requiredrsasize")) // 0 before OpenSSH 9.1
	if r.ConnectTimeout <= 0 {
		r.ConnectTimeout = 10 * time.Second
	}
	if t.Via != "" { // the host is the same, so it must show the key that is known for Address
		r.keyName, r.Address = r.Address, t.Via
	}
	return r, r.check()
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
