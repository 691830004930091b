package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
)

// TestSuggestionsAreCures: every "Did you mean" is data as well, and doing it removes the problem.
func TestSuggestionsAreCures(t *testing.T) {
	files, err := filepath.Glob("testdata/diagnostics/*.hcl")
	if err != nil {
		t.Fatal(err)
	}
	cured := 0
	for _, file := range files {
		_, sources, diags := Load(file, outside(t, file))
		for _, d := range diags {
			cure, is := d.Extra.(Suggestion)
			if asks := strings.Contains(d.Detail, "Did you mean"); asks != is && !strings.Contains(file, "values-from-outside") {
				t.Errorf("%s: %v: has a suggestion: %v", file, d, is)
			}
			if !is || cure.Range.Filename != file {
				continue
			}
			src := sources[file].Bytes
			o := outside(t, file)
			o.Overlay = map[string][]byte{file: slices.Concat(src[:cure.Range.Start.Byte], []byte(cure.Text), src[cure.Range.End.Byte:])}
			_, _, after := Load(file, o)
			if slices.ContainsFunc(after, func(a *hcl.Diagnostic) bool { return a.Summary == d.Summary && a.Detail == d.Detail }) {
				t.Errorf("%s: %v: is not cured by %q", file, d, cure.Text)
			}
			cured++
		}
	}
	if cured < 20 {
		t.Errorf("only %d suggestions", cured)
	}
	t.Log(cured)
}
