// Package ncclconf writes NCCL's settings to /etc/nccl.conf, which every NCCL on a host reads. The settings are derived
// from the declared fabric and from the facts of the host, so they are known when the host has been read. The file is
// written in the persist stage, after the devices that it names are proven.
package ncclconf

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl"
	"github.com/fabricform/fabricform/resource"
)

// Kind is the resource kind "nccl": one resource for each host that gets an NCCL file.
const Kind = "nccl"

// Spec is the wanted file with everything derived for it, so that apply writes exactly what the plan showed.
type Spec struct {
	Fabric  string   `json:"fabric"`
	File    string   `json:"file"`
	Replace bool     `json:"replace,omitempty"` // replace a file that somebody else wrote
	Env     nccl.Env `json:"env"`
	// Sensitive has a salt for each variable whose value is sensitive.
	Sensitive map[string]string `json:"sensitive,omitempty"`
	Wrong     []string          `json:"wrong,omitempty"` // why the settings cannot work
	Notes     []string          `json:"notes,omitempty"` // other facts that the operator should know
	// Sources makes Gather also read the facts from which settings are derived. Such a spec is only read.
	Sources bool `json:"sources,omitempty"`
	// LeftOut names NICs that stay as they are on the host. The settings are derived from all NICs, so the file stays, too.
	LeftOut []string `json:"left_out,omitempty"`
}

// Status is the file that was found, and its backup.
type Status struct {
	File   *facts.File // nil if there is none
	Ours   bool        // a fabric of this name wrote it
	Backup *facts.File // backup of another's file that ours replaced; nil if there is none
	Notes  []string
}

// Absent reports whether there is no file.
func (got *Status) Absent() bool { return got.File == nil }

// mode lets the jobs of all users read the file.
const mode fs.FileMode = 0o644

// mark names the fabric that owns the file. Earlier and later builds know their files by it, so it does not change.
func mark(fabric string) string {
	return fmt.Sprintf("# NCCL's settings on this host, by fabricform for the fabric %q.\n", fabric)
}

// header is the head of our file: the mark, and a line for readers. NCCL before 2.26.2 has no comments, but ignores lines
// without "=".
func header(fabric string) string {
	return mark(fabric) + "# What is written here by hand is undone by its next apply: nccl.env in its files adds variables.\n"
}

// text returns the content of the file. It keeps the salts of the found file, so that equal values make equal files.
func (s Spec) text(found *facts.File) (string, error) {
	body, err := nccl.RenderConf(s.Env)
	if err != nil {
		return "", fmt.Errorf("nccl: %w", err)
	}
	salts := saltsOf(found)
	out := header(s.Fabric)
	for _, name := range slices.Sorted(maps.Keys(s.Sensitive)) {
		out += facts.SensitiveMark + name + " " + cmp.Or(salts[name], s.Sensitive[name]) + "\n"
	}
	return out + string(body), nil
}

// salts reports whether the file gets a salt that the found one does not have.
func (s Spec) salts(found *facts.File) bool {
	salts := saltsOf(found)
	for name := range s.Sensitive {
		if salts[name] == "" {
			return true
		}
	}
	return false
}

func saltsOf(found *facts.File) map[string]string {
	if found == nil {
		return nil
	}
	return facts.SensitiveIn(found.Text)
}

// before returns the path of the backup of another's file that ours replaced.
func before(file string) string { return file + ".before-fabricform" }

// observe returns the found file, or an error if the settings cannot work or if the file cannot be replaced.
func observe(snap *facts.Snapshot, want Spec) (*Status, error) {
	if len(want.Wrong) > 0 && len(want.LeftOut) == 0 {
		return nil, fmt.Errorf("these NCCL settings cannot work: %s", strings.Join(want.Wrong, "; "))
	}
	if err := host.OwnFile(want.File); err != nil {
		return nil, err
	}
	if _, err := want.text(nil); err != nil {
		return nil, err
	}
	got := &Status{Notes: want.Notes}
	if f, there := snap.Files[want.File]; there {
		if !f.Mode.IsRegular() {
			return nil, fmt.Errorf("%s is not a regular file (%s): move it away, or set nccl.write = false", want.File, f.Mode)
		}
		got.File, got.Ours = &f, strings.HasPrefix(f.Text, mark(want.Fabric))
		if !got.Ours && want.Replace && (f.UID != 0 || f.GID != 0) {
			return nil, fmt.Errorf("%s belongs to user %d and group %d, and this ownership could not be restored: move it away",
				want.File, f.UID, f.GID)
		}
	}
	if f, there := snap.Files[before(want.File)]; there {
		got.Backup = &f
	}
	return got, nil
}

// atom returns the atom "nccl file PATH". Its value is the file's digest.
func atom(file string) resource.Atom { return resource.NewAtom(Kind, "file", file) }
