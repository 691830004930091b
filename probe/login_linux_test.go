package probe

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fabricform/fabricform/host/process"
)

var peerB = LoginPeer{Name: "b", Addrs: []netip.Addr{netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::2")}}

// TestSSHGoesToAnAddressOfTheFabricOnly: whatever the user's configuration says, and only with the key of the mesh, as the user, and
// with the host keys that root knows.
func TestSSHGoesToAnAddressOfTheFabricOnly(t *testing.T) {
	const key, known = "identityfile ~/.ssh/fabricform_train\n", "/etc/ssh/ssh_known_hosts /etc/ssh/fabricform-lab-train@ann.known_hosts"
	const rest = "user ann\nport 22\nglobalknownhostsfile " + known + "\n"
	for config, want := range map[string]LoginState{
		rest + "hostname 10.0.0.2\nidentityfile ~/.ssh/id\n" + key:       "",
		rest + "hostname fd00::2\nproxycommand none\n" + key:             "",
		rest + "hostname 10.0.0.2\nidentityfile ~/.ssh/id_rsa\n":         LoginNotSetUp,
		rest + "hostname b\n" + key:                                      LoginNotSetUp,
		"":                                                               LoginRedirected,
		rest + "hostname 192.0.2.1\n" + key:                              LoginRedirected,
		rest + "hostname evil.example\n" + key:                           LoginRedirected,
		rest + "hostname 10.0.0.2\n" + key + "proxycommand nc evil 22\n": LoginRedirected,
		rest + "hostname 10.0.0.2\nproxyjump evil\n" + key:               LoginRedirected,
		rest + "hostname 10.0.0.2%x\n" + key:                             LoginRedirected,
		"user bob\nport 22\nhostname 10.0.0.2\n" + key:                   LoginRedirected,
		"user ann\nport 2222\nhostname 10.0.0.2\n" + key:                 LoginRedirected,
		"user ann\nport 22\nglobalknownhostsfile /etc/ssh/ssh_known_hosts /tmp/x\nhostname 10.0.0.2\n" + key: LoginRedirected,
		"user ann\nport 22\nglobalknownhostsfile /etc/ssh/../../tmp\nhostname 10.0.0.2\n" + key:              LoginRedirected,
	} {
		at, files, r := configuredAddress(config, "ann", "fabricform_train", peerB)
		if r.State != want || want == "" && (at != peerB.Addrs[0] && at != peerB.Addrs[1] || files != known) {
			t.Errorf("%q: %s %q %+v", config, at, files, r)
		}
	}
	other := peerB
	other.Port = 2222
	if _, _, r := configuredAddress("user ann\nport 2222\nhostname 10.0.0.2\n"+key, "ann", "fabricform_train", other); r.State != "" {
		t.Errorf("the peer's own port: %+v", r)
	}
	other = LoginPeer{Name: "10.0.0.2", Addrs: peerB.Addrs[:1]}
	if _, _, r := configuredAddress(rest+"hostname 10.0.0.2\n"+key, "ann", "fabricform_train", other); r.State != "" {
		t.Errorf("a peer that is named by its address: %+v", r)
	}
}

// TestTheEndOfSSHIsClassified: the messages are those of OpenSSH 9.2.
func TestTheEndOfSSHIsClassified(t *testing.T) {
	const token = "fabricform-TOKEN"
	for _, c := range []struct {
		exit           int
		stdout, stderr string
		want           LoginState
		said           string
	}{
		{0, token + "\n", "", LoginWorks, ""},
		{0, token + "\n", "a warning\n", LoginWorks, ""},
		{0, "Welcome!\n" + token + "\n", "", LoginPrints, "Welcome!"},
		{1, "This account is currently not available.\n", "", LoginNoShell, "This account is currently not available."},
		{1, "", "", LoginNoShell, ""},
		{255, "", "tutu@10.0.0.2: Permission denied (publickey).\n", LoginKeyRefused, "tutu@10.0.0.2: Permission denied (publickey)."},
		{255, "", "Received disconnect from 10.0.0.2 port 22:2: Too many authentication failures\n", LoginKeyRefused, ""},
		{255, "", "No ED25519 host key is known for 10.0.0.2 and you have requested strict checking.\nHost key verification failed.\n", LoginHostUnknown, ""},
		{255, "", "@@@\n@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\nHost key verification failed.\n", LoginHostChanged, ""},
		{255, "", "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\ntutu@b: Permission denied (publickey).\n", LoginKeyMissing, ""},
		{255, "", "ssh: connect to host 10.0.0.2 port 22: Connection refused\n", LoginUnconnected, ""},
		{255, "", "ssh: connect to host 10.0.0.2 port 22: No route to host\n", LoginNoRoute, ""},
		{255, "", "ssh: connect to host 10.0.0.2 port 22: Network is unreachable\n", LoginNoRoute, ""},
		{255, "", "ssh: connect to host 10.0.0.2 port 22: Connection timed out\n", LoginTimedOut, ""},
		{255, "", "Connection timed out during banner exchange\nConnection to 10.0.0.2 port 22 timed out\n", LoginTimedOut, ""},
		{255, "", "kex_exchange_identification: Connection closed by remote host\nConnection closed by 10.0.0.2 port 22\n", LoginClosed, ""},
		{255, "", "Unable to negotiate with 10.0.0.2 port 22: no matching host key type found.\n", LoginOtherFailure, ""},
	} {
		got := loginEnd(process.Ended{Exit: c.exit, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)}, token)
		if got.State != c.want || c.said != "" && got.Said != c.said {
			t.Errorf("%q %q: %+v", c.stdout, c.stderr, got)
		}
	}
	long := loginEnd(process.Ended{Exit: 255, Stderr: []byte(strings.Repeat("\xff", 1<<16) + "Permission denied (x)")}, token)
	if long.State != LoginKeyRefused || len(long.Said) > 3*MaxLoginSaid {
		t.Errorf("%d bytes", len(long.Said))
	}
}

// TestSettingsOfSSHDThatRefuse: the output of sshd -T has one line for each value of a list.
func TestSettingsOfSSHDThatRefuse(t *testing.T) {
	const fine = "permitrootlogin without-password\npubkeyauthentication yes\nauthorizedkeysfile .ssh/authorized_keys .ssh/authorized_keys2\nauthenticationmethods any\n"
	ann, root := LoginUser{Name: "ann", UID: 1000}, LoginUser{Name: "root"}
	for _, c := range []struct {
		user         LoginUser
		config, want string
	}{
		{ann, fine, ""}, {root, fine, ""}, {ann, "", ""},
		{ann, "permitrootlogin no\n", ""}, {root, "permitrootlogin no\n", "PermitRootLogin no"},
		{ann, "allowusers bob\nallowusers carol@10.0.0.*\n", "AllowUsers bob carol@10.0.0.*"}, {ann, "allowusers bob\nallowusers a*@192.0.2.1\n", ""},
		{ann, "denyusers bob\ndenyusers an?\n", "DenyUsers bob an?"}, {ann, "denyusers ann@192.0.2.1\n", ""},
		{ann, "allowgroups hpc\n", ""}, {ann, "allowgroups wheel\n", "AllowGroups wheel"}, {ann, "denygroups hpc\n", "DenyGroups hpc"},
		{ann, "pubkeyauthentication no\n", "PubkeyAuthentication no"}, {ann, "authenticationmethods publickey,password\n", "AuthenticationMethods publickey,password"},
		{ann, "authorizedkeysfile /etc/ssh/keys/%u\n", "AuthorizedKeysFile /etc/ssh/keys/%u"}, {ann, "authorizedkeysfile %h/.ssh/authorized_keys\n", ""},
	} {
		var got []string
		for _, b := range refusingSettings(c.config, c.user, []string{"ann", "hpc"}) {
			got = append(got, b.What+" "+b.Value)
		}
		if strings.Join(got, ", ") != c.want {
			t.Errorf("%s, %q: %q", c.user.Name, c.config, got)
		}
	}
	if got := Barriers(t.Context(), "nobody", &LoginUser{Name: "nobody", UID: 65534, Shell: "/usr/sbin/nologin"}, peerB.Addrs[0]); len(got) == 0 || got[0].What != "shell" {
		t.Errorf("%v", got)
	}
	if got := Barriers(t.Context(), "ann", nil, peerB.Addrs[0]); len(got) != 1 || got[0] != (LoginBarrier{"no user", "ann"}) {
		t.Errorf("%v", got)
	}
}

// TestALockedAccountIsNamed: without PAM, sshd refuses the keys of an account whose password begins with "!".
func TestALockedAccountIsNamed(t *testing.T) {
	const shadow = "root:*:1:0:99999:7:::\nann:!:1:0:99999:7:::\nbob:*:1::::::\nannie:!$6$x:1::::::\n"
	for _, c := range []struct{ user, config, want string }{
		{"ann", "port 22\nusepam no\n", "a locked account"}, {"annie", "usepam no\n", "a locked account"}, {"bob", "usepam no\n", ""},
		{"ann", "usepam yes\n", "a locked password"}, {"ann", "", "a locked password"}, {"an", "usepam no\n", ""},
	} {
		got := locked(shadow, c.config, c.user)
		if got == nil != (c.want == "") || got != nil && (got.What != c.want || !strings.Contains(got.Value, "usermod -p '*' "+c.user)) {
			t.Errorf("%s, %q: %+v", c.user, c.config, got)
		}
	}
}

// TestAProgramOfAUserHasNothingOfThisProcess: neither its groups and capabilities, nor its environment or session, and what it leaves
// behind is ended.
func TestAProgramOfAUserHasNothingOfThisProcess(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	t.Setenv("FABRICFORM_SECRET", "of root")
	const script = "grep -E '^(Uid|Gid|CapEff|CapPrm)' /proc/self/status; env; cut -d' ' -f6 /proc/$$/stat; setsid sleep 600 >/dev/null 2>&1 & echo $!"
	e := LoginUser{Name: "nobody", Shell: "/bin/nologin", UID: 65534}.program("/bin/sh", "-c", script).Start(t.Context())()
	got := strings.Join(strings.Fields(string(e.Stdout)), " ")
	for _, want := range []string{"Uid: 65534 65534 65534 65534", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "USER=nobody", "LOGNAME=nobody", "HOME=/nonexistent", "SHELL=/bin/nologin"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in %s", want, got)
		}
	}
	if strings.Contains(got, "FABRICFORM_SECRET") || e.Exit != 0 || len(e.Alive) > 0 {
		t.Errorf("%d %s %s %v", e.Exit, got, e.Stderr, e.Alive)
	}
	words := strings.Fields(got)
	if own, err := unix.Getsid(0); err != nil || len(words) < 2 || slices.Contains(words[len(words)-2:], strconv.Itoa(own)) {
		t.Errorf("it is in this session, %d: %s", own, got)
	}
	if command, _ := os.ReadFile("/proc/" + words[len(words)-1] + "/cmdline"); len(command) > 0 { // a zombie has none
		t.Errorf("%q stays", command)
	}
}

// TestSSHOfTheUserDoesWhatWasChecked: what ~/.ssh/config says of the things that the check depends on does not count.
func TestSSHOfTheUserDoesWhatWasChecked(t *testing.T) {
	ssh, err := process.FindProgram("ssh")
	if err != nil {
		t.Skip("no ssh client")
	}
	config := filepath.Join(t.TempDir(), "config")
	const hostile = "IgnoreUnknown Mine\nMine yes\nHost b\n  HostName 192.0.2.1\n  User eve\n  Port 2222\n  GlobalKnownHostsFile /tmp/x\n  UserKnownHostsFile /tmp/x\n  KnownHostsCommand /tmp/x\n" +
		"  VerifyHostKeyDNS yes\n  ForkAfterAuthentication yes\n  SessionType none\n  StrictHostKeyChecking no\n  ProxyCommand nc evil 22\n"
	if err := os.WriteFile(config, []byte(hostile), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"-G", "-F", config}, loginOptions, fixedOptions("ann", peerB, peerB.Addrs[0], "/etc/ssh/known"), []string{"--", "b"})
	e := process.Program{Declared: ssh, Args: args}.Start(t.Context())()
	got := string(e.Stdout)
	for _, want := range []string{"\nuser ann\n", "\nhostname 10.0.0.2\n", "\nport 22\n", "\nglobalknownhostsfile /etc/ssh/known\n", "\nuserknownhostsfile /dev/null\n", "\nstricthostkeychecking true\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing: %s", want, e.Stderr)
		}
	}
	for _, not := range []string{"/tmp/x", "evil", "\nforkafterauthentication yes\n", "\nsessiontype none\n", "\nverifyhostkeydns true\n"} {
		if strings.Contains(got, not) {
			t.Errorf("%q is there", not)
		}
	}
}
