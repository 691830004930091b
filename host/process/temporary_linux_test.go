package process

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// makeTemporaryThere is set in a copy of this test that makes a temporary folder and waits.
const makeTemporaryThere = "FABRICFORM_TEST_TEMPORARY"

// TestAKilledProcessLeavesNoFolder: the next one removes its folder with all that is in it, kills what still uses the folder, and leaves
// all other folders.
func TestAKilledProcessLeavesNoFolder(t *testing.T) {
	if os.Getenv(makeTemporaryThere) != "" {
		dir, remove, err := MakeTemporary()
		if err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString(dir + "\n")
		_, _ = os.Stdin.Read(make([]byte, 1)) // until it is killed
		_ = remove()
	}
	below := t.TempDir()
	t.Setenv("TMPDIR", below)
	started := func() (*exec.Cmd, string) {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), makeTemporaryThere+"=1")
		out, err := cmd.StdoutPipe()
		_, err2 := cmd.StdinPipe()
		if err := errors.Join(err, err2, cmd.Start()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		dir, err := bufio.NewReader(out).ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return cmd, strings.TrimSpace(dir)
	}
	killed, gone := started()
	_, used := started()
	own, remove, err := MakeTemporary()
	if err != nil {
		t.Fatal(err)
	}
	earlier, link, elsewhere := filepath.Join(below, "fabricform-123"), TemporaryFolder(below, "link"), t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(gone, "ranks"), 0o700), os.WriteFile(gone+"/ranks/nccl.a.1", nil, 0o600),
		os.Mkdir(earlier, 0o700), os.Symlink(elsewhere, link)); err != nil {
		t.Fatal(err)
	}
	stay := []string{used, own, earlier, link, elsewhere}
	if os.Geteuid() == 0 {
		other := TemporaryFolder(below, "other")
		if err := errors.Join(os.Mkdir(other, 0o700), os.Chown(other, 65534, 65534)); err != nil {
			t.Fatal(err)
		}
		stay = append(stay, other)
	}
	rank := exec.Command("sleep", "1000")
	rank.Env = []string{FamilyMark + "=" + strings.TrimPrefix(filepath.Base(gone), temporaryPrefix)}
	if err := rank.Start(); err != nil {
		t.Fatal(err)
	}
	RemoveAbandoned(t.Context())
	if _, err := os.Stat(gone); err != nil {
		t.Errorf("a folder in use is removed: %v", err)
	}
	_ = killed.Process.Kill()
	_ = killed.Wait()
	RemoveAbandoned(t.Context())
	if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of a killed process stays: %v", err)
	}
	for _, dir := range stay {
		if _, err := os.Lstat(dir); err != nil {
			t.Error(err)
		}
	}
	if err := rank.Wait(); err == nil || err.Error() != "signal: killed" {
		t.Error(err)
	}
	if err := remove(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(own); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// A folder that is removed between its making and its lock is made again.
func TestAFolderThatGoesBeforeItIsLockedIsMadeAgain(t *testing.T) {
	dir := TemporaryFolder(t.TempDir(), "x")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := lockFolder(dir, unix.LOCK_EX)
	if err != nil {
		t.Fatal(err)
	}
	ready := make(chan error)
	go func() {
		_, err := lockFolder(dir, unix.LOCK_EX) // waits
		ready <- err
	}()
	removeAbandoned(context.Background(), dir, "x") // another holds the lock: it stays
	if err := errors.Join(os.Remove(dir), f.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-ready; !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	unlock, err := MakeLocked(dir)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	removeAbandoned(context.Background(), dir, "x")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
