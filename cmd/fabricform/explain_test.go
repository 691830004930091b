package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/view"
)

// explained runs explain, and answers what it prints and whether it ends with exit code 1.
func explained(t *testing.T, args ...string) (string, bool) {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{out: view.New(&out), err: view.New(&errs)}
	root := rootCommand(a)
	root.SetArgs(longFlags(append([]string{"explain"}, args...)))
	root.SetIn(strings.NewReader("NCCL_IB_DISABLE=true\n"))
	err := root.ExecuteContext(t.Context())
	t.Logf("%s%s%v", out.String(), errs.String(), err)
	return out.String(), err != nil
}

func TestExplainEndsWithOneWhereThereAreErrors(t *testing.T) {
	if out, failed := explained(t, "-"); !failed || !strings.Contains(out, "line 1: NCCL_IB_DISABLE: Not a number for NCCL") {
		t.Error("an error in the standard input")
	}
	good := filepath.Join(t.TempDir(), "nccl.conf")
	if err := os.WriteFile(good, []byte("NCCL_IB_HCA==mlx5_0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, failed := explained(t, good); failed || !strings.Contains(out, "no problems found") {
		t.Error("a right file")
	}
	out, failed := explained(t, "-json", "-fabric", "../../examples/roce-pair.hcl", good)
	var report struct {
		Kind     string
		Findings []struct{ Severity, Name, Wrong, Instead string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || failed || report.Kind != "nccl.conf" || len(report.Findings) != 2 || report.Findings[0].Severity != "warning" {
		t.Errorf("%v %+v", err, report)
	}
	if _, failed := explained(t, filepath.Join(t.TempDir(), "absent")); !failed {
		t.Error("a file that is not there")
	}
}
