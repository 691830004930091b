package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/host/file"
)

// TestOnlyWhatWeUnpackedIsStartedByItsPath: a path leads nowhere but below our own folder.
func TestOnlyWhatWeUnpackedIsStartedByItsPath(t *testing.T) {
	for _, path := range []string{"/usr/bin/true", file.StateDir + "/../../../usr/bin/true", file.StateDir, file.StateDir + "/", file.StateDir + "-x/installer", file.StateDir + "/none/mlnxofedinstall"} {
		if got, err := ownProgram(path); err == nil {
			t.Errorf("%s would be started as %s", path, got)
		}
	}
	if e := (Program{Name: "/usr/bin/true"}).Start(t.Context())(); !e.Missing {
		t.Errorf("%+v", e)
	}
}

// A path that the files declare is started as it is, where it is a program's whole path.
func TestDeclaredPrograms(t *testing.T) {
	for path, missing := range map[string]bool{"/usr/bin/true": false, "/usr/bin": true, "true": true, "/none": true} {
		if e := (Program{Name: "none", Declared: path}).Start(t.Context())(); e.Missing != missing || e.Exit != 0 {
			t.Errorf("%s: %+v", path, e)
		}
	}
}

// TestAScopeOfItsOwn: systemd-run becomes the program, which is then in no login's scope any more.
func TestAScopeOfItsOwn(t *testing.T) {
	got := strings.Join(scopeArguments("fabricform-install-x", []string{"/helper", "install"}), " ")
	if want := "systemd-run --quiet --collect --scope --unit=fabricform-install-x -- /helper install"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestDetachedProgramsSayWhy: what a program says on stderr is in the file.
func TestDetachedProgramsSayWhy(t *testing.T) {
	said, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer said.Close()
	p, err := detach([]string{"/bin/sh", "-c", "echo no >&2"}, said)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(said.Name()); err != nil || string(raw) != "no\n" {
		t.Errorf("%q, %v", raw, err)
	}
}
