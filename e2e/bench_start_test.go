//go:build linux

package e2e

import (
	"bytes"
	"os/exec"
	"testing"
)

// TestBenchStart starts the helper as a host does, up to its greeting, beside the smallest program. Its input is empty, so it ends then.
func TestBenchStart(t *testing.T) {
	benchmark(t)
	plain := plainBuild(t)
	var s series
	for range 50 {
		for _, program := range []struct{ name, path string }{{"as make build makes it", bin}, {"as a plain go build makes it", plain}} {
			cmd := exec.Command(program.path, "agent")
			out, err := cmd.Output()
			if err != nil || !bytes.Contains(out, []byte(`"hello"`)) {
				t.Fatalf("%v: %q", err, out)
			}
			s.add(program.name+" (≤ 5)", processorTime(cmd).Seconds()*1000)
		}
		least := exec.Command("/bin/true")
		if err := least.Run(); err != nil {
			t.Fatal(err)
		}
		s.add("/bin/true", processorTime(least).Seconds()*1000)
	}
	s.log(t, "start of the helper, ms of processor")
}
