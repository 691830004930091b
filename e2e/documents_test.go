package e2e

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the outputs in the documents; read the diff")

// Markers of a page, in comments of HTML. A block of commands without one is run by TestDocumentsInALab, if its page has the first.
const (
	markLab   = "commands below are run in a lab"
	markNeeds = "needs " // followed by one of needs
	markHosts = "on each host, as root"
	markRunBy = "run by " // followed by a program of the project, or by a test
)

// needs are what no test has.
var needs = []string{"hardware", "hosts, and jq", "hosts with GPUs", "Slurm, and hosts with GPUs", "a release", "a login shell", "VS Code"}

// fenced is a block of a page between two lines of ```.
type fenced struct {
	kind  string   // the word after ```
	mark  string   // what a comment on the line above says
	file  string   // the file that a line above names: `NAME`:
	lines []string // without the fences and their indentation
	first int      // index of the first of lines in the page
}

var (
	markRE = regexp.MustCompile(`^<!-- (.*) -->$`)
	nameRE = regexp.MustCompile("^`([^`/]+)`:$")
)

// blocks returns the fenced blocks of a page.
func blocks(page []string) (out []fenced) {
	above := fenced{}
	open := false
	for i, line := range page {
		text := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(text, "```") && open:
			out, above, open = append(out, above), fenced{}, false
		case strings.HasPrefix(text, "```"):
			above.kind, above.first, open = strings.TrimPrefix(text, "```"), i+1, true
		case open:
			above.lines = append(above.lines, line)
		case markRE.MatchString(text):
			above.mark = markRE.FindStringSubmatch(text)[1]
		case nameRE.MatchString(text):
			above.file = nameRE.FindStringSubmatch(text)[1]
		case text != "":
			above = fenced{}
		}
	}
	return out
}

// isCommands reports whether a block shows commands for a shell.
func (b fenced) isCommands() bool {
	return b.kind == "sh" || slices.ContainsFunc(b.lines, func(l string) bool { return strings.HasPrefix(strings.TrimSpace(l), "$ ") })
}

// isShown reports whether a block has the outputs of its commands, which TestDocumentsInALab or TestReadmeShowsTheQuickStart compares.
func (b fenced) isShown() bool { return strings.HasPrefix(strings.TrimSpace(b.lines[0]), "$ ") }

// spoken returns the sub-commands and flags of fabricform in a block of commands: whoever runs the block has these words.
func (b fenced) spoken() (out []string) {
	for _, line := range b.lines {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(line)
		if len(words) < 2 || filepath.Base(words[0]) != "fabricform" {
			continue
		}
		out = append(out, words[1])
		for _, w := range words[2:] {
			if flag, _, _ := strings.Cut(w, "="); strings.HasPrefix(flag, "-") {
				out = append(out, flag)
			}
		}
	}
	return out
}

// documents are the pages for people who use the program.
func documents(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil || len(pages) < 10 {
		t.Fatal(pages, err)
	}
	return append(pages, "../README.md", "../CONTRIBUTING.md", "../SECURITY.md", "../CHANGELOG.md", "../examples/gitops/README.md", "../lsp/vscode/README.md")
}

func readPage(t *testing.T, path string) []string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

// TestEveryCommandOfTheDocumentsIsRunOrMarked: a block of commands is run in a lab, or a comment above it says who else runs
// it, or that it needs hardware.
func TestEveryCommandOfTheDocumentsIsRunOrMarked(t *testing.T) {
	tests := testFiles(t)
	for _, path := range documents(t) {
		page := readPage(t, path)
		inLab := slices.Contains(page, "<!-- "+markLab+" -->")
		for _, b := range blocks(page) {
			at := fmt.Sprintf("%s:%d", path, b.first)
			by, runBy := strings.CutPrefix(b.mark, markRunBy)
			switch {
			case !b.isCommands():
			case b.kind != "sh":
				t.Errorf("%s: these are commands: begin the block with ```sh", at)
			case runBy:
				if st, err := os.Stat(filepath.Join("..", by)); tests[by] == "" && (err != nil || st.IsDir() || st.Mode()&0o111 == 0) {
					t.Errorf("%s: there is no test or program %s", at, by)
				}
				for _, word := range b.spoken() {
					if tests[by] != "" && !b.isShown() && !strings.Contains(tests[by], word) {
						t.Errorf("%s: the file of %s does not have %s", at, by, word)
					}
				}
			case slices.Contains(needs, strings.TrimPrefix(b.mark, markNeeds)):
			case !inLab:
				t.Errorf("%s: nothing runs these commands: write <!-- %s --> near the top of the page, or above this block <!-- %shardware --> or <!-- %sTEST -->", at, markLab, markNeeds, markRunBy)
			}
		}
	}
}

// The README shows the file and the plan of the quick start, which TestDocumentsInALab runs.
func TestReadmeShowsTheQuickStart(t *testing.T) {
	shown := map[string]bool{}
	for _, b := range blocks(readPage(t, "../docs/quickstart.md")) {
		shown[strings.Join(b.lines, "\n")] = true
	}
	found := 0
	for _, b := range blocks(readPage(t, "../README.md")) {
		if b.kind == "hcl" || b.mark == markRunBy+"TestDocumentsInALab" {
			found++
			if text := strings.Join(b.lines, "\n"); !shown[text] {
				t.Errorf("docs/quickstart.md does not have this block of the README:\n%s", text)
			}
		}
	}
	if found != 2 {
		t.Errorf("%d blocks of the README were compared, want its file and its plan", found)
	}
}

// The quick start has at most 900 words to read.
func TestQuickStartIsShort(t *testing.T) {
	page := readPage(t, "../docs/quickstart.md")
	for _, b := range slices.Backward(blocks(page)) {
		page = slices.Delete(page, b.first, b.first+len(b.lines))
	}
	if n := len(strings.Fields(strings.Join(page, " "))); n > 900 {
		t.Errorf("docs/quickstart.md has %d words outside of its blocks", n)
	}
}

// testFiles has the text of the file of each test of the project, by the test's name.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			if f, is := d.(*ast.FuncDecl); is && strings.HasPrefix(f.Name.Name, "Test") {
				texts[f.Name.Name] = string(text)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// masks replace what differs from run to run. Masked texts are only compared, so their length does not matter.
var masks = []struct {
	of *regexp.Regexp
	as string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d`), "TIME"},
	{regexp.MustCompile(`\d+( / \d+)* µs`), "µs"},
	{regexp.MustCompile(`\d+(\.\d+)? Gb/s`), "Gb/s"},
	{regexp.MustCompile(`\d+ retransmits?`), "retransmits"},
	{regexp.MustCompile(`\b(bbr|cubic|reno)\b`), "CONGESTION"},
	{regexp.MustCompile(`\b\d{6}-[0-9a-f]{8}\b`), "TRANSACTION"},
	{regexp.MustCompile(`\b[0-9a-f]{12,16}\b`), "ID"},
	{regexp.MustCompile(`by \S+@[^\s,]+`), "by OPERATOR"},
	{regexp.MustCompile(`[ \t]+(\n|$)`), "$1"},
}

// masked is a text without what differs from run to run.
func masked(text string) string {
	for _, m := range masks {
		text = m.of.ReplaceAllString(text, m.as)
	}
	return text
}
