package file

import (
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
		if err := ReplaceLink(path, target); err != nil {
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
