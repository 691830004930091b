//go:build linux

package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyOurOwnFilesAreWrittenOrRemoved(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"etc/netplan", "home"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/etc/netplan/50-others.yaml", "/home/fabricform", "/etc/../home/fabricform", "/etc/fabricform-x/", "etc/fabricform", "/etc/fabricform/secret"} {
		if err := putFile(root, path, nil, 0o600); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	others := filepath.Join(root, "etc/netplan/50-others.yaml")
	if err := os.WriteFile(others, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"/etc/netplan/50-others.yaml": "not one of fabricform's own configuration files", "/etc/netplan": "not empty", "/home": "is not a folder below /etc"} {
		if err := removeFile(root, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestOwnFilesHaveTheirModeAndLeaveNothing: the umask does not take bits away, and what a crash left
// half written goes with the file.
func TestOwnFilesHaveTheirModeAndLeaveNothing(t *testing.T) {
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := putFolder(root, "/etc/x.d"); err != nil {
		t.Fatal(err)
	}
	const path = "/etc/x.d/90-fabricform"
	if err := putFile(root, path, []byte("text"), 0o775); err != nil {
		t.Fatal(err)
	}
	if s, err := os.Stat(filepath.Join(root, path)); err != nil || s.Mode().Perm() != 0o775 {
		t.Error(s, err)
	}
	if err := removeFile(root, path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, filepath.Dir(path), "."+filepath.Base(path)+".new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, "/etc/x.d", "/etc/x.d"} {
		if err := removeFile(root, p); err != nil {
			t.Error(err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(root, "etc")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

func TestStageStaysBelowItsFolder(t *testing.T) {
	root, discard, err := stage(map[string][]byte{"/etc/a": []byte("a"), "../../b": []byte("b")})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{"etc/a", "b"} {
		if _, err := os.Stat(filepath.Join(root, p)); err != nil {
			t.Error(err)
		}
	}
	if err := discard(); err != nil {
		t.Error(err)
	}
}

func TestOneFileOfNCCLsIsOursByName(t *testing.T) {
	for path, ours := range map[string]bool{
		NCCLConf: true, NCCLConf + ".before-fabricform": true, "/etc/nccl-fabricform.conf": true,
		"/etc/nccl.conf.d": false, "/etc/x/../nccl.conf": false, "/root/.nccl.conf": false, "/etc/x/nccl.conf": false, "etc/nccl.conf": false, "/etc/nccl.conf/": false,
	} {
		if err := OwnFile(path); (err == nil) != ours {
			t.Errorf("%s: %v", path, err)
		}
	}
}
