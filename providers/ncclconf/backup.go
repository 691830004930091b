package ncclconf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// restorer restores the file and its backup exactly.
type restorer struct {
	resource.ValueRestorer[*facts.File] // by path; nil if there was none
}

// Restorer returns a restorer that restores both files.
func (provider) Restorer() resource.Restorer {
	return restorer{resource.ValueRestorer[*facts.File]{Of: "files", Read: facts.FilesAt, Lists: itemsOf}}
}

// Name names the part.
func (restorer) Name() string { return Kind }

// Save reads the files that the atoms name, and their backups.
func (k restorer) Save(ctx context.Context, r host.Reader, atoms []resource.Atom) (json.RawMessage, error) {
	var paths []string
	for _, a := range atoms {
		if a != atom(a.Value()) || host.OwnFile(a.Value()) != nil {
			return nil, fmt.Errorf("%q: this build cannot change such a value", a)
		}
		paths = append(paths, a.Value(), before(a.Value()))
	}
	return k.Backup(ctx, r, paths)
}

// itemsOf lists a file, and each of its lines: somebody may have added a line to ours.
func itemsOf(at string, f *facts.File) (out []resource.Item) {
	if f == nil {
		return nil
	}
	mode := fmt.Sprintf("%04o", f.Mode.Perm())
	as := resource.Change{Attribute: at, Atom: atom(strings.TrimSuffix(at, before("")))}
	out = append(out, resource.Item{Key: at, State: fmt.Sprintf("%s %s %d:%d", f.Mode.Type(), mode, f.UID, f.GID),
		Shown: "mode " + mode, As: as})
	hidden := facts.SensitiveIn(f.Text)
	for _, l := range linesOf(at, f) {
		i := resource.Item{Key: l.key, State: l.text, Shown: l.text, As: as, Own: l.name == ""} // a comment is no setting
		if l.name != "" {
			i.As.Attribute, i.Shown = l.name, strings.TrimPrefix(strings.TrimSpace(l.text), l.name+"=")
			_, i.Sensitive = hidden[strings.TrimSpace(l.name)]
		}
		out = append(out, i)
	}
	return out
}

// line is one line of a file. Its key has the variable's name, and counts the lines with the same one.
type line struct{ key, name, text string }

func linesOf(at string, f *facts.File) (out []line) {
	if f == nil || f.Text == "" {
		return nil
	}
	count := map[string]int{}
	for _, text := range strings.Split(strings.TrimSuffix(f.Text, "\n"), "\n") {
		name, _, set := strings.Cut(strings.TrimSpace(text), "=")
		if !set || strings.HasPrefix(name, "#") {
			name = ""
		}
		id := name
		if name == "" {
			id = "# " + text
		}
		count[id]++
		out = append(out, line{fmt.Sprintf("%s %s %d", at, id, count[id]), name, text})
	}
	return out
}

// Merge copies the lines that the keys name, and appends those that are new. A sensitive line brings its mark.
func (k restorer) Merge(part, now json.RawMessage, keys map[string]bool) (json.RawMessage, []string, error) {
	return k.MergeBy(part, now, func(was, live map[string]*facts.File) {
		for at, f := range was {
			was[at] = merge(at, f, live[at], keys)
		}
	})
}

func merge(at string, was, now *facts.File, keys map[string]bool) *facts.File {
	found := map[string]line{}
	for _, l := range linesOf(at, now) {
		found[l.key] = l
	}
	had := map[string]bool{}
	var text strings.Builder
	write := func(l line) { text.WriteString(l.text + "\n") }
	marks := map[string]string{} // which the result needs
	if now != nil {
		marks = facts.SensitiveIn(now.Text)
	}
	if was != nil {
		for name := range facts.SensitiveIn(was.Text) {
			delete(marks, name)
		}
	}
	copied := func(l line) {
		name := strings.TrimSpace(l.name)
		if salt, hidden := marks[name]; hidden {
			text.WriteString(facts.SensitiveMark + name + " " + salt + "\n")
			delete(marks, name)
		}
		write(l)
	}
	for _, l := range linesOf(at, was) {
		had[l.key] = true
		if n, there := found[l.key]; keys[l.key] && there {
			copied(n)
		} else if !keys[l.key] {
			write(l)
		}
	}
	for _, l := range linesOf(at, now) {
		if keys[l.key] && !had[l.key] {
			copied(l)
		}
	}
	out := was
	if keys[at] || was == nil && text.Len() > 0 {
		out = now
	}
	if out == nil || text.String() == out.Text {
		return out
	}
	changed := *out
	if changed.Text = text.String(); was != nil && !strings.HasSuffix(was.Text, "\n") &&
		strings.TrimSuffix(changed.Text, "\n") == was.Text {
		changed.Text = was.Text
	}
	return &changed
}

// Restore writes the files that differ.
func (k restorer) Restore(ctx context.Context, h host.Host, part json.RawMessage) ([]string, error) {
	files, err := k.Decode(part)
	if err != nil {
		return nil, err
	}
	var errs []error
	var differs []string
	for _, at := range slices.Sorted(maps.Keys(files)) {
		now, err := facts.FileAt(ctx, h, at)
		switch {
		case err != nil:
		case files[at] == nil: // a reset in the middle of a write leaves a hidden file behind
			err = h.RemoveFile(at)
		case now == nil || *now != *files[at]:
			err = h.PutFile(at, []byte(files[at].Text), files[at].Mode.Perm())
		}
		errs = append(errs, err)
		now, err = facts.FileAt(ctx, h, at)
		if errs = append(errs, err); (now == nil) != (files[at] == nil) || now != nil && *now != *files[at] {
			differs = append(differs, at+" is not as it was")
		}
	}
	return differs, errors.Join(errs...)
}
