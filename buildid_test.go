package fabricform_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTheBuildIDIsOfAllThatIsBuilt: a client starts only a helper of its own build, on whatever platform each was built.
// So the ID covers the sources and embedded files of all platforms and the toolchain, and nothing that does not get into a program.
func TestTheBuildIDIsOfAllThatIsBuilt(t *testing.T) {
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("make is not installed")
	}
	ask := func(dir string, args ...string) (id string, files []string) {
		t.Helper()
		out, err := exec.Command("make", append([]string{"-s", "-C", dir, "build-id"}, args...)...).CombinedOutput()
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if err != nil || len(lines) < 3 || len(lines[0]) != 16 {
			t.Fatalf("%v: %s", err, out)
		}
		return lines[0], lines[1:]
	}
	_, files := ask(".")
	for _, platform := range []string{"linux", "darwin", "windows"} {
		cmd := exec.Command("go", "list", "-deps", "-f", `{{if and .Module .Module.Main}}{{range .GoFiles}}{{$.Dir}}/{{.}}
{{end}}{{range .EmbedFiles}}{{$.Dir}}/{{.}}
{{end}}{{end}}`, "./cmd/fabricform")
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		here, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		built := strings.Fields(string(out))
		if len(built) < 100 {
			t.Fatalf("%s is built of %d files", platform, len(built))
		}
		for _, file := range built {
			if name := strings.Replace(file, here, ".", 1); !slices.Contains(files, name) {
				t.Errorf("the ID leaves out %s, which is built for %s", name, platform)
			}
		}
	}

	tree := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		at := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"Makefile": string(makefile), "go.mod": "module m", "go.sum": "", "go": "#!/bin/sh\necho go1.0\n",
		"a/a.go": "package a\n//go:embed table.csv\n", "a/a_windows.go": "package a", "a/table.csv": "1", "a/a_test.go": "package a", "a/testdata/x": "x"} {
		write(name, text)
	}
	program := "GO=" + filepath.Join(tree, "go")
	before, _ := ask(tree, program)
	for _, c := range []struct {
		name, text string
		moves      bool
	}{
		{"a/a_test.go", "package a // changed", false}, {"a/testdata/x", "y", false}, {"README.md", "new", false},
		{"a/a.go", "package a // changed\n//go:embed table.csv\n", true}, {"a/a_windows.go", "package a // changed", true}, {"a/table.csv", "2", true},
		{"go.sum", "x", true}, {"go", "#!/bin/sh\necho go1.1\n", true},
	} {
		write(c.name, c.text)
		after, _ := ask(tree, program)
		if (after != before) != c.moves {
			t.Errorf("%s changed: %s, then %s", c.name, before, after)
		}
		before = after
	}
}

// TestATagThatIsNoVersionReachesNoShell: git accepts almost any name of a tag, and recipes use the version.
func TestATagThatIsNoVersionReachesNoShell(t *testing.T) {
	for _, name := range []string{"make", "git"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(name + " is not installed")
		}
	}
	dir := t.TempDir()
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v: %s", name, args, err, out)
		}
		return string(out)
	}
	git := func(args ...string) {
		run("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@b"}, args...)...)
	}
	for name, text := range map[string][]byte{"Makefile": text, "go.mod": nil, "go.sum": nil, "a.go": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("init", "-q")
	git("add", ".")
	git("commit", "-q", "-m", "a")
	for tag, version := range map[string]string{"v1.2.3-rc.1": "main.linkedVersion=1.2.3-rc.1 ", "v1;touch$IFS'x'": "main.linkedVersion=0.0.0-"} {
		git("tag", tag)
		if said := run("make", "-n", "build"); !strings.Contains(said, version) {
			t.Errorf("with tag %q, %q is missing: %s", tag, version, said)
		}
		git("tag", "-d", tag)
	}
}
