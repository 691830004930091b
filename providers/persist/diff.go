package persist

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/netmanager"
	"github.com/fabricform/fabricform/resource"
)

// Kind is the resource kind "persist": at most one resource for each host.
const Kind = "persist"

// Observe computes the wanted files from the host's facts, and finds the existing ones. A file at one of our paths
// without our header is an error.
func Observe(snap *facts.Snapshot, s Spec) (*Status, error) {
	wanted, notes, err := Files(snap, s)
	if err != nil {
		return nil, err
	}
	waiting, more, err := waitingFiles(snap, s, wanted)
	if err != nil {
		return nil, err
	}
	notes = append(notes, more...)
	wanted = slices.DeleteFunc(wanted, func(f netmanager.File) bool { return waiting[f.Path] })
	got := &Status{Wanted: wanted, Notes: notes, Found: map[string]facts.File{}}
	if nobody(snap) {
		return got, nil // a manager that is stopped temporarily keeps its files
	}
	for at, f := range snap.Files {
		if netmanager.Ours(f.Text, s.Fabric) && slices.Contains(folders, path.Dir(at)) && !waiting[at] {
			got.Found[at] = f
		}
	}
	for _, f := range wanted {
		if f.Folder && slices.Contains(snap.Folders, f.Path) {
			got.Folders = append(got.Folders, f.Path)
		}
		if _, there := snap.Files[f.Path]; there && got.Found[f.Path].Text == "" {
			return nil, fmt.Errorf("%s already exists, but fabricform did not write it for the fabric %q: move it away", f.Path, s.Fabric)
		}
	}
	got.takings(snap, s, waiting)
	return got, nil
}

// waitingFiles returns the paths of the wanted files in which a NIC has a share that is left out, and a note on each file
// whose other shares must wait, too.
func waitingFiles(snap *facts.Snapshot, s Spec, wanted []netmanager.File) (waiting map[string]bool, notes []string, err error) {
	waiting = map[string]bool{}
	if len(s.LeftOut) == 0 {
		return waiting, nil, nil
	}
	rest, _, err := Files(snap, s.others(snap))
	if err != nil {
		return nil, nil, err
	}
	for _, f := range wanted {
		if f.Path == sumPath(s.Fabric) {
			continue // it follows the copy of this program, which is not left out
		}
		waiting[f.Path] = !slices.Contains(rest, f)
		shared := slices.ContainsFunc(rest, func(o netmanager.File) bool { return o.Path == f.Path })
		if waiting[f.Path] && shared && snap.Files[f.Path].Digest() != digest(f) {
			notes = append(notes,
				fmt.Sprintf("%s stays as it is, because it depends on nic %s, which is left out: "+
					"other changes in this file do not survive a reboot yet", f.Path, strings.Join(s.LeftOut, ", ")))
		}
	}
	return waiting, notes, nil
}

// takings notes which file each manager uses for a NIC, and which one it should use. A NIC whose file is waiting has none yet.
func (got *Status) takings(snap *facts.Snapshot, s Spec, waiting map[string]bool) {
	ls, err := links(snap, s)
	if err != nil {
		return // Files reports the error
	}
	for _, l := range ls {
		if !l.Written() || waiting[l.Manager.File(l)] || l.Manager.Reports == nil || l.By().Waits != nil && l.By().Waits(l) {
			continue
		}
		got.InUse = append(got.InUse, FileUse{Netdev: l.Link.Name, Now: netmanager.Part.Of(snap).Claims[l.Link.Name].File,
			Want: l.Manager.Reports(l), link: l})
	}
}

// Diff returns no change if the found files equal the wanted ones byte for byte and managers have read them. It is
// pure.
func Diff(got *Status) []resource.Change {
	var out []resource.Change
	wanted := map[string]bool{}
	for _, f := range got.Wanted {
		wanted[f.Path] = true
		switch found, there := got.Found[f.Path]; {
		case f.Folder && !slices.Contains(got.Folders, f.Path):
			out = append(out, change("folder", f.Path, "", "made"))
		case f.Folder:
		case !there:
			out = append(out, change("file", f.Path, "", digest(f)))
		case found.Digest() != digest(f):
			out = append(out, change("file", f.Path, found.Digest(), digest(f)))
		}
	}
	for _, at := range slices.Sorted(maps.Keys(got.Found)) {
		if !wanted[at] {
			out = append(out, change("file", at, got.Found[at].Digest(), ""))
		}
	}
	if len(out) > 0 {
		return out // Apply makes managers read the changed files anyway
	}
	for _, t := range got.InUse {
		if t.Now != t.Want {
			out = append(out, resource.Change{Attribute: "manager of " + t.Netdev, From: t.Now, To: t.Want, Stage: resource.StagePersist})
		}
	}
	return out
}

func change(what, at, from, to string) resource.Change {
	return resource.Change{Attribute: what + " " + at, From: from, To: to, Stage: resource.StagePersist,
		Atom: resource.NewAtom(Kind, what, at)}
}

// digest is the digest of a wanted file's content, mode and owner. It compares with that of a found file.
func digest(f netmanager.File) string {
	return facts.File{FileStat: host.FileStat{Mode: f.Mode}, Text: f.Text}.Digest()
}
