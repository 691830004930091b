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
		if c.Hidden || c.GroupID == "" {
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

// TestAWrongCallSaysHowToCall: with the flag as it is written, and the value of -lab in its place.
func TestAWrongCallSaysHowToCall(t *testing.T) {
	dir := t.TempDir()
	fabric, plan := filepath.Join(dir, "f.hcl"), filepath.Join(dir, "tonight.plan")
	for name, text := range map[string]string{fabric: "host \"a\" {}\n", plan: "fabricform plan 3 12ab\n{}"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	saved := plan + " is a plan that plan -out saved, not a file of a fabric. To see it, run `fabricform show " + plan + "`; to make its changes, run `fabricform apply " + plan + "`."
	for line, want := range map[string]string{
		"plan -lab new10 " + fabric:          "-lab takes the name of a lab after an equals sign: write -lab=new10",
		"plan " + fabric + " -lab new10":     "write -lab=new10",
		"plan -lab new10":                    "no directory or file has the name new10. If it is a lab, write -lab=new10",
		"plan -lab " + fabric + " " + fabric: "2 arguments given: " + fabric + " " + fabric + "; the command is: fabricform plan [FABRIC]",
		"lab fault " + fabric:                "1 argument given: " + fabric + "; the command is: fabricform lab fault FABRIC LINK FAULT",
		"lab reboot":                         "no argument was given; the command is: fabricform lab reboot FABRIC HOST",
		"version x":                          "1 argument given: x; the command is: fabricform version",
		"lab up -lab " + fabric:              "fabricform lab up has no flag -lab. This command always works on the fabric's lab, or on no host: leave -lab out.",
		"render -lab slurm " + fabric:        "fabricform render has no flag -lab. It is a flag of the sub-command nccl. `fabricform render -h` lists its flags",
		"plan -paralelism 3":                 "fabricform plan has no flag -paralelism. Did you mean -parallelism? `fabricform plan -h` lists its flags",
		"plan -n":                            "fabricform plan has no flag -n. `fabricform plan -h` lists its flags",
		"plan -host":                         "-host needs a value",
		"plan " + plan:                       saved,
		"validate " + plan:                   saved,
		"fmt " + plan:                        saved,
		"lab status " + plan:                 saved,
		"verify -lab " + plan:                saved,
		"rollback " + plan:                   saved,
		"plan -out " + fabric + " " + fabric: "-out " + fabric + ": this name is reserved for files of a fabric",
	} {
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
		root.SetArgs(longFlags(strings.Fields(line)))
		err := root.Execute()
		if err != nil {
			out.WriteString(err.Error())
		}
		if said := strings.Join(strings.Fields(out.String()), " "); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %q is missing in\n%s", line, want, said)
		}
	}
}

// TestHelpFitsIntoEightyColumns: paragraphs and flags are broken between words; examples and lists are lines of their own.
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
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 && (line[0] != ' ' || strings.HasPrefix(line, "      ")) {
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
