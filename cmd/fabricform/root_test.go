package main

import (
	"bytes"
	"io"
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

// A mistyped command must not succeed, not even if it asks for help: a script would go on.
func TestAWrongCommandFails(t *testing.T) {
	for line, want := range map[string]string{
		"aply":                "fabricform has no command aply. Did you mean `fabricform apply`?",
		"aply -h":             "Did you mean `fabricform apply`?",
		"help aply":           "Did you mean `fabricform apply`?",
		"-no-color aply":      "Did you mean `fabricform apply`?",
		"-chdir /tmp aply":    "Did you mean `fabricform apply`?",
		"foo":                 "fabricform has no command foo. The commands are apply, capture, ",
		"lab dwon":            "fabricform lab has no command dwon. Did you mean `fabricform lab down`?",
		"lab frob x -h":       "fabricform lab has no command frob. The commands are down, exec, fault, image, reboot, status, up.",
		"help lab frob":       "fabricform lab has no command frob.",
		"render ncl -host a":  "fabricform render has no command ncl. Did you mean `fabricform render nccl`?",
		"render init":         "fabricform render has no command init. The commands are kubernetes, nccl, slurm-topology.",
		"completion ksh":      "Did you mean `fabricform completion zsh`?",
		"init -upgrade":       "fabricform has no command init. There is nothing to prepare",
		"state list":          "fabricform keeps no state file",
		"taint host.a":        "keeps no state file. `fabricform plan` compares",
		"untaint":             "keeps no state file. `fabricform plan` compares",
		"console":             "run `fabricform output`",
		"workspace new prod":  "A directory is one fabric",
		"refresh":             "`fabricform plan` reads the hosts each time",
		"get":                 "no providers, modules or state file",
		"login":               "over SSH",
		"ssh a":               "run `fabricform lab exec FABRIC HOST -- COMMAND`",
		"lab start":           "fabricform lab has no command start. Run `fabricform lab up`.",
		"lab destroy -h":      "Run `fabricform lab down`.",
		"lab ssh a":           "Run `fabricform lab exec FABRIC HOST -- bash`.",
		"lab list":            "Run `fabricform lab status`.",
		"verify -skip=ping":   "name those to run with -only",
		"verify -check=ping":  "name those to run with -only",
		"graph -type=svg":     "To choose the format, use -format.",
		"graph -o=svg":        "To choose the format, use -format.",
		"show -o=json":        "For output as data, use -json.",
		"plan -o=x":           "To save a plan, use -out.",
		"plan -v":             "The output is always complete. Remove the flag.",
		"-v":                  "To print the version, use -version.",
		"fmt -write":          "files are rewritten",
		"validate -check":     "run `fabricform plan`",
		"force-unlock 1234":   "`fabricform pending`",
		"plan -target=host.a": "fabricform plan has no flag -target. To choose hosts, use -host=NAME.",
		"apply -yes":          "use -auto-approve",
		"plan -refresh=false": "Leave it out: fabricform keeps no state file",
	} {
		a := &app{out: view.New(io.Discard), err: view.New(io.Discard)}
		if err := a.execute(t.Context(), strings.Fields(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestHelpIsNoWrongCommand: what exists is explained, and a group without a command prints its help.
func TestHelpIsNoWrongCommand(t *testing.T) {
	for line, want := range map[string]string{"": "declaratively", "-h": "declaratively", "help": "declaratively", "lab": "lab builds",
		"help lab up": "Build the lab", "lab up -h": "Build the lab", "help plan": "-chdir", "completion -h": "shell"} {
		var out bytes.Buffer
		a := &app{out: view.New(&out), err: view.New(&out)}
		if err := a.execute(t.Context(), strings.Fields(line)); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v: %s", line, err, out.String())
		}
	}
}

// TestChdirComesFirst: all paths are below it, and commands in messages repeat it.
func TestChdirComesFirst(t *testing.T) {
	dir, here := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{"f.hcl": "variable \"v\" {}\noutput \"o\" {\nvalue = var.v\n}\n", "v.fabricvars": "v = \"x\"\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range [][]string{{"-chdir=" + dir, "output", "-raw", "-var-file=v.fabricvars", "o"}, {"output", "-raw", "-var-file=v.fabricvars", "-chdir", dir, "o"}} {
		t.Chdir(here)
		var out bytes.Buffer
		a := &app{out: view.New(&out), err: view.New(&out)}
		if err := a.execute(t.Context(), line); err != nil || out.String() != "x\n" {
			t.Errorf("%s: %v: %q", line, err, out.String())
		}
	}
	t.Chdir(here)
	a := &app{out: view.New(io.Discard), err: view.New(io.Discard)}
	if err := a.execute(t.Context(), []string{"-chdir=" + dir, "fmt", "-check"}); err == nil || !strings.Contains(err.Error(), "run `fabricform -chdir="+dir+" fmt`") {
		t.Error(err)
	}
	a = &app{out: view.New(io.Discard), err: view.New(io.Discard)}
	if err := a.execute(t.Context(), []string{"-chdir=none", "fmt"}); err == nil || err.Error() != "-chdir=none: no such file or directory" {
		t.Error(err)
	}
}

// TestFmtGoesOnBesideFilesThatCannotBeRead: a link to nothing and a device are named, and neither blocks nor ends it.
func TestFmtGoesOnBesideFilesThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	for link, to := range map[string]string{"a.hcl": "nowhere", "b.hcl": os.DevNull} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile("c.hcl", []byte("locals {\na = 1\n}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
	root.SetArgs([]string{"fmt"})
	err := root.Execute()
	if err == nil || !strings.Contains(err.Error(), "read a.hcl") || !strings.Contains(err.Error(), "b.hcl is not a regular file") {
		t.Errorf("error: %v", err)
	}
	if text, err := os.ReadFile("c.hcl"); err != nil || string(text) != "locals {\n  a = 1\n}\n" {
		t.Errorf("c.hcl: %q, %v", text, err)
	}
}

// TestFmtWritesNoFileOutside: through a link that leads out of the directory, unless the link itself is named.
func TestFmtWritesNoFileOutside(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	const draft, canonical = "locals {\na = 1\n}\n", "locals {\n  a = 1\n}\n"
	for _, name := range []string{"outside.hcl", "fabrics/common.hcl", "fabrics/one/f.hcl"} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(draft), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"fabrics/one/out.hcl": "../../outside.hcl", "fabrics/one/shared.hcl": "../common.hcl", "way-in": "fabrics"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	run := func(args ...string) error {
		root := rootCommand(&app{out: view.New(io.Discard), err: view.New(io.Discard)})
		root.SetArgs(args)
		return root.Execute()
	}
	is := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
	want := "way-in/one/out.hcl is a link to " + dir + "/outside.hcl, which is outside of way-in, so that file was not rewritten: run `fabricform fmt way-in/one/out.hcl` to rewrite it"
	if err := run("fmt", "--recursive", "way-in/"); err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	is("outside.hcl", draft)
	is("fabrics/common.hcl", canonical)
	is("fabrics/one/f.hcl", canonical)
	if err := run("fmt", "fabrics/one/out.hcl"); err != nil {
		t.Error(err)
	}
	is("outside.hcl", canonical)
	if info, err := os.Lstat("fabrics/one/out.hcl"); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Error(info, err)
	}
	if err := run("fmt", "--recursive", "way-in/"); err != nil {
		t.Error(err)
	}
}

// TestFmtOfATreeAndOfAStream: fmt -recursive and fmt -.
func TestFmtOfATreeAndOfAStream(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const draft, canonical = "locals {\na = 1\n}\n", "locals {\n  a = 1\n}\n"
	for _, name := range []string{"a.hcl", "sub/b.hcl", "sub/deep/c.hcl", ".git/d.hcl", "sub/e.txt"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(draft), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(stdin, line string) (string, error) {
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
		root.SetIn(strings.NewReader(stdin))
		root.SetArgs(longFlags(strings.Fields(line)))
		err := root.Execute()
		return out.String(), err
	}
	files := "a.hcl\nsub/b.hcl\nsub/deep/c.hcl\n"
	if out, err := run("", "fmt -recursive -check"); out != files || err == nil || !strings.Contains(err.Error(), "not in canonical form: 3 files; run `fabricform fmt -recursive`") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("", "fmt"); out != "a.hcl\n" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := run("", "fmt -recursive"); out != "sub/b.hcl\nsub/deep/c.hcl\n" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"sub/deep/c.hcl": canonical, ".git/d.hcl": draft, "sub/e.txt": draft} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
	if out, err := run(draft, "fmt -"); out != canonical || err != nil {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := run(draft, "fmt -check -"); out != "" || err == nil || err.Error() != "standard input is not in canonical form" {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := run(canonical, "fmt -check -"); out != "" || err != nil {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := run(draft, "fmt -diff -"); !strings.Contains(out, "+  a = 1") || strings.Contains(out, canonical) || err != nil {
		t.Errorf("%v: %q", err, out)
	}
	if out, err := run("locals {", "fmt -"); !strings.Contains(out, "on standard input line 1") || strings.Contains(out, "locals {\n}") || err == nil {
		t.Errorf("%v: %q", err, out)
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
		"lab fault " + fabric:                "1 argument given: " + fabric + "; the command is: fabricform lab fault FABRIC LINK FAULT (for the current directory, FABRIC is .)",
		"lab exec server1 -- ip addr":        "no directory or file has the name server1; the command is: fabricform lab exec FABRIC HOST -- COMMAND… (for the current directory, FABRIC is .)",
		"apply tonight.plan":                 "no directory or file has the name tonight.plan. Name a directory with *.hcl files, one such file, or a plan that plan -out saved",
		"show tonight.plan":                  "or a plan that plan -out saved",
		"apply -lab tonight":                 "no directory or file has the name tonight. If it is a lab, write -lab=tonight",
		"plan fabrics/":                      "no directory or file has the name fabrics/. Name a directory with *.hcl files",
		"lab reboot":                         "no argument was given; the command is: fabricform lab reboot FABRIC HOST",
		"version x":                          "1 argument given: x; the command is: fabricform version",
		"lab up -lab " + fabric:              "fabricform lab up has no flag -lab. This command always works on the fabric's lab: leave -lab out.",
		"validate -lab " + fabric:            "fabricform validate has no flag -lab. This command reaches no host: leave -lab out.",
		"render -lab slurm " + fabric:        "fabricform render has no flag -lab. It is a flag of the sub-command nccl. `fabricform render -h` lists its flags",
		"plan -paralelism 3":                 "fabricform plan has no flag -paralelism. Did you mean -parallelism? `fabricform plan -h` lists its flags",
		"lab exec " + fabric + " a ip -br a": "fabricform lab exec has no flag -br. Write -- before the command to run in the host: its flags are its own.",
		"plan -n":                            "fabricform plan has no flag -n. `fabricform plan -h` lists its flags",
		"plan -host":                         "-host needs a value",
		"plan -parallelism=x":                `-parallelism takes a whole number, not "x"`,
		"apply -lease 60":                    `-lease takes a number with a unit, such as 90s or 10m, not "60"`,
		"apply -auto-approve=yes":            `-auto-approve takes true or false, not "yes"`,
		`plan -host="`:                       `-host "\"": `,
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

// TestALabThatIsDownIsDown: to ask for it, or to take it down again, is no mistake.
func TestALabThatIsDownIsDown(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	const fabric = "../../examples/roce-pair.hcl"
	for line, want := range map[string]string{
		"lab down " + fabric:          "✓ fabric \"roce-pair\" has no lab.\n",
		"lab status " + fabric:        "fabric \"roce-pair\" has no lab; build it with `fabricform lab up " + fabric + "`\n",
		"lab status --json " + fabric: "{\n  \"name\": \"roce-pair\",\n  \"backend\": \"\",\n  \"hosts\": [],\n  \"links\": []\n}\n",
	} {
		var out bytes.Buffer
		root := rootCommand(&app{out: view.New(&out), err: view.New(&out)})
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err != nil || out.String() != want {
			t.Errorf("%s: %v: %q", line, err, out.String())
		}
	}
	root := rootCommand(&app{out: view.New(io.Discard), err: view.New(io.Discard)})
	root.SetArgs([]string{"lab", "exec", fabric, "a", "true"})
	if err := root.Execute(); err == nil || err.Error() != "there is no lab for fabric \"roce-pair\"; build it with `fabricform lab up "+fabric+"`" {
		t.Error(err)
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
