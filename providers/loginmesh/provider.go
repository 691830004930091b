package loginmesh

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Kinds returns the kinds of this package. Keys come first: what is undone is undone in the other order.
func Kinds() resource.Kinds {
	return resource.Kinds{resource.Erase[KeySpec, KeyStatus](KeyKind, keys{}), resource.Erase[Spec, Status](Kind, entries{})}
}

// keys is the provider of KeyKind.
type keys struct{}

// KeyStatus is the key that was found.
type KeyStatus struct {
	Public string // "" if there is none
	Folder bool   // ~/.ssh exists, and no record says that it was made for another mesh alone
}

// Absent reports whether the key is missing.
func (got *KeyStatus) Absent() bool { return got.Public == "" }

// Stage returns the stage of keys, which comes before what is derived from them.
func (keys) Stage() string { return resource.StageKeys }

// Title names a mesh as the files do.
func (keys) Title(a resource.Atom) string { return title(a.Thing()) }

func title(thing string) string { _, mesh, _ := strings.Cut(thing, "/"); return mesh }

// Part is what both kinds read.
func (keys) Part() facts.AnyPart { return part }

// Gather reads the public halves of keys only.
func (keys) Gather(ctx context.Context, r host.Reader, look resource.Look[KeySpec]) error {
	return gather(ctx, r, look.Snapshot, look.Wants, look.Atoms)
}

// Observe returns an error if the user may not have a key, or if no fabric file could want it.
func (keys) Observe(snap *facts.Snapshot, want KeySpec) (*KeyStatus, error) {
	if err := want.check(); err != nil {
		return nil, err
	}
	u := part.Of(snap)[want.User]
	if err := u.usable(want.Login); err != nil {
		return nil, err
	}
	got := &KeyStatus{Public: u.Keys[want.Mesh], Folder: u.Folder && !u.lacks(atomOf(KeyKind, want.Login, folder))}
	if got.Public == "" {
		return got, u.checkAllowed(want.Login)
	}
	return got, nil
}

// Diff makes a key if there is none. A key that is there is used, whoever made it.
func (keys) Diff(want KeySpec, got *KeyStatus) (out []resource.Change) {
	if got == nil || got.Public != "" {
		return nil
	}
	add := func(value, to string) {
		c := atomOf(KeyKind, want.Login, value).Change("", to)
		c.Stage = resource.StageKeys
		out = append(out, c)
	}
	if !got.Folder {
		add(folder, exists)
	}
	add("key", made)
	return out
}

// Apply makes the key on this host. If there is one by now, another host that shares the home has made it, and it is used: the error is
// resource.ErrMadeElsewhere.
func (keys) Apply(ctx context.Context, h host.Host, want KeySpec, _ []resource.Change) error {
	if err := want.check(); err != nil {
		return err
	}
	a, err := host.LookUp(ctx, h, want.User)
	if err != nil || a == nil {
		return errors.Join(err, fmt.Errorf("make a key for %s: no such user", want.User))
	}
	err = makeKey(h, *a, want.Mesh, comment(want.Fabric, want.Mesh, want.Host))
	if errors.Is(err, host.ErrChanged) {
		return resource.ErrMadeElsewhere
	}
	return err
}

func makeKey(h host.Host, a host.Account, mesh, comment string) error {
	_, private, err := ed25519.GenerateKey(nil) // of crypto/rand
	if err != nil {
		return err
	}
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return err
	}
	if err := h.PutLoginFolder(a); err != nil {
		return err
	}
	return h.PutLoginFile(a, fabric.LoginKey(mesh), nil, pem.EncodeToMemory(block), 0o600)
}

// Claims reports whether the atom is of this mesh's key.
func (keys) Claims(_ *facts.Snapshot, want KeySpec, a resource.Atom) bool {
	return a.Thing() == want.thing()
}

// Undo never touches the operator's connection: no key of ours is the operator's.
func (keys) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(shown(a, now(snap, a)), to), ""
}

// Known returns an error if the user cannot be looked up, or if the files cannot be read.
func (keys) Known(snap *facts.Snapshot, a resource.Atom) error { return known(snap, a) }

// ApplyUndo removes what apply made.
func (keys) ApplyUndo(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return revert(ctx, h, a, to)
}

// Asks returns the permission that logins of root need.
func (keys) Asks(snap *facts.Snapshot, c resource.Change) (allow, why string) { return asks(snap, c) }

// Restorer returns a restorer that knows whether there is a key. It never has the key.
func (keys) Restorer() resource.Restorer { return newRestorer(KeyKind) }

// entries is the provider of Kind.
type entries struct{}

// Status is what was found of a mesh.
type Status struct {
	Authorized bool              // authorized_keys exists, and no record says that it was made for another mesh alone
	Entries    map[string]string // our lines, by host
	Snippet    *facts.File
	Known      *facts.File
	Notes      []string
}

// Absent reports whether nothing of the mesh is there.
func (got *Status) Absent() bool {
	return len(got.Entries) == 0 && got.Snippet == nil && got.Known == nil
}

// Stage returns the persist stage: what is entered is a file.
func (entries) Stage() string { return resource.StagePersist }

// Title names a mesh as the files do.
func (entries) Title(a resource.Atom) string { return title(a.Thing()) }

// Part is what both kinds read.
func (entries) Part() facts.AnyPart { return part }

// Gather reads our lines of authorized_keys only.
func (entries) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	var wants []KeySpec
	for _, w := range look.Wants {
		wants = append(wants, KeySpec{Login: w.Login})
	}
	return gather(ctx, r, look.Snapshot, wants, look.Atoms)
}

// Observe returns an error if the user or the host's SSH cannot be used, or if a text that is wanted is not one of ours.
func (entries) Observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	if err := want.check(); err != nil {
		return nil, err
	}
	u := part.Of(snap)[want.User]
	if err := u.usable(want.Login); err != nil {
		return nil, err
	}
	if !u.Included && !want.Outside {
		return nil,
			fmt.Errorf("login_mesh %s: %s/ssh_config does not include %s/*.conf for all hosts, or there is no OpenSSH client: "+
				"install it, or add the line \"Include %[3]s/*.conf\" at the beginning", want.Mesh, sshDir, configDir)
	}
	got := &Status{Authorized: u.Authorized && !u.lacks(atomOf(Kind, want.Login, authorized)), Entries: map[string]string{}}
	for name, line := range u.Entries {
		if host, is := strings.CutPrefix(name, want.Mesh+":"); is {
			got.Entries[host] = line
		}
	}
	snippet, known := want.files()
	for path, into := range map[string]**facts.File{snippet: &got.Snippet, known: &got.Known} {
		if f, there := snap.Files[path]; there {
			*into = &f
		}
	}
	changes := len(entries{}.Diff(want, got)) > 0
	if changes || want.Outside {
		got.Notes = want.Notes
	}
	if changes {
		return got, u.checkAllowed(want.Login)
	}
	return got, nil
}

// Diff enters the keys, and writes the two files.
func (entries) Diff(want Spec, got *Status) (out []resource.Change) {
	if got == nil {
		return nil
	}
	add := func(from, to, refusal string, value ...string) {
		if from == to {
			return
		}
		c := atomOf(Kind, want.Login, value...).Change(from, to)
		if c.Stage = resource.StagePersist; from != "" {
			c.Refusal = refusal
		}
		out = append(out, c)
	}
	if want.Outside {
		return nil
	}
	if len(want.Entries) > 0 && !got.Authorized {
		add("", exists, "", authorized)
	}
	for _, e := range want.Entries {
		from := ""
		if line := got.Entries[e.Host]; line != "" {
			from = shownEntry(line)
		}
		add(from, shownEntry(e.line(want.Login)), "a line of authorized_keys ends in "+comment(want.Fabric, want.Mesh, e.Host)+
			", but fabricform did not write it: remove the line", "entry", e.Host)
	}
	snippet, known := want.files()
	for _, f := range []struct {
		path, text string
		got        *facts.File
	}{{snippet, want.Snippet, got.Snippet}, {known, want.Known, got.Known}} {
		from := ""
		if f.got != nil {
			from = f.got.Digest()
		}
		add(from, digest(f.text), f.path+" already exists, and fabricform did not write it: move it away", "file", f.path)
	}
	return out
}

// digest is that of a file as we write it.
func digest(text string) string {
	return facts.File{FileStat: host.FileStat{Mode: fileMode}, Text: text}.Digest()
}

// fileMode lets the user read our files, which hold no secret.
const fileMode fs.FileMode = 0o644

// Notes returns the remarks of the derivation, if something changes or is kept for other hosts.
func (entries) Notes(got *Status) []string { return got.Notes }

// Apply makes the changes. authorized_keys is written once.
func (entries) Apply(ctx context.Context, h host.Host, want Spec, changes []resource.Change) error {
	if err := want.check(); err != nil {
		return err
	}
	set := map[string]string{}
	for _, c := range changes {
		what, which, _ := strings.Cut(c.Attribute, " ")
		switch what {
		case "entry":
			i := slices.IndexFunc(want.Entries, func(e Entry) bool { return e.Host == which })
			set[want.Mesh+":"+which] = want.Entries[i].line(want.Login)
		case "file":
			text := want.Snippet
			if _, known := want.files(); which == known {
				text = want.Known
			}
			if err := h.PutFile(which, []byte(text), fileMode); err != nil {
				return err
			}
		}
	}
	return edit(ctx, h, want.User, set, false)
}

// edit sets our lines of a user's authorized_keys, by mesh and host; "" removes one. created says to remove the file if
// nothing is left in it, because we have made it.
func edit(ctx context.Context, h host.Host, user string, set map[string]string, created bool) error {
	if len(set) == 0 && !created {
		return nil
	}
	a, err := host.LookUp(ctx, h, user)
	if err != nil {
		return err
	}
	if a == nil {
		return fmt.Errorf("change authorized_keys of %s: no such user", user)
	}
	err = editOnce(ctx, h, *a, set, created)
	if errors.Is(err, host.ErrChanged) { // the user has edited the file meanwhile
		err = editOnce(ctx, h, *a, set, created)
	}
	return err
}

func editOnce(ctx context.Context, h host.Host, a host.Account, set map[string]string, created bool) error {
	f, err := h.LoginFile(ctx, a, host.AuthorizedKeys)
	if err != nil {
		return err
	}
	text, perm := "", fs.FileMode(0o600)
	if f != nil {
		text, perm = string(f.Text), f.Perm
	}
	was := text
	for _, name := range slices.Sorted(maps.Keys(set)) {
		text = setEntry(text, name, set[name])
	}
	switch {
	case created && text == "":
		return h.RemoveLoginFile(a, host.AuthorizedKeys)
	case text == was:
		return nil
	}
	return h.PutLoginFile(a, host.AuthorizedKeys, f, []byte(text), perm)
}

// Claims reports whether the atom is of this mesh. The entry of a host that is not reached stays.
func (entries) Claims(_ *facts.Snapshot, want Spec, a resource.Atom) bool {
	if a.Thing() != want.thing() {
		return false
	}
	what, which, _ := strings.Cut(a.Value(), " ")
	snippet, known := want.files()
	switch what {
	case "entry":
		return slices.Contains(want.Members, which)
	case "file":
		return !want.Outside && (which == snippet || which == known)
	}
	return what == "made"
}

// Undo never touches the operator's connection: the operator's own lines are not ours.
func (entries) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(shown(a, now(snap, a)), to), ""
}

// Known returns an error if the user cannot be looked up, or if the files cannot be read.
func (entries) Known(snap *facts.Snapshot, a resource.Atom) error { return known(snap, a) }

// ApplyUndo removes what apply made.
func (entries) ApplyUndo(ctx context.Context, h host.Host, _ *facts.Snapshot, a resource.Atom, to string) error {
	return revert(ctx, h, a, to)
}

// Asks returns the permission that logins of root need.
func (entries) Asks(snap *facts.Snapshot, c resource.Change) (allow, why string) {
	return asks(snap, c)
}

// Restorer returns a restorer that restores our lines and files.
func (entries) Restorer() resource.Restorer { return newRestorer(Kind) }
