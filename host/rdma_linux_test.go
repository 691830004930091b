package host

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestProcessesAreFoundByTheFilesThatTheyHaveOpen: once each, however many they have open.
func TestProcessesAreFoundByTheFilesThatTheyHaveOpen(t *testing.T) {
	proc := t.TempDir()
	for pid, files := range map[string][]string{
		"812":  {"/dev/null", "/dev/infiniband/umad0", "/dev/infiniband/issm0"},
		"90":   {"/dev/infiniband/uverbs1", "socket:[7]"},
		"1000": {"/dev/infiniband/uverbs1 (deleted)"},
		"1":    {"/dev/infinibands", "/tmp/dev/infiniband/umad0"},
		"bus":  {"/dev/infiniband/umad0"},
	} {
		if err := os.MkdirAll(filepath.Join(proc, pid, "fd"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(proc, pid, "comm"), []byte("program\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		for i, f := range files {
			if err := os.Symlink(f, filepath.Join(proc, pid, "fd", string(rune('0'+i)))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.MkdirAll(filepath.Join(proc, "2"), 0o755); err != nil { // it has ended
		t.Fatal(err)
	}
	got, err := usersOf(proc, func(file string) bool { return strings.HasPrefix(file, rdmaFiles) })
	want := []RDMAUser{{"program", 90, "/dev/infiniband/uverbs1"}, {"program", 812, "/dev/infiniband/issm0"}, {"program", 1000, "/dev/infiniband/uverbs1 (deleted)"}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}
