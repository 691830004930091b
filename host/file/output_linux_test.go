package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOutputKeepsWhatIsNoFile: a pipe, as /dev/stdout may be, is written into; a link stays a link.
func TestOutputKeepsWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, link, to := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "to")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string, 1)
	go func() {
		raw, err := os.ReadFile(pipe)
		if err != nil {
			t.Error(err)
		}
		read <- string(raw)
	}()
	if err := Output(pipe, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "text" {
		t.Errorf("the pipe's reader got %q", got)
	}
	if err := os.WriteFile(to, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
	if err := Output(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode().IsRegular() {
		t.Errorf("the link became %v, %v", info, err)
	}
	if raw, err := os.ReadFile(to); err != nil || string(raw) != "new" {
		t.Errorf("%q, %v", raw, err)
	}
}

// TestReplacementsSurviveACrashedLink: what a crash left beside a link does not hinder the next replacement.
func TestReplacementsSurviveACrashedLink(t *testing.T) {
	path := filepath.Join(t.TempDir(), "link")
	for _, target := range []string{"one", "two"} {
		if err := os.Symlink("left", stagedName(path)); err != nil {
			t.Fatal(err)
		}
		if err := ReplaceLink(path, target, Owner{os.Getuid(), os.Getgid()}); err != nil {
			t.Fatal(err)
		}
		if got, err := os.Readlink(path); err != nil || got != target {
			t.Errorf("%q, %v", got, err)
		}
	}
	if err := Remove(path); err != nil {
		t.Error(err)
	}
	if err := Remove(path); err != nil {
		t.Errorf("removed twice: %v", err)
	}
}

// TestAReplacementFollowsNothingInItsWay: a staged file that a crash left, or that somebody put there as a link, is
// removed, and what it led to is not written.
func TestAReplacementFollowsNothingInItsWay(t *testing.T) {
	dir := t.TempDir()
	path, other := filepath.Join(dir, "f"), filepath.Join(dir, "other")
	if err := os.WriteFile(other, []byte("other"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, left := range map[string]func(staged string) error{
		"a link":                func(staged string) error { return os.Symlink(other, staged) },
		"half a file":           func(staged string) error { return os.WriteFile(staged, []byte("a longer text"), 0o666) },
		"a second name of it":   func(staged string) error { return os.Link(other, staged) },
		"a file for its reader": func(staged string) error { return os.WriteFile(staged, nil, 0o000) },
	} {
		if err := left(stagedName(path)); err != nil {
			t.Fatal(err)
		}
		// Whoever stages first makes the file, so that what comes between the removal and the writing is refused.
		if err := writeSynced(stagedName(path), []byte("text"), 0o600, nil); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s was written: %v", name, err)
		}
		if err := Replace(path, []byte("text"), 0o640); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if raw, err := os.ReadFile(path); err != nil || string(raw) != "text" {
			t.Errorf("%s: %q, %v", name, raw, err)
		}
		if raw, err := os.ReadFile(other); err != nil || string(raw) != "other" {
			t.Errorf("%s: the other file is %q, %v", name, raw, err)
		}
	}
}

// TestModesAreExact: the umask takes nothing away, and what stood there before adds nothing.
func TestModesAreExact(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "f")
	for _, mode := range []fs.FileMode{0o644, 0o600, 0o775, 0o444 | fs.ModeSetuid} {
		if err := Replace(path, nil, mode); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%v, want %v: %v", info.Mode(), mode, err)
		}
	}
}

// TestOutputFollowsNoLinkThatTheKernelWouldNot: in a shared folder another user's link leads nowhere.
func TestOutputFollowsNoLinkThatTheKernelWouldNot(t *testing.T) {
	if raw, err := os.ReadFile("/proc/sys/fs/protected_symlinks"); err != nil || raw[0] != '1' || os.Getuid() != 0 {
		t.Skip("needs root, to make another user's link, and a kernel with fs.protected_symlinks=1")
	}
	shared, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	link := filepath.Join(shared, "link")
	if err := os.WriteFile(to, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(shared, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	if err := os.Lchown(link, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	if err := Output(link, []byte("overwritten"), 0o600); err == nil {
		t.Error("another user's link in a shared folder was followed")
	}
	if raw, err := os.ReadFile(to); err != nil || string(raw) != "mine" {
		t.Errorf("%q, %v", raw, err)
	}
}
