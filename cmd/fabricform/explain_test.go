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
	if out, failed := explained(t, good); failed || !strings.Contains(out, "nccl.conf: 1 setting") || !strings.Contains(out, "✓ no problems found in 1 setting") {
		t.Error("a right file")
	}
	for content, want := range map[string]string{"": "✗ nothing of NCCL was read: the input is empty", "hello\n": "concerns NCCL (lines: 1)"} {
		if err := os.WriteFile(good+".txt", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, failed := explained(t, good+".txt"); !failed || !strings.Contains(out, want) || strings.Contains(out, "✓") {
			t.Errorf("%q", content)
		}
	}
	const start = "a:1:2 [0] NCCL INFO Using network IB\n"
	const ready = "a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Init COMPLETE\n"
	for content, want := range map[string]string{
		start:         "The log does not show that NCCL finished its initialization",
		start + ready: "The log does not show that a collective finished",
		"\tGPU0\tGPU1\nGPU0\t X \tPXB\nGPU1\tPXB\t X \n":                                                         "They show how GPUs and NICs are joined, not whether data goes that way",
		start + ready + "a:1:2 [0] NCCL INFO comm 0x1 rank 0 nranks 2 cudaDev 0 busId 1000 - Destroy COMPLETE\n": "✓ no problems found in 3 lines of NCCL's log",
	} {
		if err := os.WriteFile(good+".log", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, failed := explained(t, good+".log"); failed || !strings.Contains(out, want) || strings.Contains(out, "✓") != strings.HasPrefix(want, "✓") {
			t.Errorf("%q: %s", content, out)
		}
	}
	partly := "export NCCL_DEBUG=INFO\nexport NCCL_CROSS_NIC=$C\necho it's\n"
	if err := os.WriteFile(good+".sh", []byte(partly), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := explained(t, good+".sh"); strings.Contains(out, "✓") || !strings.Contains(out, "commands: 1 setting") || !strings.Contains(out, "1 of 3 lines not understood: 3") || !strings.Contains(out, "1 setting computed when it runs, and not checked: 2") {
		t.Error("what was not understood")
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
