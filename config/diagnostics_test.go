package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
)

var update = flag.Bool("update", false, "rewrite expected files; read the diff")

// A busy machine takes long for what the other limits of an evaluation stop.
func init() { deadline = 10 * time.Minute }

// TestDiagnostics holds what a person reads: place, snippet, what is wrong, what to do. A new case
// is a new file. What comes from outside the file stands in comments at its beginning.
func TestDiagnostics(t *testing.T) {
	var files []string
	for _, pattern := range []string{"testdata/diagnostics/*.hcl", "testdata/diagnostics/*.hcl.json", "../examples/broken/*.hcl"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, sources, diags := Load(file, outside(t, file))
			var got bytes.Buffer
			if err := hcl.NewDiagnosticTextWriter(&got, sources, 100, false).WriteDiagnostics(diags); err != nil {
				t.Fatal(err)
			}
			golden := strings.TrimSuffix(file, ".hcl") + ".txt"
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), got.String()); d != "" {
				t.Fatal(d)
			}
			if !strings.Contains(file, "values-from-outside") {
				placed(t, diags)
			}
		})
	}
}

func placed(t *testing.T, diags hcl.Diagnostics) {
	t.Helper()
	if len(diags) == 0 {
		t.Error("nothing is wrong with it")
	}
	for _, d := range diags {
		if d.Subject == nil || d.Detail == "" {
			t.Errorf("%q has no place or does not say what to do", d.Summary)
		}
	}
}

// outside reads lines such as "# -var name=value" at a file's beginning.
func outside(t *testing.T, file string) Options {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Version: "0.1.0"}
	for line := range strings.SplitSeq(string(src), "\n") {
		kind, text, _ := strings.Cut(strings.TrimPrefix(line, "# "), " ")
		switch {
		case !strings.HasPrefix(line, "# "):
			return o
		case kind == "-var":
			o.Inputs = append(o.Inputs, Input{Var: text})
		case kind == "-var-file":
			o.Inputs = append(o.Inputs, Input{File: text})
		case kind == "-var-again":
			o.Inputs = append(o.Inputs, Input{Var: text, Again: true})
		case kind == "-var-file-again":
			o.Inputs = append(o.Inputs, Input{File: text, Again: true})
		case kind == "env":
			o.Env = append(o.Env, text)
		}
	}
	return o
}

// TestNoMessageShowsASensitiveValue: not even a part of it, or what a function makes of it.
func TestNoMessageShowsASensitiveValue(t *testing.T) {
	shown := strings.ToLower(read(t, "testdata/diagnostics/sensitive.txt") + read(t, "testdata/diagnostics/values-from-outside.txt"))
	for _, part := range []string{"hunter2", "hunter3 ", "ahvud", "a-"} { // aHVud… is base64
		if strings.Contains(shown, part) {
			t.Errorf("the messages show %q", part)
		}
	}
}

// summary matches the summaries of problems in this package, fabric and widearea.
var summary = regexp.MustCompile(`(?:errorf|warnf|duplicate|say|fail|outside|problem)\((?:[^"\n]*, )?"([A-Z][^"]+)", |&wrong\{"([^"]+)"`)

// TestEveryDiagnosticHasAGolden: a message that no case shows is one that nobody has read.
func TestEveryDiagnosticHasAGolden(t *testing.T) {
	shown := read(t, "testdata/diagnostics/*.txt") + read(t, "../examples/broken/*.txt")
	sources := read(t, "*.go") + read(t, "../fabric/*.go") + read(t, "../widearea/*.go")
	found := summary.FindAllStringSubmatch(sources, -1)
	if len(found) < 80 {
		t.Fatalf("only %d messages found: has their form changed?", len(found))
	}
	shown += strings.NewReplacer("= ", ": ", ", at `", "\n").Replace(read(t, "testdata/mistakes/table.txt"))
	shown += ": Fabric too large\n: Text too long\n" // TestFabricTooLarge, TestTextTooLong
	for _, m := range found {
		if s := m[1] + m[2]; !strings.Contains(shown, ": "+s+"\n") {
			t.Errorf("no case shows %q", s)
		}
	}
}

func TestFabricTooLarge(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		text := "# " + strings.Repeat("x", maxFileBytes-100) + "\n"
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.hcl", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, d := Load(dir, Options{}); len(d) != 1 || d[0].Summary != "Fabric too large" || d[0].Subject == nil {
		t.Fatal(d)
	}
}

// TestTextTooLong: HCL's parser joins the pieces of a text in quadratic time.
func TestTextTooLong(t *testing.T) {
	text := func(pieces int) hcl.Diagnostics {
		path := filepath.Join(t.TempDir(), "f.hcl")
		if err := os.WriteFile(path, []byte("locals {\n  a = \""+strings.Repeat("%d,", pieces)+"\"\n}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, d := Load(path, Options{})
		return d
	}
	if d := text(5000); d.HasErrors() {
		t.Error(d)
	}
	if d := text(100_000); len(d) != 1 || d[0].Summary != "Text too long" || d[0].Subject == nil {
		t.Error(d)
	}
}

func read(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, f := range files {
		if strings.HasSuffix(f, "_test.go") {
			continue
		}
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(b)
	}
	return out.String()
}
