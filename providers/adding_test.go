package providers

import (
	"bytes"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// step is a block of the page: a file that is new, or lines that a file gains.
var step = regexp.MustCompile("(?ms)^`([^`\n]+)` (?:is new|gains):\n\n```(go|diff)\n(.*?)^```")

// TestThePageAddsAKind does what docs/adding-a-provider.md says in a copy of the sources, and counts
// the files that change beside the kind's folder. It also passes if the sources have the kind: whoever follows the page runs it.
func TestThePageAddsAKind(t *testing.T) {
	page, err := os.ReadFile("../docs/adding-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	copySources(t, root)
	_, err = os.Stat("swappiness")
	followed := err == nil
	for range 2 { // the second time, the copy has the kind
		for _, s := range step.FindAllStringSubmatch(string(page), -1) {
			at, text := filepath.Join(root, s[1]), s[3]
			if s[2] == "diff" {
				text = gain(t, at, text)
			}
			if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
				t.Errorf("%s is not as gofmt writes it (%v)", s[1], err)
			}
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(args ...string) {
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Dir = root
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
	run("test", "-vet=off", "./config", "-run", "^(TestLanguagePage|TestSchemaGolden)$", "-update") // of make golden, what concerns the language
	run("vet", "./providers/swappiness")
	// All unit tests of the rooms that the page touches, except this one and those of files that are too large, which take a minute.
	const skipped = "^(TestThePageAddsAKind|TestBombsAreBounded|TestFabricTooLarge)$|^TestDiagnostics$/^bomb"
	run("test", "-vet=off", "-skip", skipped, ".", "./fabric", "./config", "./providers", "./providers/swappiness")

	beside := slices.DeleteFunc(changed(t, root), func(file string) bool { return strings.HasPrefix(file, "providers/swappiness/") })
	if len(beside) > 4 || len(beside) == 0 && !followed {
		t.Errorf("a kind changes %d files beside its folder: %s", len(beside), strings.Join(beside, ", "))
	}
}

// gain is a file with the lines that a diff adds to it, once.
func gain(t *testing.T, at, diff string) string {
	t.Helper()
	var before, after strings.Builder
	for line := range strings.Lines(diff) {
		after.WriteString(line[1:])
		if line[0] == ' ' {
			before.WriteString(line[1:])
		}
	}
	text, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), after.String()) {
		return string(text)
	}
	if n := strings.Count(string(text), before.String()); n != 1 {
		t.Fatalf("%s has these lines of the page %d times, and must have them once:\n%s", at, n, before.String())
	}
	return strings.Replace(string(text), before.String(), after.String(), 1)
}

// sources visits the files of the module.
func sources(t *testing.T, root string, visit func(name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, at)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || name == "bin"):
			return filepath.SkipDir
		case d.Type().IsRegular() && !strings.HasPrefix(d.Name(), "."):
			visit(name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func copySources(t *testing.T, to string) {
	t.Helper()
	sources(t, "..", func(name string) {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(to, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// changed are the files that are not what they are here.
func changed(t *testing.T, root string) (out []string) {
	t.Helper()
	sources(t, root, func(name string) {
		now, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		if was, err := os.ReadFile(filepath.Join("..", name)); err != nil || !bytes.Equal(was, now) {
			out = append(out, name)
		}
	})
	return out
}
