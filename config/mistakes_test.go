package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
)

// TestOneErrorForEachMistake makes each mistake of a table in a file that has no other. The table says what a person then reads:
// one message, the text at which it points, and its cure. Lines with - are those of the file, lines with + replace them, and
// -update writes the rest.
func TestOneErrorForEachMistake(t *testing.T) {
	const base, table = "testdata/mistakes/fabric.hcl", "testdata/mistakes/table.txt"
	right := read(t, base)
	if d := mistaken(right); len(d) != 0 {
		t.Fatal(d)
	}
	want := read(t, table)
	var got strings.Builder
	for i, c := range strings.Split(strings.TrimSpace(want), "\n\n") {
		var from, to, kept []string
		for line := range strings.Lines(c) {
			line = strings.TrimSuffix(line, "\n")
			switch text := strings.TrimPrefix(line[1:], " "); line[0] {
			case '-':
				from = append(from, text)
			case '+':
				to = append(to, text)
			case '#':
			default:
				continue
			}
			kept = append(kept, line)
		}
		src := edited(t, right, from, to)
		d := mistaken(src)
		if len(d) != 1 {
			t.Errorf("%s\n%d messages: %v", c, len(d), d)
		}
		if i > 0 {
			got.WriteString("\n")
		}
		got.WriteString(strings.Join(kept, "\n") + "\n")
		for _, d := range d {
			if d.Subject == nil {
				t.Errorf("%s\n%v has no place", c, d)
				continue
			}
			at, _, _ := strings.Cut(string(d.Subject.SliceBytes([]byte(src))), "\n")
			fmt.Fprintf(&got, "= %s, at `%s`\n= %s\n", d.Summary, at, d.Detail)
		}
	}
	if *update {
		if err := os.WriteFile(table, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if d := cmp.Diff(want, got.String()); d != "" {
		t.Error(d)
	}
}

func mistaken(src string) hcl.Diagnostics {
	const name = "fabric.hcl"
	_, _, d := Load(name, Options{Version: "0.1.0", Overlay: map[string][]byte{name: []byte(src)}})
	return d
}

// edited replaces the first run of lines; the indentation does not count.
func edited(t *testing.T, src string, from, to []string) string {
	t.Helper()
	lines := strings.Split(src, "\n")
	for i := range lines {
		n := min(len(lines), i+len(from))
		if slices.EqualFunc(lines[i:n], from, func(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }) {
			return strings.Join(slices.Concat(lines[:i], to, lines[n:]), "\n")
		}
	}
	t.Fatalf("the file does not have %q", from)
	return ""
}
