package probe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/host/process"
	"github.com/fabricform/fabricform/retry"
)

const (
	// loginsAtOnce is how many logins a host makes at once. Each host begins with another peer, so a peer gets about as many: fewer
	// than the 10 of sshd's default MaxStartups, from which on it drops connections.
	loginsAtOnce = 6
	// connectPatience is for the connection, in seconds; loginPatience for the whole login.
	connectPatience = "10"
	loginPatience   = 30 * time.Second
	// closedPause is the time before the one repetition of a login whose connection was closed, as a busy sshd does.
	closedPause = 2 * time.Second
)

// LoginUser is the user of a login mesh.
type LoginUser struct {
	Name, Shell string
	UID         int
}

// loginOptions make ssh ask nothing, change no file of the user, and keep no connection. The key and the host keys come from the
// configuration, as for the user; an agent or a forwarded key is not used.
var loginOptions = []string{"-n", "-T", "-x", "-a", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o",
	"UpdateHostKeys=no", "-o", "IdentityAgent=none",
	"-o", "ControlMaster=no", "-o", "ControlPath=none", "-o", "PermitLocalCommand=no", "-o",
	"ClearAllForwardings=yes", "-o", "LogLevel=ERROR",
	"-o", "ConnectTimeout=" + connectPatience, "-o", "ConnectionAttempts=1", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"}

// Logins logs in to the peers as the user, several at once, in their order.
func Logins(ctx context.Context, user LoginUser, s LoginSpec) []LoginResult {
	ctx, cancel := context.WithTimeout(ctx, LoginsLimit)
	defer cancel()
	out, places := make([]LoginResult, len(s.Peers)), make(chan struct{}, loginsAtOnce)
	done := make(chan struct{})
	for i, p := range s.Peers {
		places <- struct{}{}
		go func() {
			out[i] = login(ctx, user, s.Key, p)
			<-places
			done <- struct{}{}
		}()
	}
	for range s.Peers {
		<-done
	}
	return out
}

// login logs in to one peer, once more if the connection was closed.
func login(ctx context.Context, user LoginUser, key string, p LoginPeer) LoginResult {
	ctx, cancel := context.WithTimeout(ctx, loginPatience)
	defer cancel()
	r := loginOnce(ctx, user, key, p)
	if r.State == LoginClosed && retry.Pause(ctx, closedPause) == nil {
		r = loginOnce(ctx, user, key, p)
	}
	return r
}

// program returns a program that runs as the user, whose files may say what ssh runs (Match exec of ssh_config(5)). runuser(1) opens
// a PAM session, for the user's own limits. Nothing that the program starts stays.
func (u LoginUser) program(path string, args ...string) process.Program {
	return process.Program{Name: "runuser",
		Args:      slices.Concat([]string{"--user=" + u.Name, "--", "/usr/bin/env", "SHELL=" + cmp.Or(u.Shell, "/bin/sh"), path}, args),
		MaxOutput: 16 << 10, Family: GoneWithin, FamilyUID: u.UID}
}

func loginOnce(ctx context.Context, user LoginUser, key string, p LoginPeer) LoginResult {
	path, err := process.FindProgram("ssh")
	if err != nil {
		return LoginResult{State: LoginNoClient}
	}
	e := user.program(path, slices.Concat(loginOptions, []string{"-G", "--", p.Name})...).Start(ctx)()
	switch {
	case e.Missing:
		return LoginResult{LoginOtherFailure, "this host has no runuser, which starts programs as another user: install util-linux"}
	case e.Cause != nil:
		return LoginResult{State: LoginTimedOut}
	case e.Exit != 0:
		return LoginResult{LoginOtherFailure, Excerpt(string(e.Stderr))}
	}
	at, known, r := configuredAddress(string(e.Stdout), user.Name, key, p)
	if r.State != "" {
		return r
	}
	token := "fabricform-" + rand.Text()
	args := slices.Concat(loginOptions, fixedOptions(user.Name, p, at, known), []string{"--", p.Name, "echo " + token})
	return loginEnd(user.program(path, args...).Start(ctx)(), token)
}

// fixedOptions fix what was checked, so that ssh does just this, whatever the configuration says by now. Releases before 8.7 do not
// know all of them.
func fixedOptions(user string, p LoginPeer, at netip.Addr, known string) []string {
	return []string{"-o", "IgnoreUnknown=*", "-o", "HostName=" + at.String(), "-o", "Port=" + p.port(), "-l",
		user, "-o", "ProxyCommand=none",
		"-o", "GlobalKnownHostsFile=" + known, "-o", "UserKnownHostsFile=/dev/null", "-o", "KnownHostsCommand=none",
		"-o", "VerifyHostKeyDNS=no",
		"-o", "ForkAfterAuthentication=no", "-o", "SessionType=default"}
}

func (p LoginPeer) port() string { return strconv.Itoa(cmp.Or(p.Port, 22)) }

// configuredAddress returns the address to which ssh would go and the files with the host keys that it would trust beside the user's own,
// from the output of ssh -G. A result with a state says why it must not.
func configuredAddress(config, user, key string, p LoginPeer) (at netip.Addr, known string, r LoginResult) {
	hasKey, port := false, ""
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch name {
		case "hostname":
			at, _ = netip.ParseAddr(value)
			r.Said = Excerpt(value)
		case "identityfile":
			hasKey = hasKey || path.Base(value) == key
		case "proxycommand", "proxyjump":
			if value != "none" {
				return at, "", LoginResult{LoginRedirected, Excerpt(value)}
			}
		case "user":
			if value != user {
				return at, "", LoginResult{LoginRedirected, Excerpt(line)}
			}
		case "port":
			port = value
		case "globalknownhostsfile":
			for _, file := range strings.Fields(value) {
				if path.Dir(file) != "/etc/ssh" { // where only root writes
					return at, "", LoginResult{LoginRedirected, Excerpt(line)}
				}
			}
			known = value
		}
	}
	switch {
	case !slices.Contains(p.Addrs, at) && r.Said != p.Name:
		return at, "", LoginResult{LoginRedirected, r.Said}
	case !slices.Contains(p.Addrs, at) || !hasKey: // the user's own configuration does not name the peer either
		return at, "", LoginResult{State: LoginNotSetUp}
	case port != p.port():
		return at, "", LoginResult{LoginRedirected, Excerpt("port " + port)}
	}
	return at, known, LoginResult{}
}

// sshSays are messages of OpenSSH's client and the states that they mean, the most certain ones first. They are the same in the
// releases from 7.4 to 10.0: sshconnect.c, sshconnect2.c, packet.c, clientloop.c; and strerror(3) in the locale C.
var sshSays = []struct {
	text  string
	state LoginState
}{
	{"REMOTE HOST IDENTIFICATION HAS CHANGED", LoginHostChanged},
	{"host key is known for", LoginHostUnknown}, // "No ED25519 host key is known for … and you have requested strict checking."
	{"Host key verification failed", LoginHostUnknown},
	{"UNPROTECTED PRIVATE KEY FILE", LoginKeyMissing},
	{"Permission denied (", LoginKeyRefused},
	{"Too many authentication failures", LoginKeyRefused},
	{": Connection refused", LoginUnconnected},
	{": No route to host", LoginNoRoute},
	{": Network is unreachable", LoginNoRoute},
	{"timed out", LoginTimedOut},
	{"Timeout, server", LoginTimedOut},
	{"Connection closed by", LoginClosed},
	{"Connection reset by", LoginClosed},
	{"kex_exchange_identification:", LoginClosed},
}

// loginEnd says how ssh ended. Its exit status is 255 for errors of its own (ssh(1)). What the peer prints can at most make it look
// like another failure: only the peer's shell, in a session with the known host, prints the token.
func loginEnd(e process.Ended, token string) LoginResult {
	words := LoginResult{Said: Excerpt(string(e.Stderr))}
	switch before, _, in := bytes.Cut(e.Stdout, []byte(token)); {
	case in && len(bytes.TrimSpace(before)) > 0:
		return LoginResult{LoginPrints, Excerpt(string(before))}
	case in:
		return LoginResult{State: LoginWorks}
	case e.Cause != nil:
		words.State = LoginTimedOut
	case e.Exit != 255:
		return LoginResult{LoginNoShell, Excerpt(string(e.Stdout) + string(e.Stderr))}
	default:
		words.State = LoginOtherFailure
		for _, s := range sshSays {
			if bytes.Contains(e.Stderr, []byte(s.text)) {
				words.State = s.state
				break
			}
		}
	}
	return words
}

// Excerpt returns the end of what was printed.
func Excerpt(text string) string {
	text = strings.TrimSpace(text)
	return strings.ToValidUTF8(text[max(0, len(text)-MaxLoginSaid):], "?")
}

// Barriers returns what this host's own files say against logins of the user with this name; user is nil if there is none. Settings
// are those of the default sshd_config, as sshd itself evaluates it for this login.
func Barriers(ctx context.Context, name string, user *LoginUser, from netip.Addr) (out []LoginBarrier) {
	if user == nil {
		return []LoginBarrier{{What: "no user", Value: name}}
	}
	if base := path.Base(user.Shell); base == "nologin" || base == "false" {
		out = append(out, LoginBarrier{"shell", Excerpt(user.Shell)})
	}
	for _, file := range []string{"/run/nologin", "/etc/nologin"} { // nologin(5)
		if _, err := os.Stat(file); err == nil && user.UID != 0 {
			out = append(out, LoginBarrier{What: file})
		}
	}
	run := func(name string, args ...string) string {
		e := process.Program{Name: name, Args: args}.Start(ctx)()
		if e.Exit != 0 || e.Missing {
			return ""
		}
		return string(e.Stdout)
	}
	config := run("sshd", "-T", "-C", fmt.Sprintf("user=%s,host=%[2]s,addr=%[2]s", user.Name, from))
	out = append(out, refusingSettings(config, *user, strings.Fields(run("id", "-nG", user.Name)))...)
	shadow, _ := os.ReadFile("/etc/shadow")
	if lock := locked(string(shadow), config, user.Name); lock != nil && (len(out) == 0 || lock.What == lockedAccount) {
		out = append(out, *lock)
	}
	return out
}

const lockedAccount = "a locked account"

// locked returns the barrier of a password that begins with "!": sshd refuses even the keys of such an account unless it uses PAM
// (allowed_user in OpenSSH's auth.c). The sshd that runs may read another file than the default one, as that of a lab does, so PAM in
// config only weakens what is said. It returns nil for any other password.
func locked(shadow, config, user string) *LoginBarrier {
	for line := range strings.Lines(shadow) {
		if name, rest, _ := strings.Cut(line, ":"); name != user || !strings.HasPrefix(rest, "!") {
			continue
		}
		cure := "allow keys: usermod -p '*' " + user
		if config != "" && !strings.Contains("\n"+config, "\nusepam yes") {
			return &LoginBarrier{lockedAccount, `("!" in /etc/shadow, and sshd has UsePAM no); ` + cure}
		}
		return &LoginBarrier{"a locked password", `("!" in /etc/shadow), which refuses keys too if sshd has UsePAM no; ` + cure}
	}
	return nil
}

// refusingSettings returns the settings that refuse the user, from the output of sshd -T: names in lower case, and one value of a list on
// each line.
func refusingSettings(config string, user LoginUser, groups []string) (out []LoginBarrier) {
	all := map[string][]string{}
	for line := range strings.Lines(config) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		all[name] = append(all[name], value)
	}
	for _, setting := range []struct {
		name    string
		refuses func(values []string) bool
	}{
		{"PermitRootLogin", func(v []string) bool { return user.UID == 0 && (v[0] == "no" || v[0] == "forced-commands-only") }},
		{"PubkeyAuthentication", func(v []string) bool { return v[0] == "no" }},
		{"AllowUsers", func(v []string) bool { return !anyMatches(userParts(v), user.Name) }},
		{"DenyUsers", func(v []string) bool { return anyMatches(v, user.Name) }},
		{"AllowGroups", func(v []string) bool { return !anyMatches(v, groups...) }},
		{"DenyGroups", func(v []string) bool { return anyMatches(v, groups...) }},
		{"AuthenticationMethods", func(v []string) bool { return v[0] != "any" && !slices.Contains(strings.Fields(v[0]), "publickey") }},
		{"AuthorizedKeysFile", func(v []string) bool {
			return !slices.ContainsFunc(strings.Fields(v[0]),
				func(f string) bool { return strings.TrimPrefix(f, "%h/") == ".ssh/authorized_keys" })
		}},
	} {
		if v := all[strings.ToLower(setting.name)]; v != nil && setting.refuses(v) {
			out = append(out, LoginBarrier{setting.name, Excerpt(strings.Join(v, " "))})
		}
	}
	return out
}

// userParts returns the users of USER@HOST patterns: only sshd can tell whether the host matches.
func userParts(patterns []string) (out []string) {
	for _, p := range patterns {
		user, _, _ := strings.Cut(p, "@")
		out = append(out, user)
	}
	return out
}

func anyMatches(patterns []string, names ...string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return slices.ContainsFunc(names, func(name string) bool { is, _ := path.Match(pattern, name); return is })
	})
}
