//go:build linux

package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestBenchStart starts the helper as a host does, up to its greeting, beside the smallest program. Its input is empty, so it ends then.
// How the file was written counts: only large writes, as those of an upload, are large pieces of the page cache, which a start maps with
// fewer page faults.
func TestBenchStart(t *testing.T) {
	benchmark(t)
	dir := t.TempDir()
	written := func(name, program string) string {
		t.Helper()
		raw, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, raw, 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plain := plainBuild(t)
	programs := []struct{ name, path string }{
		{"as make build makes it (≤ 5)", written("made", bin)},
		{"as a plain go build makes it (≤ 5)", written("plain", plain)},
		{"the plain one, where Go's linker wrote it", plain},
	}
	var s series
	for range 50 {
		for _, p := range programs {
			cmd := exec.Command(p.path, "agent")
			out, err := cmd.Output()
			if err != nil || !bytes.Contains(out, []byte(`"hello"`)) {
				t.Fatalf("%v: %q", err, out)
			}
			s.add(p.name, processorTime(cmd).Seconds()*1000)
		}
		least := exec.Command("/bin/true")
		if err := least.Run(); err != nil {
			t.Fatal(err)
		}
		s.add("/bin/true", processorTime(least).Seconds()*1000)
	}
	s.log(t, "start of the helper, ms of processor")
}
