package validators

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestTheDocumentedCheckIsOneFileAndOneRow: with the two files and the row of docs/adding-a-provider.md laid over the tree, all
// tests of this package pass. It also passes if the tree already has the row.
func TestTheDocumentedCheckIsOneFileAndOneRow(t *testing.T) {
	page, err := os.ReadFile("../docs/adding-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	dir, overlay := t.TempDir(), map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- (file|row): validators/([a-z_]+\\.go) -->\n```go\n(.*?)```\n").FindAllSubmatch(page, -1) {
		at, text := string(m[2]), m[3]
		if string(m[1]) == "row" {
			table, err := os.ReadFile(at)
			if err != nil {
				t.Fatal(err)
			}
			last := []byte("(*run).parity},\n")
			if !bytes.Contains(table, last) {
				t.Fatal("the table has no place for the row")
			}
			if bytes.Contains(table, text) { // somebody follows the page
				text = table
			} else {
				text = bytes.Replace(table, last, append(bytes.Clone(last), text...), 1)
			}
		}
		copied := filepath.Join(dir, filepath.Base(at))
		if err := os.WriteFile(copied, text, 0o600); err != nil {
			t.Fatal(err)
		}
		whole, err := filepath.Abs(at)
		if err != nil {
			t.Fatal(err)
		}
		overlay[whole] = copied
	}
	if len(overlay) != 3 {
		t.Fatalf("the page has %d files for the check", len(overlay))
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "test", "-overlay", filepath.Join(dir, "overlay.json"), "-skip", "^"+t.Name()+"$", "-v", ".").CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestHostsWithOneNameFail")) {
		t.Fatalf("%v\n%s", err, out)
	}
}
