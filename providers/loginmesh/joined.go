package loginmesh

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// KeySpec is the wanted key of one host. It has no content: each host makes its own, unless one that shares its home was first.
type KeySpec struct {
	Login
	Host string `json:"host"`
}

// Spec is what makes the keys of a mesh work on one host.
type Spec struct {
	Login
	// Members are the other hosts of the mesh. The entries of those that are not in Entries stay as they are.
	Members []string `json:"members"`
	// Outside: the host is not in the mesh, but has made the key and entries of hosts that are, and that share its home. These stay; our
	// two files do not. Its notes are always shown.
	Outside bool    `json:"left,omitempty"`
	Entries []Entry `json:"entries,omitempty"`
	// Snippet and Known are the texts of our two files.
	Snippet string   `json:"snippet"`
	Known   string   `json:"known"`
	Notes   []string `json:"notes,omitempty"`
}

func login(f *fabric.Fabric, m *fabric.LoginMesh) Login {
	return Login{Fabric: f.Name, Mesh: m.Name, User: m.User, Root: f.RootLogin}
}

// Looks returns resources that make Gather read the facts for Joined.
func Looks(f *fabric.Fabric, h *fabric.Host) (out []resource.Resource) {
	for _, m := range f.LoginMeshes {
		if m.Has(h.Name) {
			out = append(out, resource.New(h.Name, KeyKind, m.Name, m.Pos, KeySpec{login(f, m), h.Name}))
		}
	}
	return out
}

// Joined returns the resources of a host, which depend on the facts of all hosts of its meshes. snaps has those of the hosts
// that were reached.
func Joined(f *fabric.Fabric, h *fabric.Host, snaps map[string]*facts.Snapshot) (out []resource.Resource) {
	for _, m := range f.LoginMeshes {
		switch {
		case snaps[h.Name] == nil:
		case m.Has(h.Name):
			out = append(out, newMesh(f, m, snaps).resources(h)...)
		default:
			out = append(out, newMesh(f, m, snaps).formerMember(h)...)
		}
	}
	return out
}

// formerMember returns the resources of a host that is not in the mesh, if a host of the mesh proves that it shares its home: what was made
// there when both were in the mesh is still needed, so it is not removed. The home and the public key prove nothing: every host of
// the mesh knows them.
func (m *mesh) formerMember(h *fabric.Host) []resource.Resource {
	u := part.Of(m.snaps[h.Name])[m.login.User]
	if u == nil || u.Home == "" || u.Keys[m.login.Mesh] == "" {
		return nil
	}
	for _, name := range m.hosts {
		if other := m.users[name]; other != nil && other.Home == u.Home && other.Keys[m.login.Mesh] == u.Keys[m.login.Mesh] &&
			other.holds(m.login, name) {
			kept := "the key"
			s := Spec{Login: m.login, Outside: true, Snippet: m.login.head(), Known: m.login.head()}
			for _, member := range m.hosts {
				if group := m.group(name); member != name || len(group) > 1 {
					s.Members = append(s.Members, member)
					if u.Entries[m.login.Mesh+":"+member] != "" {
						kept += ", the entry of " + member
					}
				}
			}
			s.Notes = []string{fmt.Sprintf("login_mesh %s: %s is not in it, but keeps %s: %s proves that it shares the home of %s",
				m.login.Mesh, h.Name, kept, name, m.login.User)}
			return []resource.Resource{resource.New(h.Name, KeyKind, m.login.Mesh, m.pos, KeySpec{m.login, h.Name}),
				resource.New(h.Name, Kind, m.login.Mesh, m.pos, s)}
		}
	}
	return nil
}

// best returns the address at which one host logs in to another, in the management network if both are in it.
func (m *mesh) best(from, host string) netip.Addr {
	_, target := fabric.LoginPath(m.nets[from], m.nets[host])
	return target
}

// mesh is a mesh and what is known of its hosts.
type mesh struct {
	login Login
	pos   fabric.Pos
	hosts []string // sorted
	snaps map[string]*facts.Snapshot
	users map[string]*User
	addrs map[string][]netip.Addr   // of a host
	nets  map[string][]netip.Prefix // the same, with their networks
}

func newMesh(f *fabric.Fabric, m *fabric.LoginMesh, snaps map[string]*facts.Snapshot) *mesh {
	out := &mesh{login: login(f, m), pos: m.Pos, snaps: snaps, users: map[string]*User{}, addrs: map[string][]netip.Addr{},
		nets: map[string][]netip.Prefix{}}
	owners := f.AddressOwners(func(host string) (dialled netip.Addr) {
		if snap := snaps[host]; snap != nil {
			dialled = snap.Management.Dialled
		}
		return dialled
	})
	for _, r := range m.Hosts {
		name := string(r)
		out.hosts = append(out.hosts, name)
		if snap := snaps[name]; snap != nil {
			out.users[name] = part.Of(snap)[m.User]
			out.nets[name] = owners.Logins(f.Host(name), snap.DialledNetwork())
			for _, p := range out.nets[name] {
				out.addrs[name] = append(out.addrs[name], p.Addr())
			}
		}
	}
	slices.Sort(out.hosts)
	out.hosts = slices.Compact(out.hosts)
	return out
}

// group returns the hosts that share the host's home, sorted. The first one enters the others' keys.
func (m *mesh) group(host string) (out []string) {
	for _, other := range m.hosts {
		if other == host || m.share(host, other) {
			out = append(out, other)
		}
	}
	return out
}

// share reports whether two hosts share the user's home: both say so, and both prove that they have the same key. While there is no
// key, nothing is proven, and each host makes one: otherwise a host that only says so could keep another one without a key.
func (m *mesh) share(host, other string) bool {
	a, b := m.users[host], m.users[other]
	return a != nil && b != nil && a.Home != "" && a.Home == b.Home && a.Keys[m.login.Mesh] == b.Keys[m.login.Mesh] &&
		a.holds(m.login, host) && b.holds(m.login, other)
}

func (m *mesh) resources(h *fabric.Host) []resource.Resource {
	s := Spec{Login: m.login}
	note := func(format string, a ...any) {
		s.Notes = append(s.Notes, "login_mesh "+m.login.Mesh+": "+fmt.Sprintf(format, a...))
	}
	note("whoever is %s on one of these hosts can log in to all of them", m.login.User)
	own := m.group(h.Name)
	var away, without []string
	for _, name := range m.hosts {
		u := m.users[name]
		if name != h.Name {
			s.Members = append(s.Members, name)
		}
		switch group := m.group(name); {
		case m.snaps[name] == nil:
			away = append(away, name)
		case u.usable(m.login) != nil: // its own resources report it
		case len(m.addrs[name]) == 0:
			note("no address of %s is known, so it cannot be entered: declare an address of one of its NICs", name)
		case !m.known(name):
			note("the host key of %s is not known, so it cannot be entered", name)
		case group[0] != name: // another host that shares the home is entered for all of them
		case u.Keys[m.login.Mesh] == "":
			without = append(without, name)
		case own[0] == h.Name && (name != h.Name || len(own) > 1):
			s.Entries = append(s.Entries, Entry{Host: name, Key: u.Keys[m.login.Mesh], From: m.from(group)})
		}
	}
	if len(own) > 1 {
		s.Members = append(s.Members, h.Name)
		note("%s share the home of %s: they have one key, which %s enters", strings.Join(own, ", "), m.login.User, own[0])
	}
	if len(away) > 0 {
		note("not reached, and entered by the next apply: %s", strings.Join(away, ", "))
	}
	if len(without) > 0 {
		note("keys made in this apply: %s. Their entries at the other hosts are planned after that, with the fingerprints; "+
			"a saved plan covers the keys only", strings.Join(without, ", "))
	}
	snippet, known := m.login.files()
	s.Snippet, s.Known = m.sections(h, snippet, peer.snippet, m.login.wholeSnippet), m.sections(h, known, peer.known, m.login.wholeKnown)
	return []resource.Resource{resource.New(h.Name, KeyKind, m.login.Mesh, m.pos, KeySpec{m.login, h.Name}),
		resource.New(h.Name, Kind, m.login.Mesh, m.pos, s)}
}

// from returns the addresses of the hosts.
func (m *mesh) from(hosts []string) (out []netip.Addr) {
	for _, name := range hosts {
		out = append(out, m.addrs[name]...)
	}
	return out
}

// Our files have a section for each other host, which a comment begins. So the section of a host that is not reached stays
// as it is.

const sectionMark = "# host "

// head begins our files.
func (l Login) head() string {
	return fmt.Sprintf("# SSH of the login_mesh %s, "+
		"by fabricform for the fabric %q.\n# What is written here by hand is undone by its next apply.\n", l.Mesh, l.Fabric)
}

// split returns what is before the first section of a file, and its sections.
func split(text string) (head string, sections []string) {
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, sectionMark):
			sections = append(sections, line)
		case len(sections) == 0:
			head += line
		default:
			sections[len(sections)-1] += line
		}
	}
	return head, sections
}

// sections returns the text of one of our files. Of the sections that are there, those that somebody changed are left out.
func (m *mesh) sections(h *fabric.Host, path string, of func(p peer, l Login) string, whole func(text string) bool) string {
	_, found := split(m.snaps[h.Name].Files[path].Text)
	text := m.login.head()
	for _, other := range m.hosts {
		switch {
		case other == h.Name:
		case m.known(other):
			text += of(m.peer(h.Name, other), m.login)
		default:
			for _, section := range found {
				if strings.HasPrefix(section, sectionMark+other+"\n") && whole(section) {
					text += section
				}
			}
		}
	}
	return text
}

// known reports whether the others can log in to the host.
func (m *mesh) known(host string) bool {
	return len(m.addrs[host]) > 0 && isKey(m.snaps[host].Management.HostKey)
}

// peer is what our files at one host say of another.
func (m *mesh) peer(from, host string) peer {
	p := peer{name: host, best: m.best(from, host), addrs: m.addrs[host], port: m.snaps[host].Management.Port,
		key: m.snaps[host].Management.HostKey, binds: map[netip.Addr]netip.Addr{}}
	for _, a := range p.addrs {
		if i := slices.IndexFunc(m.nets[from], func(own netip.Prefix) bool { return own.Contains(a) }); i >= 0 {
			p.binds[a] = m.nets[from][i].Addr()
		}
	}
	if p.port == 22 {
		p.port = 0
	}
	return p
}
