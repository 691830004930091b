package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/config"
)

// folder writes files into a new directory.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// looked looks at a directory of which one file is open with the given text.
func looked(dir, name, text string, alone bool) seen {
	path := filepath.Join(dir, name)
	return look(job{dir: dir, open: []string{path}, alone: alone, overlay: map[string][]byte{path: []byte(text)}}, config.Options{})
}

const (
	hostsText = "host \"a\" {\n  nic \"r\" {\n    netdev = \"e\"\n  }\n}\nhost \"b\" {\n  nic \"r\" {\n    netdev = \"e\"\n  }\n}\n"
	linkText  = "link \"l\" {\n  endpoints = [host.a.nic.r, host.b.nic.r]\n  subnet    = \"10.0.0.0/30\"\n}\n"
)

// TestLookAtTheWholeDirectory: a file's references lead into the files beside it.
func TestLookAtTheWholeDirectory(t *testing.T) {
	dir := folder(t, map[string]string{"hosts.hcl": hostsText, "links.hcl": "not saved like this"})
	got := looked(dir, "links.hcl", linkText, false)
	if got.alone || len(got.problems) != 2 || len(got.problems[filepath.Join(dir, "links.hcl")]) != 0 {
		t.Fatalf("%+v", got)
	}
	got = looked(dir, "hosts.hcl", strings.ReplaceAll(hostsText, `"b"`, `"c"`), false)
	if p := got.problems[filepath.Join(dir, "links.hcl")]; got.alone || len(p) == 0 {
		t.Fatalf("%+v", got)
	}
	got = looked(dir, "new.hcl", linkText, false) // links.hcl does not parse, so that names are not known
	if got.alone || len(got.problems) != 3 {
		t.Fatalf("%+v", got)
	}
}

// TestLookAtFilesAlone: files that name the same things are fabrics of their own, if that leaves
// less wrong.
func TestLookAtFilesAlone(t *testing.T) {
	dir := folder(t, map[string]string{"a.hcl": hostsText, "b.hcl": hostsText + linkText})
	path := filepath.Join(dir, "b.hcl")
	got := looked(dir, "b.hcl", hostsText+linkText+"nope {}\n", false)
	if p := got.problems[path]; !got.alone || len(got.problems) != 1 || len(p) != 1 || p[0].Range.Start.Line != 14 {
		t.Fatalf("%+v", got)
	}
	got = looked(dir, "b.hcl", hostsText+linkText+"nope {\n", true) // while a block is being typed
	if !got.alone || len(got.problems) != 1 {
		t.Fatalf("%+v", got)
	}

	dir = folder(t, map[string]string{"hosts.hcl": hostsText, "links.hcl": linkText, "more.hcl": ""})
	got = looked(dir, "more.hcl", "host \"a\" {\n}\n", true)
	if got.alone = got.alone && len(got.problems) > 1; got.alone {
		t.Fatalf("%+v", got)
	}
	got = looked(dir, "more.hcl", "host \"a\" {\n}\n", false)
	if p := got.problems[filepath.Join(dir, "more.hcl")]; got.alone || len(p) != 1 || !strings.Contains(p[0].Message, "Another host is named") {
		t.Fatalf("%+v", got)
	}
	got = looked(dir, "more.hcl", "", true)
	if got.alone {
		t.Fatalf("%+v", got)
	}
}

// TestLookAtTheExamples: nothing is wrong with them, although they stand in one directory.
func TestLookAtTheExamples(t *testing.T) {
	files, err := filepath.Glob("../examples/*.hcl")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got := looked("../examples", filepath.Base(file), string(src), false)
		if p := got.problems[file]; !got.alone || p == nil || len(p) != 0 {
			t.Errorf("%s: %+v", file, got)
		}
	}
}

// TestLookPlaces: columns of problems count UTF-16 units.
func TestLookPlaces(t *testing.T) {
	got := looked(t.TempDir(), "f.hcl", "# 两台服务器 😀\nhost \"a\" {\n  labels = { /* 机房 😀 */ x = var.nope }\n}\n", false)
	for _, p := range got.problems {
		if len(p) != 1 || p[0].Range != (textRange{position{2, 29}, position{2, 37}}) || p[0].Severity != severityError {
			t.Fatalf("%+v", p)
		}
	}
	got = looked(t.TempDir(), "f.hcl.json", `{"locals": {"主机": "机", "b": "${local.nope}"}}`, false)
	for _, p := range got.problems {
		if len(p) != 1 || p[0].Range.Start.Character < 28 {
			t.Fatalf("%+v", p)
		}
	}
}

// TestLookWithoutAPlace: what concerns no place is told in what is open.
func TestLookWithoutAPlace(t *testing.T) {
	got := looked(t.TempDir(), "f.hcl", "# "+strings.Repeat("x", maxText), false)
	for _, p := range got.problems {
		if len(p) != 1 || !strings.Contains(p[0].Message, "larger than 4 MiB") {
			t.Fatalf("%+v", p)
		}
	}
	dir := folder(t, map[string]string{"a.hcl": ""})
	if err := os.Mkdir(filepath.Join(dir, "b.hcl"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "c.hcl")); err != nil {
		t.Fatal(err)
	}
	got = looked(dir, "a.hcl", "", false)
	p := got.problems[filepath.Join(dir, "a.hcl")]
	if !slices.ContainsFunc(p, func(d diagnostic) bool { return strings.Contains(d.Message, "not a regular file") }) {
		t.Fatalf("%+v", got)
	}
}
