package checkpoint

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestFilesComeBackAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string, mode os.FileMode) {
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path(name), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("changed", "old", 0o640)
	write("removed", "here", 0o600)
	write("mode", "same", 0o644)
	write("untouched", "same", 0o644)
	write("empty", "", 0o400)
	if err := os.Symlink("changed", path("link")); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(path("changed"), 12, 34); err != nil {
			t.Fatal(err)
		}
	}
	names := []string{"changed", "removed", "mode", "untouched", "empty", "link", "made"}
	backup := &Backup{Version: backupVersion}
	var before []File
	for _, n := range names {
		before = append(before, must[File](t)(backUpFile(path(n))))
	}
	backup.Files = before
	still := must[os.FileInfo](t)(os.Stat(path("untouched")))

	write("changed", "new", 0o666)
	write("made", "new", 0o644)
	write("empty", "no more", 0o400)
	for _, err := range []error{os.Remove(path("removed")), os.Chmod(path("mode"), 0o600), os.Remove(path("link")), os.Symlink("made", path("link"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		left, err := backup.Restore(t.Context(), nil, nil)
		if err != nil || len(left) > 0 {
			t.Fatal(left, err)
		}
		for i, n := range names {
			if now := must[File](t)(backUpFile(path(n))); !now.equal(before[i]) {
				t.Errorf("%s is %+v, was %+v", n, now, before[i])
			}
		}
	}
	if now := must[os.FileInfo](t)(os.Stat(path("untouched"))); !os.SameFile(now, still) {
		t.Error("a file that had not changed was written")
	}
}

func TestFileThatCannotComeBackDoesNotKeepOthers(t *testing.T) {
	dir := t.TempDir()
	backup := &Backup{Version: backupVersion, Files: []File{
		{Path: filepath.Join(dir, "no-such-folder", "a"), Mode: 0o600, Content: []byte("a"), UID: os.Getuid(), GID: os.Getgid()},
		{Path: filepath.Join(dir, "b"), Mode: 0o600, Content: []byte("b"), UID: os.Getuid(), GID: os.Getgid()},
	}}
	left, err := backup.Restore(t.Context(), nil, nil)
	if err == nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(raw) != "b" {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := backUpFile(dir); err == nil {
		t.Error("a folder was taken for a file")
	}
}

// TestARestoredFileHasItsOwnerBeforeItsName: the kernel sees each name appear, and no change of an owner or a mode
// under that name.
func TestARestoredFileHasItsOwnerBeforeItsName(t *testing.T) {
	dir := t.TempDir()
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 12, 34
	}
	fd, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if _, err := unix.InotifyAddWatch(fd, dir, unix.IN_MOVED_TO|unix.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	for _, f := range []File{
		{Path: filepath.Join(dir, "file"), Mode: 0o751 | fs.ModeSetgid, UID: uid, GID: gid, Content: []byte("text")},
		{Path: filepath.Join(dir, "link"), Link: "file", UID: uid, GID: gid},
	} {
		if err := f.restore(); err != nil {
			t.Fatal(err)
		}
		if now := must[File](t)(backUpFile(f.Path)); !now.equal(f) {
			t.Errorf("%+v, want %+v", now, f)
		}
	}
	var moved []string
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.Read(fd, buf)
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for rest := buf[:n]; len(rest) > 0; { // inotify(7)
			mask, length := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			name := strings.TrimRight(string(rest[16:16+length]), "\x00")
			rest = rest[16+length:]
			if mask&unix.IN_MOVED_TO != 0 {
				moved = append(moved, name)
			} else if !strings.HasPrefix(name, ".") {
				t.Errorf("%s had another owner or mode for a moment", name)
			}
		}
	}
	if strings.Join(moved, " ") != "file link" {
		t.Errorf("the names appeared as %q", moved)
	}
}
