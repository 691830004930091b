// Package ncclconf writes NCCL's settings where every NCCL on a host finds them, in /etc/nccl.conf. The
// settings are derived from the model and from what the host is, so that they are known once it was
// read; the file is made in the persist stage, once what it speaks of was proven.
package ncclconf

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
)

// Kind is this room's resource kind: one resource for each host that has an nccl block.
const Kind = "nccl"

// Spec is the wanted file with all that was derived for it: what was shown is what is written.
type Spec struct {
	Fabric  string   `json:"fabric"`
	File    string   `json:"file"`
	Replace bool     `json:"replace,omitempty"` // what somebody else wrote there
	Env     nccl.Env `json:"env"`
	Wrong   []string `json:"wrong,omitempty"` // why the settings cannot work
	Notes   []string `json:"notes,omitempty"` // what else is good to know
	// Sources is for reading alone: what settings are derived from is read, too.
	Sources bool `json:"sources,omitempty"`
}

// Status is what stands in the file's place.
type Status struct {
	File  *facts.File // nil: nothing
	Ours  bool        // a fabric of this name wrote it
	Kept  *facts.File // what somebody else's file, replaced before, is kept as; nil: none
	Notes []string
}

// Absent says that nothing stands in the file's place.
func (got *Status) Absent() bool { return got.File == nil }

// mode lets all users' jobs read the file.
const mode fs.FileMode = 0o644

// header marks a file as ours. NCCL before 2.26.2 knows no comments, and takes what has no = for nothing.
func header(fabric string) string {
	return fmt.Sprintf("# NCCL's settings on this host, by fabricform for the fabric %q.\n# What is written here by hand is undone by its next apply: nccl.env in its files adds variables.\n", fabric)
}

// text is the whole file.
func (s Spec) text() (string, error) {
	body, err := nccl.RenderConf(s.Env)
	if err != nil {
		return "", fmt.Errorf("nccl: %w", err)
	}
	return header(s.Fabric) + string(body), nil
}

// before is the path of the backup of another's file that ours replaced.
func before(file string) string { return file + ".before-fabricform" }

// observe finds the file, and says why the settings cannot be written: they cannot work, or what is
// there is no plain file.
func observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	if len(want.Wrong) > 0 {
		return nil, fmt.Errorf("these NCCL settings cannot work: %s", strings.Join(want.Wrong, "; "))
	}
	if err := host.OwnFile(want.File); err != nil {
		return nil, err
	}
	if _, err := want.text(); err != nil {
		return nil, err
	}
	got := &Status{Notes: want.Notes}
	if f, there := snap.Files[want.File]; there {
		if !f.Mode.IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file (%s): move it away, or set nccl.write = false", want.File, f.Mode)
		}
		got.File, got.Ours = &f, strings.HasPrefix(f.Text, header(want.Fabric))
		if !got.Ours && want.Replace && (f.UID != 0 || f.GID != 0) {
			return nil, fmt.Errorf("%s belongs to user %d and group %d, and this ownership could not be restored: move it away", want.File, f.UID, f.GID)
		}
	}
	if f, there := snap.Files[before(want.File)]; there {
		got.Kept = &f
	}
	return got, nil
}

// atom is "nccl file PATH"; its value is the file's digest.
func atom(file string) resource.Atom { return resource.NewAtom(Kind, "file", file) }
