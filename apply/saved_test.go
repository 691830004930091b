package apply

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fabricform/fabricform/planner"
)

// TestASavedPlanIsWrittenThroughNoLink: another user may have put a link to a file of the operator there.
func TestASavedPlanIsWrittenThroughNoLink(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(os.WriteFile(at("mine"), []byte("mine"), 0o644), os.Symlink("mine", at("link")), os.Symlink("none", at("dangling")), os.WriteFile(at("old.plan"), []byte("old"), 0o644), os.Mkdir(at("folder"), 0o755)); err != nil {
		t.Fatal(err)
	}
	for name, written := range map[string]bool{"link": false, "dangling": false, "folder": false, "old.plan": true, "new.plan": true} {
		if err := WriteSaved(at(name), &planner.Saved{}); (err == nil) != written {
			t.Errorf("%s: %v", name, err)
		}
		if st, err := os.Stat(at(name)); written && (err != nil || st.Mode().Perm() != 0o600) {
			t.Errorf("%s: %v %v", name, st, err)
		}
	}
	if text, err := os.ReadFile(at("mine")); err != nil || string(text) != "mine" {
		t.Errorf("%s, %v", text, err)
	}
	if _, err := os.Lstat(at("none")); err == nil {
		t.Error("a dangling link was followed")
	}
}
