package transport

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestAPlainBuildHasAnID: without one from `make build`, it is read from the head of the file, on every platform that
// programs are built for. The same source gives the same ID, and another source another.
func TestAPlainBuildHasAnID(t *testing.T) {
	dir := t.TempDir()
	build := func(platform, text string) string {
		t.Helper()
		source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
		if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("go", "build", "-o", program, source)
		cmd.Env = append(os.Environ(), "GOOS="+platform, "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		id, err := goBuildID(program)
		if err != nil || len(id) < 40 {
			t.Fatalf("%s: %q, %v", platform, id, err)
		}
		if want, err := exec.Command("go", "tool", "buildid", program).Output(); err != nil || strings.TrimSpace(string(want)) != string(id) {
			t.Errorf("%s: %q, and go has %q, %v", platform, id, want, err)
		}
		return string(id)
	}
	for _, platform := range []string{"linux", "darwin", "windows"} {
		first := build(platform, "package main\nfunc main() {}\n")
		if again := build(platform, "package main\nfunc main() {}\n"); again != first {
			t.Errorf("%s: %q, then %q", platform, first, again)
		}
		if other := build(platform, "package main\nfunc main() { println() }\n"); other == first {
			t.Errorf("%s: two programs have the ID %q", platform, other)
		}
	}
	if id, err := goBuildID(filepath.Join(dir, "main.go")); err == nil {
		t.Errorf("a file that is no program has the ID %q", id)
	}
	for head, want := range map[string]string{
		"\x7fELF\x02\x02..\x00\x00\x00\x04\x00\x00\x00\x03\x00\x00\x00\x04Go\x00\x00abcd": "abc", // of a big-endian machine
		"\x7fELF\x02\x01..\x04\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00Go\x00\x00abcd": "abc",
		"\x7fELF\x02\x01..\x04\x00\x00\x00\x05\x00\x00\x00\x04\x00\x00\x00Go\x00\x00abcd": "",
		"\x7fELF\x02\x01\x04\x00\x00\x00Go\x00\x00abcd":                                   "",
		"\x7fELF":                          "",
		"\xff Go build ID: \"abc\"\n \xff": "abc",
		"\xff Go build ID: \"abc":          "",
	} {
		if id := buildIDIn([]byte(head)); string(id) != want {
			t.Errorf("%q has the ID %q, expected %q", head, id, want)
		}
	}
	if id, err := OwnID(); err != nil || !versionID().MatchString(id) {
		t.Errorf("%q, %v", id, err)
	}
}

// TestAHelperOfAnotherArchitectureIsFound: beside the program, where a distribution's package has it, and where go install
// puts it. If it is in none of these places, the error says where it was looked for.
func TestAHelperOfAnotherArchitectureIsFound(t *testing.T) {
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	self, err := os.Executable() // in a folder that Go made for this test
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(self)
	h := Helpers{Cure: func(goarch string) string { return "install " + goarch }}
	_, err = h.Build(other)
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), filepath.Join(dir, "../lib/fabricform")) ||
		!strings.Contains(err.Error(), "install "+other) {
		t.Errorf("without a helper: %v", err)
	}
	declared := t.TempDir()
	t.Setenv("FABRICFORM_HELPER_DIR", declared)
	name := "fabricform-linux-" + other
	for _, at := range []string{filepath.Join(declared, name), filepath.Join(dir, name), filepath.Join(dir, "../lib/fabricform", name),
		filepath.Join(dir, "linux_"+other, "fabricform")} {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(at), 0o600); err != nil {
			t.Fatal(err)
		}
		b, err := h.Build(other)
		if err != nil || b.Size != int64(len(at)) {
			t.Errorf("%s: %+v, %v", at, b, err)
		}
		if err := os.Remove(at); err != nil {
			t.Fatal(err)
		}
	}
}
