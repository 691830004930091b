package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/view"
)

var update = flag.Bool("update", false, "rewrite expected files; read the diff")

// estimated runs estimate on a file, without a host.
func estimated(t *testing.T, args ...string) (out, problems string, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{out: view.New(&stdout), err: view.New(&stderr)}
	err = a.execute(t.Context(), append([]string{"estimate"}, args...))
	return stdout.String(), stderr.String(), err
}

// TestEstimatePrintsEveryFormula compares the whole answer for the example.
func TestEstimatePrintsEveryFormula(t *testing.T) {
	got, _, err := estimated(t, "../../examples/wide-area.hcl")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/wide-area.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Fatal(d)
	}
}

// TestEstimateOfABrokenBound: it is an error of the files, with the number that would do, and the exit code is that of validate.
func TestEstimateOfABrokenBound(t *testing.T) {
	out, problems, err := estimated(t, "../../examples/broken/wide-area.hcl")
	if text := strings.Join(strings.Fields(problems), " "); out != "" ||
		!strings.Contains(text, "the training step takes at least 11.3 s, and max_step_seconds is 8 s") || !strings.Contains(text, "a link of 142 Gb/s") {
		t.Errorf("%s%s", out, problems)
	}
	var end *exit
	if !errors.As(err, &end) || end.code != exitError {
		t.Errorf("it ends with %v", err)
	}
	out, _, _ = estimated(t, "-json", "../../examples/wide-area.hcl")
	var all []struct {
		Role  string
		Bound struct{ Verdict string }
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil || len(all) != 3 || all[0].Role != "checkpoint" || all[0].Bound.Verdict != "holds" {
		t.Errorf("JSON: %v %+v", err, all)
	}
	if out, _, err := estimated(t, "-json", "../../examples/roce-pair.hcl"); err != nil || strings.TrimSpace(out) != "[]" {
		t.Errorf("JSON of no long link: %s %v", out, err)
	}
	if out, _, err := estimated(t, "../../examples/roce-pair.hcl"); err != nil || !strings.Contains(out, "No link or network declares a distance") {
		t.Error(out, err)
	}
}
