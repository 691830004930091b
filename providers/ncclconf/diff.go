package ncclconf

import (
	"fmt"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/nccl/env"
	"github.com/fabricform/fabricform/resource"
)

// diff returns no change if the found file equals the wanted one byte for byte. The first change is the file, which is
// the owned atom. The others show how the variables change, as NCCL reads them. It is pure.
func diff(want Spec, got *Status) []resource.Change {
	if got == nil || len(want.LeftOut) > 0 {
		return nil // Observe reports the error
	}
	text, err := want.text(got.File)
	if err != nil {
		return nil // Observe reports the error
	}
	to := facts.File{FileStat: host.FileStat{Mode: mode}, Text: text}.Digest()
	c := resource.Change{Attribute: "file " + want.File, To: to, Stage: resource.StagePersist,
		Atom: atom(want.File), Salted: want.salts(got.File)}
	found := ""
	if got.File != nil {
		c.From, found = got.File.Digest(), got.File.Text
		if c.From == to {
			return nil
		}
		c.Refusal = refusal(want, got)
	}
	return append([]resource.Change{c}, variables(found, text)...)
}

// refusal returns why the existing file is not replaced, or "" if it may be. There is only one backup, which may have to
// be restored, so a second file of others cannot be backed up.
func refusal(want Spec, got *Status) string {
	switch {
	case got.File == nil || got.Ours:
		return ""
	case !want.Replace:
		return foreign(want.File, got.File.Text)
	case got.Backup != nil && got.Backup.Digest() != got.File.Digest():
		return fmt.Sprintf("fabricform did not write %s, and cannot back it up, because %s is the backup of an earlier file: "+
			"move %[1]s away, or move %[2]s away if it need not be restored", want.File, before(want.File))
	}
	return ""
}

// foreign returns why a file that somebody else wrote is not replaced unless nccl.replace is set.
func foreign(file, text string) string {
	var names []string
	for _, s := range env.ReadConf(text) {
		names = append(names, s.Name)
	}
	sets := "nothing"
	if len(names) > 0 {
		sets = strings.Join(names[:min(len(names), 5)], ", ")
	}
	if len(names) > 5 {
		sets += fmt.Sprintf(" and %d more", len(names)-5)
	}
	return fmt.Sprintf("%s already exists, and fabricform did not write it (it sets %q): move it away; "+
		"or copy the settings that you need to nccl.env and set nccl.replace = true, "+
		"which backs the file up as %s and restores it when ours is removed; or set nccl.write = false. "+
		"`fabricform explain nccl.conf` shows the problems in a copy of the file", file, sets, before(file))
}

// variables returns the differences of two files as NCCL reads them, in the order of the second file.
func variables(from, to string) (out []resource.Change) {
	was := map[string]string{}
	old := env.ReadConf(from)
	for _, s := range old {
		was[s.Name] = s.Value
	}
	kept := map[string]bool{}
	hidden := facts.SensitiveIn(from + "\n" + to)
	add := func(name, from, to string) {
		if _, hide := hidden[name]; hide {
			from, to = masked(from), masked(to)
		}
		out = append(out, resource.Change{Attribute: name, From: from, To: to, Stage: resource.StagePersist})
	}
	for _, s := range env.ReadConf(to) {
		v, there := was[s.Name]
		kept[s.Name] = true
		if !there || v != s.Value {
			add(s.Name, shown(v, there), shown(s.Value, true))
		}
	}
	for _, s := range old {
		if !kept[s.Name] {
			add(s.Name, shown(s.Value, true), "")
		}
	}
	return out
}

// masked hides a value that is there.
func masked(value string) string {
	if value == "" {
		return ""
	}
	return fabric.Sensitive
}

// shown returns a value as a change writes it, where an empty text means absence.
func shown(value string, there bool) string {
	if there && value == "" {
		return "(empty)"
	}
	return value
}
