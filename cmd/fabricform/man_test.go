package main

import (
	"cmp"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fabricform/fabricform/view"
)

// Only tests can import this package, so a test writes the manual pages, and the program does not contain what writes them.
var (
	manDir  = flag.String("man", "", "write the manual pages into this `directory`")
	manOf   = flag.String("man-of", "fabricform", "name and version in the pages' footers")
	manDate = flag.String("man-date", "", "date in the pages' footers")
)

// roff writes text so that groff prints each of its characters as it is.
var roff = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`)

// TestManPages: there is a page for each command, with each of its flags, and groff has nothing to say against it.
func TestManPages(t *testing.T) {
	dir := cmp.Or(*manDir, t.TempDir())
	root := rootCommand(&app{out: view.New(io.Discard), err: view.New(io.Discard)})
	root.InitDefaultCompletionCmd()
	pages := 0
	var write func(c *cobra.Command)
	write = func(c *cobra.Command) {
		c.InitDefaultHelpFlag()
		page := manPage(c)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, `\fB\-`+roff.Replace(f.Name)+`\fR`) {
				t.Errorf("%s: the page lacks the flag %s", c.CommandPath(), f.Name)
			}
		})
		path := filepath.Join(dir, pageName(c)+".1")
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		lintPage(t, path)
		pages++
		for _, sub := range c.Commands() {
			write(sub)
		}
	}
	write(root)
	if pages < 30 {
		t.Errorf("%d pages", pages)
	}
}

// lintPage fails the test if groff warns about a page. A machine without groff has no man either.
func lintPage(t *testing.T, path string) {
	t.Helper()
	groff, err := exec.LookPath("groff")
	if err != nil {
		return
	}
	out, err := exec.Command(groff, "-man", "-Tutf8", "-k", "-ww", "-rCHECKSTYLE=2", "-z", path).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("%s: %v: %s", path, err, out)
	}
}

// TestManPagesKeepEachCharacter: what a text has, the page shows, also at the start of a line.
func TestManPagesKeepEachCharacter(t *testing.T) {
	c := &cobra.Command{Use: "x FILE", Short: "Do it", Long: "A path is C:\\x\\n.\nIt's ~ 1.\n\n.so /etc/passwd\n\n  x -a  'b'\n  .c",
		Example: "  x -n 1 | y", Run: func(*cobra.Command, []string) {}}
	c.Flags().String("out", "a.b", "the `file` to write")
	c.Flags().String("lab", "", "the lab `NAME`")
	c.Flags().Lookup("lab").NoOptDefVal = ownLab
	want := `.TH X 1 "" "fabricform" "User Commands"
.SH NAME
x \- Do it
.SH SYNOPSIS
\fBx\fR FILE [flags]
.SH DESCRIPTION
A path is C:\ex\en. It\(aqs \(ti 1.
.PP
\&.so /etc/passwd
.PP
.nf
  x \-a  \(aqb\(aq
  .c
.fi
.SH OPTIONS
.TP
\fB\-h\fR, \fB\-help\fR
help for x
.TP
\fB\-lab\fR[=\fINAME\fR]
the lab NAME
.TP
\fB\-out\fR \fIfile\fR
the file to write (default: a.b)
.SH EXAMPLES
.nf
  x \-n 1 | y
.fi
`
	c.InitDefaultHelpFlag()
	if got := manPage(c); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// pageName is the name of a command's page, as man takes it.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage returns the page of a command.
func manPage(c *cobra.Command) string {
	var b strings.Builder
	title := strings.ToUpper(roff.Replace(pageName(c)))
	fmt.Fprintf(&b, ".TH %s 1 %q %q \"User Commands\"\n", title, *manDate, *manOf)
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff.Replace(pageName(c)), roff.Replace(c.Short))
	use, _ := strings.CutPrefix(c.UseLine(), c.CommandPath())
	fmt.Fprintf(&b, ".SH SYNOPSIS\n\\fB%s\\fR%s\n", roff.Replace(c.CommandPath()), roff.Replace(use))
	about, exits, _ := strings.Cut(cmp.Or(c.Long, c.Short+"."), "\nExit codes:\n")
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", manText(about))
	if subs := c.Commands(); len(subs) > 0 {
		b.WriteString(".SH COMMANDS\n")
		for _, sub := range subs {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fR(1)\n%s\n", roff.Replace(pageName(sub)), roff.Replace(sub.Short))
		}
	}
	b.WriteString(".SH OPTIONS\n")
	c.LocalFlags().VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	if c.HasAvailableInheritedFlags() {
		b.WriteString(".SH GLOBAL OPTIONS\n")
		c.InheritedFlags().VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	}
	if exits != "" {
		fmt.Fprintf(&b, ".SH EXIT STATUS\n%s", manText(exits))
	}
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", manText(c.Example))
	}
	if c.HasParent() {
		fmt.Fprintf(&b, ".SH SEE ALSO\n\\fB%s\\fR(1)\n", roff.Replace(pageName(c.Parent())))
	}
	return b.String()
}

// manFlag returns the entry of a flag, with one dash as the messages of the program write it.
func manFlag(f *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(f)
	short, value := "", ""
	if f.Shorthand != "" {
		short = `\fB\-` + f.Shorthand + `\fR, `
	}
	switch {
	case name == "":
	case f.NoOptDefVal != "":
		value = `[=\fI` + roff.Replace(name) + `\fR]`
	default:
		value = ` \fI` + roff.Replace(name) + `\fR`
	}
	if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && f.DefValue != "0" && f.DefValue != "0s" {
		usage += " (default: " + f.DefValue + ")"
	}
	return fmt.Sprintf(".TP\n%s\\fB\\-%s\\fR%s\n%s", short, roff.Replace(f.Name), value, manText(usage))
}

// manText returns a text with its paragraphs filled and its indented lines as they are.
func manText(text string) string {
	var b strings.Builder
	verbatim, first := false, true
	set := func(on bool) {
		if on != verbatim {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[on])
		}
		verbatim = on
	}
	for paragraph := range strings.SplitSeq(strings.Trim(view.Fill(text, 1<<20), "\n"), "\n") {
		if strings.TrimSpace(paragraph) == "" {
			set(false)
			b.WriteString(".PP\n")
			continue
		}
		indented := strings.HasPrefix(paragraph, " ") || strings.HasPrefix(paragraph, "\t")
		if !indented && !first && verbatim {
			set(false)
			b.WriteString(".PP\n")
		}
		set(indented)
		first = false
		line := roff.Replace(paragraph)
		if strings.HasPrefix(line, ".") {
			line = `\&` + line
		}
		b.WriteString(line + "\n")
	}
	set(false)
	return strings.ReplaceAll(b.String(), ".PP\n.PP\n", ".PP\n")
}
