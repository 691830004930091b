package loginmesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// A value of this package is a text: our line, the text of our file, or that something exists. "" means that it is absent.

// now returns the value of an atom in a snapshot; "" if it is absent.
func now(snap *facts.Snapshot, a resource.Atom) string {
	user, mesh, _ := strings.Cut(a.Thing(), "/")
	u := part.Of(snap)[user]
	what, which, _ := strings.Cut(a.Value(), " ")
	is := func(there bool) string {
		if there {
			return exists
		}
		return ""
	}
	switch {
	case what == "file":
		return snap.Files[which].Text
	case u == nil || u.Why != "":
		return ""
	case what == "key":
		return is(u.Keys[mesh] != "")
	case what == folder:
		return is(u.Folder)
	case what == "made":
		return is(u.Authorized)
	case what == "entry":
		return u.Entries[mesh+":"+which]
	}
	return ""
}

// known returns an error unless the snapshot says whether the atom is there. A user who is not found may be one whose directory
// server does not answer: what was made for the user is not forgotten.
func known(snap *facts.Snapshot, a resource.Atom) error {
	user, mesh, ofUser := strings.Cut(a.Thing(), "/")
	if what, _, _ := strings.Cut(a.Value(), " "); what == "file" || !ofUser { // no user is looked for
		return nil
	}
	switch u := part.Of(snap)[user]; {
	case u == nil:
		return fmt.Errorf("login_mesh %s: the host did not look for user %s", mesh, user)
	case u.Why != "":
		return fmt.Errorf("login_mesh %s: %s. What was made for the user is removed once this is put right", mesh, u.Why)
	}
	return nil
}

// asks returns the permission that a rollback needs to let root log in again: the same that an apply needs.
func asks(snap *facts.Snapshot, c resource.Change) (allow, why string) {
	user, mesh, _ := strings.Cut(c.Atom.Thing(), "/")
	root := user == "root"
	if u := part.Of(snap)[user]; u != nil && u.Account.Name != "" {
		root = u.Account.UID == 0
	}
	if c.To == "" || !root {
		return "", ""
	}
	return "root-login", fmt.Sprintf("root could again log in to this host from the other hosts of login_mesh %s", mesh)
}

// shown is a value as plans and records show it.
func shown(a resource.Atom, value string) string {
	what, _, _ := strings.Cut(a.Value(), " ")
	switch {
	case value == "":
		return ""
	case what == "key":
		return made
	case what == "entry":
		return shownEntry(value)
	case what == "file":
		return digest(value)
	}
	return value
}

// put gives an atom a value. A key is made anew, because no copy of it exists.
func put(ctx context.Context, h host.Host, a resource.Atom, value string) error {
	user, mesh, _ := strings.Cut(a.Thing(), "/")
	what, which, _ := strings.Cut(a.Value(), " ")
	switch what {
	case "file":
		if value == "" {
			return h.RemoveFile(which)
		}
		return h.PutFile(which, []byte(value), fileMode)
	case "entry":
		return edit(ctx, h, user, map[string]string{mesh + ":" + which: value}, false)
	case "made":
		return edit(ctx, h, user, nil, value == "")
	}
	of, err := host.LookUp(ctx, h, user)
	if err != nil {
		return err
	}
	switch {
	case of == nil:
		return fmt.Errorf("restore %q: no user %s", a, user)
	case what == "key" && value == "":
		return h.RemoveLoginFile(*of, fabric.LoginKey(mesh))
	case what == "key":
		if err := makeKey(h, *of, mesh, "fabricform:"+mesh); !errors.Is(err, host.ErrChanged) {
			return err
		}
		return nil // another host has made one in a home that both share
	case what == folder && value == "":
		return h.RemoveLoginFolder(*of)
	case what == folder:
		return h.PutLoginFolder(*of)
	}
	return fmt.Errorf("%q: this build cannot change such a value", a)
}

// revert removes what apply made. Nothing of this package replaces a value of others.
func revert(ctx context.Context, h host.Host, a resource.Atom, to string) error {
	if to != "" {
		return fmt.Errorf("revert %q: its earlier value %q is not known", a, to)
	}
	return put(ctx, h, a, "")
}

// restorer restores the values of one kind of this package, by atom; "" if one was absent. The values of keys say only whether there
// is one that this host has made: a key that was removed is made anew, and the next apply enters it. A key that another host has made,
// in a home that both share, is not in this host's records, and stays.
type restorer struct {
	resource.ValueRestorer[string]
	kind string
}

func newRestorer(kind string) restorer {
	return restorer{resource.ValueRestorer[string]{Of: "login meshes", Read: readValues, Lists: itemsOf}, kind}
}

// Name names the restorer's part of a backup.
func (k restorer) Name() string { return k.kind }

// Save reads the values of the atoms.
func (k restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var names []string
	for _, a := range atoms {
		names = append(names, string(a))
	}
	return k.Backup(ctx, r, names)
}

func readValues(ctx context.Context, r host.Reader, names []string) (map[string]string, error) {
	var atoms []resource.Atom
	for _, name := range names {
		atoms = append(atoms, resource.Atom(name))
	}
	out, snap := map[string]string{}, &facts.Snapshot{}
	if err := gather(ctx, r, snap, nil, atoms); err != nil {
		return nil, err
	}
	owned, err := ownedBy(ctx, r)
	if err != nil {
		return nil, err
	}
	for _, a := range atoms {
		user, _, _ := strings.Cut(a.Thing(), "/")
		if u := part.Of(snap)[user]; u != nil && u.Why != "" {
			return nil, errors.New(u.Why) // what cannot be read is not absent
		}
		out[string(a)] = now(snap, a)
		if a.Kind() == KeyKind && !owned[a] {
			out[string(a)] = ""
		}
	}
	return out, nil
}

// ownedBy returns the atoms in the host's records.
func ownedBy(ctx context.Context, r host.Reader) (map[resource.Atom]bool, error) {
	records, err := r.Records(ctx)
	if err != nil {
		return nil, err
	}
	out := map[resource.Atom]bool{}
	for _, text := range records {
		var of resource.Record
		if err := json.Unmarshal(text, &of); err != nil {
			return nil, fmt.Errorf("read who made the keys of login meshes: %w", err)
		}
		for a := range of.Atoms {
			out[a] = true
		}
	}
	return out, nil
}

func itemsOf(name, value string) []resource.Item {
	if value == "" {
		return nil
	}
	a := resource.Atom(name)
	return []resource.Item{{Key: name, State: value, Shown: shown(a, value), As: resource.Change{Attribute: a.Value(), Atom: a}}}
}

// Restore sets the values that differ. What is removed goes in the order of the atoms: entries before their file, and the key
// before its folder. What is made goes in the other order.
func (k restorer) Restore(ctx context.Context, h host.Host, data json.RawMessage) ([]string, error) {
	of, err := k.Decode(data)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(of))
	live, err := readValues(ctx, h, names)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range names {
		if live[name] != of[name] && of[name] == "" {
			errs = append(errs, put(ctx, h, resource.Atom(name), ""))
		}
	}
	for _, name := range slices.Backward(names) {
		if live[name] != of[name] && of[name] != "" {
			errs = append(errs, put(ctx, h, resource.Atom(name), of[name]))
		}
	}
	if live, err = readValues(ctx, h, names); err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	var differs []string
	for _, name := range names {
		what, _, _ := strings.Cut(resource.Atom(name).Value(), " ")
		filled := of[name] == "" && (what == "made" || what == folder)  // what others have put there since keeps it
		made := of[name] != "" && resource.Atom(name).Kind() == KeyKind // the record that has it is restored after this
		if live[name] != of[name] && !filled && !made {
			differs = append(differs, name+" is not as it was")
		}
	}
	return differs, errors.Join(errs...)
}
