package host

import "testing"

// TestOnlyWhatWeUnpackedIsStartedByItsPath: a path leads nowhere but below our own folder.
func TestOnlyWhatWeUnpackedIsStartedByItsPath(t *testing.T) {
	for _, path := range []string{"/usr/bin/true", StateDir + "/../../../usr/bin/true", StateDir, StateDir + "/", StateDir + "-x/installer", StateDir + "/none/mlnxofedinstall"} {
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
