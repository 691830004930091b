package loginmesh

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/fabric"
)

// What one host says goes into files of other hosts that root's ssh and sshd read. So each text is read into its parts, and is
// refused unless the parts make the same text again: on the operator's machine, and once more on the host that writes the file.

// peer is what a section of our files says of a host.
type peer struct {
	name  string
	best  netip.Addr   // for logins by name; in the snippet only
	addrs []netip.Addr // at least one
	port  int          // 0 for that of ssh
	key   string       // in the known hosts only
	// binds has the address from which a login to one of addrs starts, if both hosts are in a network; in the snippet only. Of several
	// addresses, the kernel could choose another one (RFC 6724 prefers temporary ones), which the peer's entry does not admit.
	binds map[netip.Addr]netip.Addr
}

// snippet is ssh_config(5) for logins to the host. Its name in the fabric's files is a name of the host for the user.
func (p peer) snippet(l Login) string {
	_, known := l.files()
	var all []string
	for _, a := range p.addrs {
		all = append(all, a.String())
	}
	port := ""
	if p.port != 0 {
		port = fmt.Sprintf("    Port %d\n", p.port)
	}
	who := "Match localuser " + l.User + " user " + l.User
	binds := ""
	for _, a := range p.addrs {
		if from := p.binds[a]; from.IsValid() {
			binds += who + " host " + a.String() + "\n    BindAddress " + from.String() + "\n"
		}
	}
	return sectionMark + p.name + "\n" + who + " originalhost " + p.name + "\n    HostName " + p.best.String() + "\n" +
		who + " host " + strings.Join(all, ",") + "\n" + port +
		"    IdentityFile ~/.ssh/" + fabric.LoginKey(l.Mesh) +
		"\n    IdentitiesOnly yes\n    ProxyCommand none\n    GlobalKnownHostsFile /etc/ssh/ssh_known_hosts /etc/ssh/ssh_known_hosts2 " +
		known + "\n" + binds
}

// known is the host's line of known_hosts (sshd(8)): the key with which the host proved itself to us.
func (p peer) known(Login) string {
	var names []string
	for _, a := range p.addrs {
		name := a.String()
		if p.port != 0 {
			name = "[" + name + "]:" + strconv.Itoa(p.port)
		}
		names = append(names, name)
	}
	return sectionMark + p.name + "\n" + strings.Join(names, ",") + " " + p.key + "\n"
}

// readSnippet returns the parts of a section of the snippet.
func readSnippet(text string) (p peer) {
	p.binds = map[netip.Addr]netip.Addr{}
	var to netip.Addr
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[0] == "HostName":
			p.best, _ = netip.ParseAddr(f[1])
		case len(f) == 2 && f[0] == "Port":
			p.port, _ = strconv.Atoi(f[1])
		case len(f) == 2 && f[0] == "BindAddress":
			p.binds[to], _ = netip.ParseAddr(f[1])
		case len(f) == 7 && f[0] == "Match" && f[5] == "host" && p.addrs != nil:
			to, _ = netip.ParseAddr(f[6])
		case len(f) == 7 && f[0] == "Match" && f[5] == "host":
			for a := range strings.SplitSeq(f[6], ",") {
				addr, _ := netip.ParseAddr(a)
				p.addrs = append(p.addrs, addr)
			}
		case len(f) == 3 && f[0] == "#":
			p.name = f[2]
		}
	}
	return p
}

// readKnown returns the parts of a section of the known hosts.
func readKnown(text string) (p peer) {
	head, line, _ := strings.Cut(text, "\n")
	p.name = strings.TrimPrefix(head, sectionMark)
	names, key, _ := strings.Cut(line, " ")
	p.key = strings.TrimSuffix(key, "\n")
	for name := range strings.SplitSeq(names, ",") {
		if at, port, is := strings.Cut(strings.TrimPrefix(name, "["), "]:"); is {
			name = at
			p.port, _ = strconv.Atoi(port)
		}
		a, _ := netip.ParseAddr(name)
		p.addrs = append(p.addrs, a)
	}
	return p
}

// isAddr says whether the address may stand in a file: a zone may be any text.
func isAddr(a netip.Addr) bool { return a.IsValid() && a.Zone() == "" }

// isKey says whether the text is a public key and nothing else, as MarshalAuthorizedKey writes it.
func isKey(text string) bool {
	k, comment, options, rest, err := ssh.ParseAuthorizedKey([]byte(text))
	return err == nil && comment == "" && len(options) == 0 && len(rest) == 0 &&
		strings.TrimSuffix(string(ssh.MarshalAuthorizedKey(k)), "\n") == text
}

// isLoginKey says the same of the keys that this package makes.
func isLoginKey(text string) bool {
	return isKey(text) && strings.HasPrefix(text, ssh.KeyAlgoED25519+" ")
}

// wholeSnippet says whether a section of the snippet is one that this package writes.
func (l Login) wholeSnippet(text string) bool {
	p := readSnippet(text)
	return p.sound() && isAddr(p.best) && p.snippet(l) == text
}

// wholeKnown says whether a section of the known hosts is one that this package writes.
func (l Login) wholeKnown(text string) bool {
	p := readKnown(text)
	return p.sound() && isKey(p.key) && p.known(l) == text
}

func (p peer) sound() bool {
	for _, from := range p.binds {
		if !isAddr(from) {
			return false
		}
	}
	return fabric.IsName(p.name) && p.port >= 0 && p.port <= 65535 && len(p.addrs) > 0 &&
		!slices.ContainsFunc(p.addrs, func(a netip.Addr) bool { return !isAddr(a) })
}

// check returns an error unless the names can be declared in a fabric file.
func (l Login) check() error {
	if !fabric.IsName(l.Fabric) || !fabric.IsName(l.Mesh) || !fabric.IsUser(l.User) {
		return fmt.Errorf("refused: no fabric file can declare a login_mesh %.80q of fabric %.80q for user %.80q", l.Mesh, l.Fabric, l.User)
	}
	return nil
}

// check returns an error unless the names can be declared in a fabric file.
func (s KeySpec) check() error {
	if !fabric.IsName(s.Host) {
		return fmt.Errorf("refused: no fabric file can declare a host %.80q", s.Host)
	}
	return s.Login.check()
}

// check returns an error unless all that is to be written is made of valid names, addresses, ports and keys.
func (s Spec) check() error {
	if err := s.Login.check(); err != nil {
		return err
	}
	for _, e := range s.Entries {
		if !fabric.IsName(e.Host) || !isLoginKey(e.Key) || len(e.From) == 0 ||
			slices.ContainsFunc(e.From, func(a netip.Addr) bool { return !isAddr(a) }) {
			return fmt.Errorf("login_mesh %s: refused to enter the key of host %.80q: its name, its key or its addresses are not valid",
				s.Mesh, e.Host)
		}
	}
	for _, f := range []struct {
		what, text string
		whole      func(string) bool
	}{{"configuration of ssh", s.Snippet, s.wholeSnippet}, {"file of known hosts", s.Known, s.wholeKnown}} {
		head, by := split(f.text)
		if head != s.head() {
			return fmt.Errorf("login_mesh %s: refused a %s that does not begin as fabricform writes it", s.Mesh, f.what)
		}
		for _, section := range by {
			if !f.whole(section) {
				return fmt.Errorf("login_mesh %s: refused a %s with a section that fabricform does not write: %.200q",
					s.Mesh, f.what, section)
			}
		}
	}
	return nil
}
