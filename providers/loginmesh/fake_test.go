package loginmesh

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// hostKey is the key with which a host proves itself.
func hostKey(name string) string {
	seed := sha256.Sum256([]byte(name))
	k, err := ssh.NewPublicKey(ed25519.NewKeyFromSeed(seed[:]).Public())
	if err != nil {
		panic(err)
	}
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(k)))
}

// home is what several hosts may share.
type home struct {
	id    string
	files map[string]host.LoginFile // nil: there is no ~/.ssh
}

// fake is a host with users, homes, and files below /etc/ssh.
type fake struct {
	host.Host
	name   string
	homes  map[string]*home // by user
	files  map[string]facts.File
	uid    int
	spoilt error // what reading a home returns
	getent int   // exit status, if not 0
	record *resource.Record

	meanwhile func() // what happens between reading a file of a home and replacing it
}

const included = "Include /etc/ssh/ssh_config.d/*.conf\n"

func newFake(name string) *fake {
	return &fake{name: name, record: &resource.Record{}, uid: 1000, homes: map[string]*home{"ann": {id: name}}, files: map[string]facts.File{sshDir + "/ssh_config": {FileStat: host.FileStat{Mode: 0o644}, Text: included}}}
}

func (f *fake) Records(context.Context) (map[string][]byte, error) {
	text, err := json.Marshal(f.record)
	return map[string][]byte{"lab": text}, err
}

func (*fake) Links(context.Context) ([]host.Link, error)   { return nil, nil }
func (*fake) Addrs(context.Context) ([]host.Addr, error)   { return nil, nil }
func (*fake) Routes(context.Context) ([]host.Route, error) { return nil, nil }
func (*fake) Rules(context.Context) ([]host.Rule, error)   { return nil, nil }

func (f *fake) Sysctl(context.Context, string) (string, error) { return "", fs.ErrNotExist }

func (f *fake) ReadFile(_ context.Context, at string) ([]byte, error) {
	if file, there := f.files[at]; there {
		return []byte(file.Text), nil
	}
	return nil, fs.ErrNotExist
}

func (f *fake) Stat(_ context.Context, at string) (host.FileStat, error) {
	if file, there := f.files[at]; there {
		return file.FileStat, nil
	}
	return host.FileStat{}, fs.ErrNotExist
}

func (f *fake) ReadDir(_ context.Context, dir string) (names []string, err error) {
	for at := range f.files {
		if path.Dir(at) == dir {
			names = append(names, path.Base(at))
		}
	}
	return names, nil
}

func (f *fake) PutFile(at string, text []byte, perm fs.FileMode) error {
	f.files[at] = facts.File{FileStat: host.FileStat{Mode: perm}, Text: string(text)}
	return host.OwnFile(at)
}

func (f *fake) RemoveFile(at string) error {
	delete(f.files, at)
	return nil
}

func (f *fake) Inquire(_ context.Context, name string, args ...string) (host.Answer, error) {
	if err := host.Inquiry(name, args); err != nil {
		return host.Answer{}, err
	}
	if name == "id" {
		return host.Answer{Stdout: "1000\n"}, nil
	}
	if f.getent != 0 {
		return host.Answer{Exit: f.getent}, nil
	}
	if f.homes[args[1]] == nil {
		return host.Answer{Exit: 2}, nil
	}
	uid := "1000"
	if f.uid == 0 {
		uid = "0"
	}
	return host.Answer{Stdout: args[1] + ":x:" + uid + ":1000:Ann,,,:/home/" + args[1] + ":/bin/bash\n"}, nil
}

func (f *fake) HomeID(_ context.Context, a host.Account) (string, error) {
	return f.homes[a.Name].id, f.spoilt
}

func (f *fake) LoginFolder(_ context.Context, a host.Account) (bool, error) {
	return f.homes[a.Name].files != nil, nil
}

func (f *fake) LoginFile(_ context.Context, a host.Account, name string) (*host.LoginFile, error) {
	if file, there := f.homes[a.Name].files[name]; there {
		return &file, nil
	}
	return nil, host.LoginName(name)
}

func (f *fake) PutLoginFolder(a host.Account) error {
	if f.homes[a.Name].files == nil {
		f.homes[a.Name].files = map[string]host.LoginFile{}
	}
	return nil
}

func (f *fake) PutLoginFile(a host.Account, name string, was *host.LoginFile, text []byte, perm fs.FileMode) error {
	if f.homes[a.Name].files == nil {
		return errors.New("no ~/.ssh")
	}
	if f.meanwhile != nil {
		f.meanwhile()
	}
	if now, there := f.homes[a.Name].files[name]; there != (was != nil) || there && string(now.Text) != string(was.Text) {
		return host.ErrChanged
	}
	f.homes[a.Name].files[name] = host.LoginFile{Perm: perm, Text: text}
	return host.LoginName(name)
}

func (f *fake) RemoveLoginFile(a host.Account, name string) error {
	delete(f.homes[a.Name].files, name)
	return host.LoginName(name)
}

func (f *fake) RemoveLoginFolder(a host.Account) error {
	if len(f.homes[a.Name].files) == 0 {
		f.homes[a.Name].files = nil
	}
	return nil
}

// cluster is hosts with a mesh.
type cluster struct {
	t       *testing.T
	f       *fabric.Fabric
	hosts   map[string]*fake
	records map[string]*resource.Record
	away    map[string]bool

	backwards bool // the last host undoes first
}

func newCluster(t *testing.T, names ...string) *cluster {
	c := &cluster{t: t, f: &fabric.Fabric{Name: "lab"}, hosts: map[string]*fake{}, records: map[string]*resource.Record{}, away: map[string]bool{}}
	m := &fabric.LoginMesh{Name: "train", User: "ann"}
	for i, name := range names {
		c.hosts[name] = newFake(name)
		c.records[name] = c.hosts[name].record
		c.f.Hosts = append(c.f.Hosts, &fabric.Host{Name: name, NICs: []*fabric.NIC{{Name: "r0", Host: name, Addresses: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 9, 0, byte(i + 1)}), 24)}}}})
		m.Hosts = append(m.Hosts, fabric.HostRef(name))
	}
	c.f.LoginMeshes = []*fabric.LoginMesh{m}
	return c
}

// wanted reads all hosts, and returns their snapshots and resources.
func (c *cluster) wanted() (map[string]*facts.Snapshot, map[string][]resource.Resource) {
	c.t.Helper()
	snaps, out := map[string]*facts.Snapshot{}, map[string][]resource.Resource{}
	for i, h := range c.f.Hosts {
		if c.away[h.Name] {
			continue
		}
		snap, err := Kinds().Gather(c.t.Context(), c.hosts[h.Name], resource.Query{Resources: Looks(c.f, h), Atoms: slices.Collect(maps.Keys(c.records[h.Name].Atoms))})
		if err != nil {
			c.t.Fatal(err)
		}
		snap.Management = facts.Management{Dialled: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), Port: 22, HostKey: hostKey(h.Name)}
		snaps[h.Name] = snap
	}
	for _, h := range c.f.Hosts {
		out[h.Name] = Joined(c.f, h, snaps)
	}
	return snaps, out
}

// diff returns what a plan shows of one kind, by host.
func (c *cluster) diff(of string) map[string]resource.Difference {
	c.t.Helper()
	out := map[string]resource.Difference{}
	snaps, wanted := c.wanted()
	kind, _ := Kinds().Lookup(of)
	for name, rs := range wanted {
		for _, r := range rs {
			if r.Addr.Kind == of {
				d, err := kind.Plan(snaps[name], r.Spec)
				if err != nil {
					c.t.Fatal(err)
				}
				out[name] = d
			}
		}
	}
	return out
}

// apply makes the keys, then what is derived from them, and undoes what is not wanted any more.
func (c *cluster) apply() {
	c.t.Helper()
	for _, of := range []string{KeyKind, Kind} {
		kind, _ := Kinds().Lookup(of)
		snaps, wanted := c.wanted()
		for name, rs := range wanted {
			for _, r := range rs {
				if r.Addr.Kind != of {
					continue
				}
				d, err := kind.Plan(snaps[name], r.Spec)
				if err == nil && len(d.Changes) > 0 {
					c.records[name].Note(d.Changes)
					err = kind.Apply(c.t.Context(), c.hosts[name], r.Spec, d.Changes)
				}
				if errors.Is(err, resource.ErrMadeElsewhere) { // as the helper does
					for _, change := range d.Changes {
						delete(c.records[name].Atoms, change.Atom)
					}
					err = nil
				}
				if err != nil {
					c.t.Fatal(err)
				}
			}
		}
	}
	snaps, wanted := c.wanted()
	kinds := Kinds()
	slices.Reverse(kinds)
	names := slices.Sorted(maps.Keys(snaps))
	if c.backwards {
		slices.Reverse(names)
	}
	for _, name := range names {
		for _, kind := range kinds {
			for _, a := range slices.Sorted(maps.Keys(c.records[name].Atoms)) {
				claimed := slices.ContainsFunc(wanted[name], func(r resource.Resource) bool { return r.Addr.Kind == kind.Name && kind.Claims(snaps[name], r.Spec, a) })
				if a.Kind() != kind.Name || claimed {
					continue
				}
				owned := c.records[name].Atoms[a]
				change, _, err := kind.Undo(snaps[name], a, owned.Earlier)
				if err == nil && owned.StillOurs(change.From) && change.From != "" {
					err = kind.ApplyUndo(c.t.Context(), c.hosts[name], snaps[name], a, owned.Earlier)
				}
				if err != nil {
					c.t.Fatal(err)
				}
				delete(c.records[name].Atoms, a)
			}
		}
	}
}

// entered returns the names of the hosts whose keys are entered at a host.
func (c *cluster) entered(name string) string {
	var out []string
	for line := range strings.Lines(string(c.hosts[name].homes["ann"].files[host.AuthorizedKeys].Text)) {
		if n := nameOf(strings.TrimSuffix(line, "\n")); n != "" {
			out = append(out, strings.TrimPrefix(n, "train:"))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}
