//go:build linux

package persist

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// owned is a fake whose files may belong to somebody else.
type owned struct {
	managed
	uid map[string]int
}

func (o owned) Stat(ctx context.Context, p string) (host.FileStat, error) {
	s, err := o.managed.Stat(ctx, p)
	s.UID = o.uid[p]
	return s, err
}

// copyOf plans the copy of the fabric "lab".
func copyOf(t *testing.T, h host.Host) (*Copy, []resource.Change, error) {
	t.Helper()
	want := Program{Fabric: "lab"}
	snap, err := resource.Gather[Program](t.Context(), h, programs{}, want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := programs{}.Observe(snap, want)
	return got, programs{}.Diff(want, got), err
}

func put(t *testing.T, f *fake, path, text string, mode os.FileMode) {
	t.Helper()
	dir := f.root + path[:strings.LastIndex(path, "/")]
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(f.root+path, []byte(text), mode), os.Chmod(f.root+path, mode)); err != nil {
		t.Fatal(err)
	}
}

// TestOnlyOurOwnCopyIsReplaced: what systemd runs as root is ours, and nobody but root can replace it.
func TestOnlyOurOwnCopyIsReplaced(t *testing.T) {
	at := copyPath("lab")
	ours := func(f *fake) { put(t, f, sumPath("lab"), "# Made by fabricform for the fabric \"lab\".\n", 0o644) }
	for name, c := range map[string]struct {
		make func(f *fake)
		uid  map[string]int
		says string // of the error; "" if the plan has changes
		none bool   // there are no changes
	}{
		"no copy":       {make: func(*fake) {}},
		"the copy":      {make: func(f *fake) { put(t, f, at, program, 0o755) }, none: true},
		"another mode":  {make: func(f *fake) { put(t, f, at, program, 0o775); ours(f) }},
		"another owner": {make: func(f *fake) { put(t, f, at, program, 0o755); ours(f) }, uid: map[string]int{at: 1000}},
		"damaged":       {make: func(f *fake) { put(t, f, at, program[:4], 0o755); ours(f) }},
		"without its hash": {make: func(f *fake) {
			put(t, f, at, "x", 0o755)
			put(t, f, classesPath("lab"), "# Made by fabricform for the fabric \"lab\".\n", 0o644)
		}},
		"somebody else's file": {make: func(f *fake) { put(t, f, at, "#!/bin/sh", 0o755) }, says: "did not write it for the fabric \"lab\": move it away"},
		"a file of another fabric": {make: func(f *fake) {
			put(t, f, at, "x", 0o755)
			put(t, f, sumPath("lab"), "# Made by fabricform for the fabric \"l\".\n", 0o644)
		}, says: "move it away"},
		"a symbolic link": {make: func(f *fake) {
			put(t, f, host.ProgramFolder+"/x", "", 0o600)
			os.Symlink("/bin/sh", f.root+at)
			ours(f)
		}, says: "is not a regular file (L"},
		"a folder":                    {make: func(f *fake) { os.MkdirAll(f.root+at, 0o755); ours(f) }, says: "is not a regular file (d"},
		"a folder that others write":  {make: func(f *fake) { os.Chmod(f.root+"/usr/local/lib", 0o775) }, says: "run `chmod go-w /usr/local/lib`; or set `persist = false`"},
		"a folder of others":          {make: func(*fake) {}, uid: map[string]int{"/usr/local": 1000}, says: "/usr/local belongs to the user 1000"},
		"a folder above of others":    {make: func(*fake) {}, uid: map[string]int{"/usr": 1000}, says: "/usr belongs to the user 1000"},
		"a link in place of a folder": {make: func(f *fake) { os.Symlink("/tmp", f.root+host.ProgramFolder) }, says: "/usr/local/lib/fabricform is not a folder"},
		"no systemd":                  {make: func(f *fake) { os.Remove(f.root + "/run/systemd/system") }, none: true},
	} {
		f := newFake(t)
		c.make(f)
		_, changes, err := copyOf(t, owned{managed{f}, c.uid})
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || (len(changes) == 0) != c.none {
			t.Errorf("%s: %v, %v", name, changes, err)
		}
	}
	snap := snapshot(networkd)
	if _, err := (programs{}).Observe(snap, Program{Fabric: "../x"}); err == nil || !strings.Contains(err.Error(), "rename the fabric") {
		t.Error(err)
	}
}

// TestAnotherBuildReplacesTheCopy, and a rollback by any build restores the earlier one. The copy of another fabric stays.
func TestAnotherBuildReplacesTheCopy(t *testing.T) {
	f := newFake(t)
	h := managed{f}
	apply := func(fabric string) {
		if err := (programs{}).Apply(t.Context(), h, Program{Fabric: fabric}, make([]resource.Change, 1)); err != nil {
			t.Fatal(err)
		}
	}
	apply("lab")
	apply("other")
	put(t, f, sumPath("lab"), "# Made by fabricform for the fabric \"lab\".\n", 0o644)
	put(t, f, self, "the next build", 0o755)
	_, changes, err := copyOf(t, h)
	if err != nil || len(changes) != 1 || changes[0].From != asCopy([]byte(program)).Digest() || changes[0].To != asCopy([]byte("the next build")).Digest() {
		t.Fatal(changes, err)
	}
	k := programs{}.Restorer()
	part, err := k.Save(t.Context(), h, []resource.Atom{changes[0].Atom})
	if err != nil {
		t.Fatal(err)
	}
	apply("lab")
	if now, err := k.Again(t.Context(), h, part); err != nil || strings.Contains(string(now), "packed") {
		t.Errorf("%s, %v", now, err)
	}
	for _, lost := range []func(){func() {}, func() { os.Remove(f.root + copyPath("lab")) }} {
		lost()
		put(t, f, self, "a third build", 0o755)
		if left, err := k.Restore(t.Context(), h, part); err != nil || left != nil {
			t.Error(left, err)
		}
		if text, err := os.ReadFile(f.root + copyPath("lab")); err != nil || string(text) != program {
			t.Errorf("%q, %v", text, err)
		}
	}
	for _, fabric := range []string{"lab", "other"} {
		if !exists(f.root + copyPath("other")) {
			t.Error("the copy of another fabric is gone")
		}
		if err := (programs{}).ApplyUndo(t.Context(), h, &facts.Snapshot{}, copyAtom(fabric), ""); err != nil {
			t.Error(err)
		}
	}
	if exists(f.root + host.ProgramFolder) {
		t.Error("the folder is still there")
	}
}

func TestCopiesAreInOurFolder(t *testing.T) {
	for _, path := range []string{"/etc/fabricform", "/usr/local/lib/fabricform/x", "/usr/local/lib/fabricform/../fabricform-x", "/usr/local/lib/fabricform/a/fabricform-x", ""} {
		if a := resource.NewAtom(KindProgram, "copy", path); (programs{}).Names(a) {
			t.Error(a)
		}
	}
	if !(programs{}).Names(copyAtom("lab")) {
		t.Error(copyAtom("lab"))
	}
}

// TestTheHashFollowsTheCopy, also while the classes of all NICs are left out.
func TestTheHashFollowsTheCopy(t *testing.T) {
	s := rich()
	s.QoS = s.QoS[:1]
	s = s.without([]string{"rail0"})
	got, err := Observe(snapshot(networkd), s)
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, f := range got.Wanted {
		paths = append(paths, f.Path)
	}
	if !slices.Contains(paths, sumPath("lab")) || slices.Contains(paths, classesPath("lab")) {
		t.Error(paths)
	}
}

// TestClassesWithoutSystemdAreLost, and names that cannot be part of a unit are refused.
func TestClassesWithoutSystemdAreLost(t *testing.T) {
	snap := snapshot(networkd)
	bootPart.Put(snap, bootFacts{})
	files, notes, err := Files(snap, rich())
	if err != nil || !strings.Contains(strings.Join(notes, "\n"), "qos: lost at a reboot: systemd does not run on this host") {
		t.Error(notes, err)
	}
	for _, f := range files {
		if strings.Contains(f.Text, "boot-qos") || strings.Contains(f.Path, "qos") {
			t.Error(f)
		}
	}
	for _, name := range []string{"a b", "e\";", "../x", "-x", "%n"} {
		snap := snapshot(networkd)
		snap.Links[2].Name = name
		s := rich()
		s.NICs, s.RXE = nil, nil
		s.QoS[1].On.Netdev = name
		if _, _, err := Files(snap, s); err == nil || !strings.Contains(err.Error(), "cannot be part of a systemd unit") {
			t.Errorf("%q: %v", name, err)
		}
	}
}
