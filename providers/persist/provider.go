package persist

import (
	"context"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// Kinds returns the kinds of this package. The release of NICs comes before the persistent files, and so does the program that they start.
func Kinds() resource.Kinds {
	return resource.Kinds{resource.Erase[Spec, Charge](KindManager, handsOff{}), resource.Erase[Program, Copy](KindProgram, programs{}),
		resource.Erase[Spec, Status](Kind, provider{})}
}

type provider struct{}

// Gather reads the managers of links, our own files, and settings that managers would otherwise override.
func (provider) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	snap := look.Snapshot
	netmanager.Gather(ctx, r, snap)
	var in []string
	if len(look.Wants) > 0 {
		in = folders
		for _, l := range snap.Links {
			snap.ReadSysctls(ctx, r, facts.LinkSysctl(netmanager.AddrGenMode, l.Name))
		}
		snap.ReadSysctls(ctx, r, facts.LinkSysctl(netmanager.AddrGenMode, "default")) // of a link that does not exist yet
	}
	if slices.ContainsFunc(look.Wants, func(s Spec) bool { return len(s.QoS) > 0 }) {
		if err := gatherBoot(ctx, r, snap, true); err != nil {
			return err
		}
	}
	for _, a := range look.Atoms {
		if a.Thing() == "folder" {
			in = append(in, a.Value())
		} else {
			in = append(in, path.Dir(a.Value()))
		}
	}
	return snap.ReadFiles(ctx, r, in...)
}

// Part holds the managers and the links that they configure.
func (provider) Part() facts.AnyPart { return netmanager.Part }

func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) { return Observe(snap, want) }

func (provider) Diff(_ Spec, got *Status) []resource.Change {
	if got == nil {
		return nil // Observe never returns nil
	}
	return Diff(got)
}

// Without leaves the files as they are in which one of the NICs has a share.
func (provider) Without(want Spec, nics []string) Spec { return want.without(nics) }

// Stage is the stage of all changes of this kind, including those that undo a file.
func (provider) Stage() string { return resource.StagePersist }

// Boots says that the files set what other kinds set now.
func (provider) Boots() {}

// Patience is how long a network manager may take to check the files, to load them and to activate them.
func (provider) Patience() time.Duration { return managerPatience }

// Notes describes the settings that are not persisted.
func (provider) Notes(got *Status) []string { return got.Notes }

// Apply makes the changes after managers have accepted a staged copy of all wanted files.
func (p provider) Apply(ctx context.Context, h host.Host, want Spec, changes []resource.Change) error {
	snap, got, err := p.gatherChecked(ctx, h, want)
	if err != nil {
		return err
	}
	return apply(ctx, h, snap, want, got, changes)
}

// Check makes managers parse a staged copy of all wanted files.
func (p provider) Check(ctx context.Context, h host.Host, want Spec) error {
	_, _, err := p.gatherChecked(ctx, h, want)
	return err
}

func (p provider) gatherChecked(ctx context.Context, h host.Host, want Spec) (*facts.Snapshot, *Status, error) {
	snap, err := resource.Gather(ctx, h, p, want)
	if err != nil {
		return nil, nil, err
	}
	got, err := Observe(snap, want)
	if err != nil {
		return nil, nil, err
	}
	return snap, got, Check(ctx, h, got.Wanted)
}

// Claims claims all files of the fabric: Diff removes the unexpected ones.
func (provider) Claims(snap *facts.Snapshot, want Spec, a resource.Atom) bool {
	f, there := snap.Files[a.Value()]
	switch {
	case !there && a.Thing() == "file":
		return true // nothing to undo
	case there:
		return netmanager.Ours(f.Text, want.Fabric)
	}
	files, _, err := Files(snap, want)
	return err != nil || slices.ContainsFunc(files, func(f netmanager.File) bool { return f.Path == a.Value() })
}

// live returns the digest of a file, or "made" for an existing folder.
func (provider) live(snap *facts.Snapshot, a resource.Atom) string {
	if a.Thing() == "folder" && slices.Contains(snap.Folders, a.Value()) {
		return "made"
	}
	if f, there := snap.Files[a.Value()]; there {
		return f.Digest()
	}
	return ""
}

// Undo never touches the operator's connection: files act only at the next boot or reload.
func (p provider) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

// ApplyUndo removes the file, because there was none before ours.
func (p provider) ApplyUndo(ctx context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	if to != "" {
		return fmt.Errorf("cannot restore %s: the backup has no earlier file", a)
	}
	return p.ApplyUndos(ctx, h, snap, []resource.Atom{a})
}

// ApplyUndos removes all files before managers read what is left: networkd configures the members of a bond anew when the file of the
// bond is gone and theirs are not (seen with 257). A folder that others use now remains.
func (provider) ApplyUndos(ctx context.Context, h host.Host, snap *facts.Snapshot, atoms []resource.Atom) error {
	var todo []step
	for _, a := range atoms {
		if f, there := snap.Files[a.Value()]; there && a.Thing() != "folder" {
			todo = append(todo, step{path: a.Value(), was: &f})
		}
	}
	if len(todo) > 0 {
		if err := write(ctx, h, todo); err != nil {
			return err
		}
	}
	for _, a := range atoms {
		if a.Thing() != "folder" {
			continue
		}
		if names, err := h.ReadDir(ctx, a.Value()); err == nil && len(names) > 0 {
			continue
		}
		if err := h.RemoveFile(a.Value()); err != nil {
			return err
		}
	}
	return nil
}
