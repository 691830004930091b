package facts

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fabricform/fabricform/host"
)

// etc writes a host's files below a folder.
func etc(t *testing.T, files map[string]string) tree {
	t.Helper()
	root := t.TempDir()
	for p, text := range files {
		if err := os.MkdirAll(filepath.Dir(root+p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(root+p, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tree{root: root}
}

func (t tree) Stat(_ context.Context, p string) (host.FileStat, error) {
	info, err := os.Lstat(t.root + p)
	if err != nil {
		return host.FileStat{}, err
	}
	return host.FileStat{Mode: info.Mode()}, nil
}

func TestSnapshotsHoldOurFilesAndNoOthers(t *testing.T) {
	r := etc(t, map[string]string{"/etc/netplan/90-fabricform-lab.yaml": "ours", "/etc/netplan/50-wifi.yaml": "password", "/etc/netplan/.90-fabricform-lab.yaml.new": "half"})
	if err := os.Symlink("50-wifi.yaml", r.root+"/etc/netplan/91-fabricform-link.yaml"); err != nil {
		t.Fatal(err)
	}
	s := &Snapshot{}
	if err := s.ReadFiles(t.Context(), r, "/etc/netplan", "/etc/sysctl.d"); err != nil {
		t.Fatal(err)
	}
	if len(s.Files) != 1 || s.Files["/etc/netplan/90-fabricform-lab.yaml"].Text != "ours" || len(s.Folders) != 1 {
		t.Errorf("%+v %v", s.Files, s.Folders)
	}
}
