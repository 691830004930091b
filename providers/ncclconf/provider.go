package ncclconf

import (
	"context"
	"fmt"
	"path"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// Kinds returns the kind of this package.
func Kinds() resource.Kinds {
	return resource.Kinds{resource.Erase[Spec, Status](Kind, provider{homes: new(homes)})}
}

type provider struct{ homes *homes }

// Gather reads the file's folder, and for a spec with Sources also the facts from which settings are derived.
func (p provider) Gather(ctx context.Context, r host.Reader, look resource.Look[Spec]) error {
	var in []string
	var places []SettingsSource
	for _, want := range look.Wants {
		in = append(in, path.Dir(want.File))
		if want.Sources {
			look.Snapshot.ReadNCCL(ctx, r)
		}
		if want.Sources && look.Patient {
			places = p.homes.elsewhere(ctx, r)
		}
	}
	for _, a := range look.Atoms {
		in = append(in, path.Dir(a.Value()))
	}
	Part.Put(look.Snapshot, places)
	return look.Snapshot.ReadFiles(ctx, r, in...)
}

func (provider) Observe(snap *facts.Snapshot, want Spec) (*Status, error) { return observe(snap, want) }

func (provider) Diff(want Spec, got *Status) []resource.Change { return diff(want, got) }

// Without leaves the file as it is.
func (provider) Without(want Spec, nics []string) Spec {
	want.LeftOut, want.Notes = nics, nil
	return want
}

// Stage returns the persist stage: settings are written after the devices that they name are proven.
func (provider) Stage() string { return resource.StagePersist }

// Notes returns the notes from the derivation of the settings.
func (provider) Notes(got *Status) []string { return got.Notes }

// Stable returns only the file.
func (provider) Stable(got *Status) any { return got.File }

// Apply writes the file, after it has backed up a file that somebody else wrote.
func (p provider) Apply(ctx context.Context, h host.Host, want Spec, _ []resource.Change) error {
	snap, err := resource.Gather(ctx, h, p, want)
	if err != nil {
		return err
	}
	got, err := observe(snap, want)
	if err != nil {
		return err
	}
	if why := refusal(want, got); why != "" {
		return fmt.Errorf("write %s: %s", want.File, why)
	}
	if got.File != nil && !got.Ours {
		if err := h.PutFile(before(want.File), []byte(got.File.Text), got.File.Mode.Perm()); err != nil {
			return err
		}
	}
	text, err := want.text(got.File)
	if err != nil {
		return err
	}
	return h.PutFile(want.File, []byte(text), mode)
}

// Claims reports whether the atom is this file.
func (provider) Claims(_ *facts.Snapshot, want Spec, a resource.Atom) bool {
	return a == atom(want.File)
}

// live returns the file's digest; "" if there is no file.
func (provider) live(snap *facts.Snapshot, a resource.Atom) string {
	if f, there := snap.Files[a.Value()]; there {
		return f.Digest()
	}
	return ""
}

// Undo never affects the operator's connection, because SSH does not use NCCL's settings.
func (p provider) Undo(snap *facts.Snapshot, a resource.Atom, to string) (resource.Change, string) {
	return a.Change(p.live(snap, a), to), ""
}

// ApplyUndo removes the file, and restores the one that it replaced.
func (provider) ApplyUndo(_ context.Context, h host.Host, snap *facts.Snapshot, a resource.Atom, to string) error {
	if to == "" {
		return h.RemoveFile(a.Value())
	}
	kept, there := snap.Files[before(a.Value())]
	if !there || kept.Digest() != to {
		return fmt.Errorf("revert %s: the backup %s of the earlier file is missing: repair the file by hand, and apply again",
			a.Value(), before(a.Value()))
	}
	if err := h.PutFile(a.Value(), []byte(kept.Text), kept.Mode.Perm()); err != nil {
		return err
	}
	return h.RemoveFile(before(a.Value()))
}

// Local marks what is read from a file of the host: without Look.Patient, no home is searched.
func (provider) Local() {}
