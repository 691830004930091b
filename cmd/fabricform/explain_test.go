package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// TestExplainReadsEachFile: each rank has a log of its own, and one that cannot be read does not hide the others.
func TestExplainReadsEachFile(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.conf"), filepath.Join(dir, "bad.conf")
	for path, text := range map[string]string{good: "NCCL_IB_HCA==mlx5_0\n", bad: "NCCL_IB_DISABLE=true\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, failed := explained(t, good, good); failed || strings.Count(out, "✓ no problems found") != 2 {
		t.Error("two right files")
	}
	if out, failed := explained(t, bad, good); !failed || !strings.Contains(out, "\n\n"+good) {
		t.Error("an error in the first of two files")
	}
	for _, unread := range []string{dir, filepath.Join(dir, "absent")} {
		if out, failed := explained(t, unread, good); !failed || !strings.Contains(out, "✓ no problems found") {
			t.Error("a file beside one that cannot be read")
		}
	}
	out, _ := explained(t, "-json", good, bad)
	var names []string
	for reports := json.NewDecoder(strings.NewReader(out)); reports.More(); {
		var report struct {
			File     string
			Findings []struct{ Summary string }
		}
		if err := reports.Decode(&report); err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(filepath.Base(report.File), len(report.Findings)))
	}
	if want := []string{"good.conf0", "bad.conf1"}; !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
}

// TestTheExplanationInTheDocumentIsPrinted compares the example of docs/nccl.md with what explain prints; … stands for lines that are left out.
func TestTheExplanationInTheDocumentIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/nccl.md")
	if err != nil {
		t.Fatal(err)
	}
	const file = "nccl-2.28.9-quirks.log"
	_, rest, found := strings.Cut(string(page), "```\n"+file)
	example, _, closed := strings.Cut(rest, "```")
	if !found || !closed {
		t.Fatal("docs/nccl.md has no example of " + file)
	}
	t.Chdir("../../nccl/explain/testdata")
	out, _ := explained(t, file)
	for _, part := range strings.Split(file+example, "  …\n") {
		if !strings.Contains(out, part) {
			t.Errorf("not printed:\n%s", part)
		}
	}
}
