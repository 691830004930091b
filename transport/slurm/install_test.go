//go:build linux

package slurm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyRootWritesWhereHelpersAre: a folder of others, or one that others may write in, or a link to one, is refused.
func TestOnlyRootWritesWhereHelpersAre(t *testing.T) {
	if os.Getuid() != root {
		t.Skip("needs root")
	}
	base := t.TempDir()
	for name, prepare := range map[string]func(dir string) error{
		"root's":         func(string) error { return nil },
		"of another":     func(dir string) error { return os.Chown(dir, nobody, 0) },
		"of a group":     func(dir string) error { return os.Chmod(dir, 0o770) },
		"for all":        func(dir string) error { return os.Chmod(dir, 0o702) },
		"a link":         func(dir string) error { return os.Rename(dir, dir+" of root") },
		"of a group, -r": func(dir string) error { return os.Chmod(dir, 0o755) },
	} {
		dir := filepath.Join(base, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := prepare(dir); err != nil {
			t.Fatal(err)
		}
		if name == "a link" {
			if err := os.Symlink(dir+" of root", dir); err != nil {
				t.Fatal(err)
			}
		}
		err := rootsAlone(base, dir)
		if good := name == "root's" || name == "of a group, -r"; good != (err == nil) || err != nil && !strings.Contains(err.Error(), dir+" must be a folder of root") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if rootsAlone(filepath.Join(base, "none")) == nil {
		t.Error("one that is not there is taken")
	}
}

// TestWhatIsSentIsRemoved: with its folder, and nothing else: a helper may also be started by hand.
func TestWhatIsSentIsRemoved(t *testing.T) {
	program := filepath.Join(t.TempDir(), "fabricform")
	to, err := os.Create(program)
	if err != nil {
		t.Fatal(err)
	}
	if err := fill(to, "/bin/true"); err != nil {
		t.Fatal(err)
	}
	if info, err := to.Stat(); err != nil || info.Mode() != 0o700 || info.Size() == 0 {
		t.Errorf("%v, %v", info, err)
	}
	to.Close()
	if err := removeSent(program); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(program); err != nil {
		t.Errorf("a program that was started by hand is removed: %v", err)
	}
	dir, err := os.MkdirTemp(filepath.Dir(sentBySudo), filepath.Base(sentBySudo))
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	sent := filepath.Join(dir, "new")
	if err := os.WriteFile(sent, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := removeSent(sent); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); err == nil {
		t.Error("what was sent stays")
	}
}

// TestWhoStartsAHelper: sudo says it.
func TestWhoStartsAHelper(t *testing.T) {
	for text, want := range map[string]int{"64124": 64124, "0": 0, "": -1, "root": -1} {
		t.Setenv("SUDO_UID", text)
		if got, err := operatorHere(); (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	os.Unsetenv("SUDO_UID")
	if got, err := operatorHere(); err != nil || got != os.Getuid() {
		t.Error(got, err)
	}
}
