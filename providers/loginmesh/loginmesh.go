// Package loginmesh lets a user log in from each host of a mesh to all the others. Each host makes a key of its own, which
// never leaves it; its public half is entered in authorized_keys at the other hosts. Two files below /etc/ssh make ssh use
// the key, and know the hosts.
//
// The keys are one kind, in a stage that comes before all others but the driver stack: what is entered at the other hosts
// is derived from the public keys, so it is planned once they exist. The entries and the two files are the other kind.
package loginmesh

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// The kinds of this package: a host's own key, and what makes it work. Each has one resource for each mesh of the host.
const (
	KeyKind = "login_key"
	Kind    = "login_mesh"
)

// Login names a mesh and its user, as Gather needs them.
type Login struct {
	Fabric string `json:"fabric"`
	Mesh   string `json:"mesh"`
	User   string `json:"user"`
	Root   bool   `json:"root,omitempty"` // the operator allows uid 0
}

// thing is the name in a host's record.
func (l Login) thing() string { return l.User + "/" + l.Mesh }

// files returns the paths of our two files: for ssh, and with the keys of the hosts. The user is in their names, so that the files
// of another user can be made while those of the earlier one are there.
func (l Login) files() (snippet, known string) {
	name := "fabricform-" + l.Fabric + "-" + l.Mesh + "@" + l.User
	return configDir + "/00-" + name + ".conf", sshDir + "/" + name + ".known_hosts"
}

const (
	sshDir    = "/etc/ssh"
	configDir = sshDir + "/ssh_config.d"
)

// part has what Gather found, by user.
const part = facts.Part[map[string]*User]("login_mesh")

// User is a user of a host. It never holds a private key, nor lines of authorized_keys that are not ours.
type User struct {
	Account host.Account `json:"account"`
	Why     string       `json:"why,omitempty"`  // why the user's files cannot be used
	Home    string       `json:"home,omitempty"` // its ID: hosts with the same one share the home
	Folder  bool         `json:"folder,omitempty"`
	// Keys has the public keys of this host, by mesh.
	Keys map[string]string `json:"keys,omitempty"`
	// Proofs are statements of this host, each signed with the mesh's key (proofOf): the host has the private key.
	Proofs map[string][]byte `json:"proofs,omitempty"`
	// Authorized is whether authorized_keys exists. Entries has our lines in it, by mesh and host ("train:gpu01").
	Authorized bool              `json:"authorized,omitempty"`
	Entries    map[string]string `json:"entries,omitempty"`
	// Made has the atoms of ~/.ssh and of authorized_keys in the host's records: of each mesh that needs what fabricform made.
	Made []resource.Atom `json:"made,omitempty"`
	// Included is whether ssh reads the snippets of configDir.
	Included bool `json:"included,omitempty"`
}

// proofOf is what a host signs to prove that it has the private key. A host that only says that it shares the home of another could
// otherwise make the other one lose its key and its entries, because one of them has these for both.
func proofOf(fabric, mesh, host string) []byte {
	return []byte("fabricform login_mesh " + fabric + " " + mesh + " at " + host)
}

// holds reports whether the host has proven that it has the private key of the mesh.
func (u *User) holds(l Login, host string) bool {
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(u.Keys[l.Mesh]))
	return err == nil && isLoginKey(u.Keys[l.Mesh]) &&
		k.Verify(proofOf(l.Fabric, l.Mesh, host), &ssh.Signature{Format: ssh.KeyAlgoED25519, Blob: u.Proofs[l.Mesh]}) == nil
}

// lacks reports whether the mesh is still to be noted as one that needs what fabricform made for another mesh of the user: it goes with
// the last of them.
func (u *User) lacks(a resource.Atom) bool {
	return !slices.Contains(u.Made, a) && slices.ContainsFunc(u.Made, func(o resource.Atom) bool { return o.Kind() == a.Kind() })
}

// usable returns an error if nothing may be done for this user.
func (u *User) usable(l Login) error {
	switch {
	case u == nil:
		return fmt.Errorf("the host did not look for user %s", l.User)
	case u.Why != "":
		return fmt.Errorf("login_mesh %s: %s", l.Mesh, u.Why)
	case u.Keys[l.Mesh] != "" && !isLoginKey(u.Keys[l.Mesh]): // the answer of a host, which could be any text
		return fmt.Errorf("login_mesh %s: the host's answer has no ed25519 key but %.80q: its key is not entered anywhere",
			l.Mesh, u.Keys[l.Mesh])
	}
	return nil
}

// checkAllowed returns an error if a change for this user needs a permission that the operator has not given.
func (u *User) checkAllowed(l Login) error {
	if u.Account.UID == 0 && !l.Root {
		return fmt.Errorf("login_mesh %s: %s is root on this host (uid 0): whoever is root on one host would be root on all of them. "+
			"To allow this, run with -allow=root-login; or use another user", l.Mesh, l.User)
	}
	return nil
}

// Entry is the public key of one host, or of several hosts that share a home, at the other hosts.
type Entry struct {
	Host string       `json:"host"` // which made the key
	Key  string       `json:"key"`  // type and key, as in authorized_keys
	From []netip.Addr `json:"from"`
}

// comment ends our lines, and names their owner.
func comment(fabric, mesh, host string) string {
	return "fabricform:" + fabric + ":" + mesh + ":" + host
}

// entryLine is a line of authorized_keys (sshd(8)): restrict forbids forwarding and all that may come, and pty allows a
// terminal.
func (e Entry) line(l Login) string {
	from := make([]string, 0, len(e.From))
	for _, a := range e.From {
		from = append(from, a.String())
	}
	return fmt.Sprintf("from=%q,restrict,pty %s %s", strings.Join(from, ","), e.Key, comment(l.Fabric, l.Mesh, e.Host))
}

var entryShape = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^from="([0-9a-f:.,]*)",restrict,pty (ssh-ed25519 [A-Za-z0-9+/=]+) fabricform:[A-Za-z0-9._-]+:([A-Za-z0-9._-]+:[A-Za-z0-9._-]+)$`)
})

// nameOf returns the mesh and the host of one of our lines; "" if it is not ours. A line that was edited by hand is still ours.
func nameOf(line string) string {
	at := strings.LastIndex(line, " fabricform:")
	if at < 0 || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return ""
	}
	f := strings.Split(strings.TrimSpace(line[at:]), ":")
	if len(f) != 4 {
		return ""
	}
	return f[2] + ":" + f[3]
}

// shownEntry is what plans and records say of a line: the key's fingerprint, and from where it may be used.
func shownEntry(line string) string {
	m := entryShape().FindStringSubmatch(line)
	if m == nil {
		return "edited by hand"
	}
	return fingerprint(m[2]) + " from " + m[1]
}

// fingerprint is that of a public key in the form of authorized_keys.
func fingerprint(public string) string {
	k, _, _, _, err := ssh.ParseAuthorizedKey([]byte(public))
	if err != nil {
		return "(not a key)"
	}
	return ssh.FingerprintSHA256(k)
}

// Lines of authorized_keys are found and changed as bytes: foreign lines, their ends included, stay as they are.

// entriesOf returns our lines, by mesh and host.
func entriesOf(text string) map[string]string {
	out := map[string]string{}
	for line := range strings.SplitSeq(text, "\n") {
		if name := nameOf(line); name != "" && out[name] == "" {
			out[name] = line
		}
	}
	return out
}

// setEntry returns the text with our line of that mesh and host replaced; "" removes it. Our line is the last one that has an end:
// what others append to a last line without an end is not appended to ours, and the removal leaves the file as it was.
func setEntry(text, name, line string) string {
	lines := strings.Split(text, "\n") // the last one has no end, and is "" if the text ends in a line feed
	lines = slices.DeleteFunc(lines, func(l string) bool { return nameOf(l) == name && l != line })
	if line != "" && !slices.Contains(lines, line) {
		if len(lines) == 0 { // the only one was ours, without an end
			lines = []string{""}
		}
		lines = slices.Insert(lines, len(lines)-1, line)
	}
	return strings.Join(lines, "\n")
}

// atomOf names one value: "key" and "ssh_folder" of KeyKind; "entry HOST", "file PATH" and "made authorized_keys" of Kind.
func atomOf(kind string, l Login, value ...string) resource.Atom {
	return resource.NewAtom(kind, append([]string{l.thing()}, value...)...)
}

// The folder and the file, of which each mesh that needs them has an atom.
const (
	folder     = "ssh_folder"
	authorized = "made " + host.AuthorizedKeys
)

// The values that a record has of what has no text.
const (
	made   = "made in this apply"
	exists = "made"
)
