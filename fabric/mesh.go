package fabric

import (
	"regexp"
	"slices"
	"sync"
)

// LoginMesh lets one user log in from each of several hosts to all the others, with keys that the hosts make themselves.
type LoginMesh struct {
	Block
	Name string

	// The hosts: `values(host.gpu)`, or `[host.a, host.b]`.
	Hosts []HostRef `ff:"hosts,required"`
	// The user, who must exist on all hosts. `root` also needs `-allow=root-login`.
	User string `ff:"user,required,shape=user"`
}

// LoginKey is the name of a mesh's key in the ~/.ssh of its user.
func LoginKey(mesh string) string { return "fabricform_" + mesh }

// HostRef is the name of a host.
type HostRef string

// Has reports whether the host is in the mesh.
func (m *LoginMesh) Has(host string) bool {
	for _, h := range m.Hosts {
		if string(h) == host {
			return true
		}
	}
	return false
}

// Mesh returns the first mesh, by name, that has all these hosts; nil if there is none.
func (f *Fabric) Mesh(hosts ...string) *LoginMesh {
	for _, m := range f.LoginMeshes {
		if !slices.ContainsFunc(hosts, func(h string) bool { return !m.Has(h) }) {
			return m
		}
	}
	return nil
}

// checkLoginMesh checks what the types of a mesh do not say.
func (c *checker) checkLoginMesh(m *LoginMesh) {
	if m.Invalid {
		return
	}
	seen := map[HostRef]bool{}
	for _, h := range m.Hosts {
		if seen[h] {
			c.errorf(m.At("hosts"), "Duplicate host", "%s is listed twice in the hosts of login_mesh %s.", h, m.Name)
		}
		seen[h] = true
	}
	if len(seen) < 2 {
		c.errorf(m.At("hosts"), "Login mesh needs two hosts",
			"login_mesh %s has %d. A mesh is for logins from each of its hosts to the others.", m.Name, len(seen))
	}
}

var userShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}$`) })

// IsUser reports whether a user may have the name.
func IsUser(s string) bool { return userShape().MatchString(s) }

// sound reports whether the mesh could be declared in a file: its names become names of files, and words of ssh_config(5).
func (m *LoginMesh) sound(f *Fabric) bool {
	return m != nil && IsName(m.Name) && IsUser(m.User) &&
		!slices.ContainsFunc(m.Hosts, func(h HostRef) bool { return f.Host(string(h)) == nil })
}
