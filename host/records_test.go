//go:build linux

package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestRecordsAreKeptWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	if got, err := records(dir); err != nil || len(got) != 0 {
		t.Fatal(got, err)
	}
	for name, text := range map[string]string{"lab": "{}", "pair-25.a_b": "{\"x\":1}"} {
		if err := saveRecord(dir, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "lab.json.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err) // what a crash leaves
	}
	got, err := records(dir)
	if err != nil || len(got) != 2 || string(got["pair-25.a_b"]) != "{\"x\":1}" {
		t.Fatal(got, err)
	}
	for _, bad := range []string{"../x", "", ".hidden", "a/b", "a\nb"} {
		if saveRecord(dir, bad, []byte("x")) == nil {
			t.Errorf("%q became a file's name", bad)
		}
	}
	if err := saveRecord(dir, "lab", nil); err != nil {
		t.Fatal(err)
	}
	if got, _ := records(dir); len(got) != 1 {
		t.Fatal(got)
	}
}
