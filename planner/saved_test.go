package planner

import (
	"errors"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// A saved plan is read by the build that wrote it, and refused with a sentence that says what to do by any other.
func TestSavedPlansOfOtherBuildsAreRefused(t *testing.T) {
	saved := Saved{ID: "1", Build: "b1", Fabric: &fabric.Fabric{Name: "f"}, Plan: &Plan{Fabric: "f"}}
	raw, err := saved.Encode()
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	if got, err := ReadSaved(strings.NewReader(text), "b1"); err != nil || got.Plan.Fabric != "f" {
		t.Fatal(got, err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"the format before":               {strings.Replace(text, "plan 2", "plan 1", 1), "saved by another version of fabricform: save it again"},
		"a later format":                  {strings.Replace(text, "plan 2", "plan 9", 1), "saved by another version of fabricform: save it again"},
		"another build":                   {strings.Replace(text, `"b1"`, `"b0"`, 1), "saved by another build of fabricform (b0): save it again"},
		"another build with other types":  {savedHead + `{"build":"b0","plan":7}`, "saved by another build of fabricform (b0): save it again"},
		"cut":                             {text[:len(text)-9], "corrupt"},
		"of this build, but not complete": {savedHead + "{}", "incomplete: save it again"},
	} {
		if _, err := ReadSaved(strings.NewReader(c.text), "b1"); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := ReadSaved(strings.NewReader(`host "a" {}`), "b1"); !errors.Is(err, ErrNotSaved) {
		t.Error(err)
	}
}
