package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/view"
)

func TestEveryCommandIsListedInAGroup(t *testing.T) {
	root := rootCommand(&app{})
	for _, c := range root.Commands() {
		if c.Hidden == (c.GroupID != "") {
			t.Errorf("%s: hidden %v, and in group %q", c.Name(), c.Hidden, c.GroupID)
		}
	}
}

// A mistyped command must not succeed: a script would go on.
func TestAMistypedCommandFails(t *testing.T) {
	for line, near := range map[string]string{"aply": "apply", "lab dwon": "down", "lab frob x": "", "render ncl": "nccl"} {
		root := rootCommand(&app{})
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), near) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestHelpFitsIntoEightyColumns: paragraphs are broken between words; examples and lists are lines of their own.
func TestHelpFitsIntoEightyColumns(t *testing.T) {
	var out bytes.Buffer
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		out.Reset()
		long := strings.Fields(c.Long)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 && line[0] != ' ' {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		if got := strings.Fields(out.String()); !slices.Equal(got[:len(long)], long) {
			t.Errorf("%s: words were lost: %s", c.CommandPath(), got)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&app{out: view.New(&out)}))
}

// TestALabThatIsDownIsDown: taking it down again is no mistake.
func TestALabThatIsDownIsDown(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	var out bytes.Buffer
	root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
	root.SetArgs([]string{"lab", "down", "../../examples/roce-pair.hcl"})
	if err := root.Execute(); err != nil || !strings.Contains(out.String(), `fabric "roce-pair" has no lab`) {
		t.Errorf("%v: %s", err, out.String())
	}
}

// TestAReportThatCannotBeWrittenIsFoundFirst: nothing is changed, not even the file.
func TestAReportThatCannotBeWrittenIsFoundFirst(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none", "r.md"), "/proc/r.md"} {
		for _, command := range []string{"apply", "destroy", "verify"} {
			root := rootCommand(&app{})
			root.SetArgs([]string{command, "--report", path, "no-such-fabric.hcl"})
			if err := root.Execute(); err == nil || !strings.Contains(err.Error(), "-report "+path) {
				t.Errorf("%s: %v", command, err)
			}
		}
	}
	if err := canReport(filepath.Join(dir, "r.md")); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v is left: %v", left, err)
	}
}
