package site

import (
	"os"
	"path/filepath"
	"testing"
)

// TestALabLeavesNoEmptyDirectories: but all that something stands in.
func TestALabLeavesNoEmptyDirectories(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	dir, err := Place("pair")
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(dir), "other", "etc")
	for _, d := range []string{dir, other, filepath.Join(home, "fabricform/transactions/pair/lab/pair")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	kept := filepath.Join(home, "fabricform/transactions/other/1.json")
	if err := os.MkdirAll(filepath.Dir(kept), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	for _, gone := range []string{"fabricform/lab/pair", "fabricform/transactions/pair"} {
		if _, err := os.Stat(filepath.Join(home, gone)); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", gone, err)
		}
	}
	for _, left := range []string{kept, other} {
		if _, err := os.Stat(left); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(filepath.Dir(other)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(kept); err != nil {
		t.Fatal(err)
	}
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, "fabricform")); !os.IsNotExist(err) {
		t.Errorf("the program's directory is left: %v", err)
	}
}
