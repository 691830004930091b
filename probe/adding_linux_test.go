package probe

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheDocumentedCallIsServed: with the files and the row of docs/adding-a-provider.md laid over the tree, the call's own test
// passes, and the list of calls in apply's tests has a place for it. It also passes if the tree already has the call.
func TestTheDocumentedCallIsServed(t *testing.T) {
	page, err := os.ReadFile("../docs/adding-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, overlay := t.TempDir(), map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- (?:file|row): ((?:probe|apply)/[a-z_]+\\.go) -->\n```(?:go|diff)\n(.*?)```\n").FindAllStringSubmatch(string(page), -1) {
		at, text := m[1], m[2]
		if above, row, changed := strings.Cut(text, "\n+"); changed {
			file, err := os.ReadFile("../" + at)
			if err != nil {
				t.Fatal(err)
			}
			above = above[1:] + "\n"
			if text = string(file); strings.Count(text, above) != 1 {
				t.Fatalf("%s has no place for the row %s", at, row)
			}
			if !strings.Contains(text, above+row) { // otherwise somebody follows the page
				text = strings.Replace(text, above, above+row, 1)
			}
		}
		copied := filepath.Join(dir, filepath.Base(at))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		whole, err := filepath.Abs("../" + at)
		if err != nil {
			t.Fatal(err)
		}
		overlay[whole] = copied
	}
	if len(overlay) != 5 {
		t.Fatalf("the page has %d files for the call", len(overlay))
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-run", "^TestLoadIsRead$", "-v", ".").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLoadIsRead") {
		t.Fatalf("%v\n%s", err, out)
	}
}
