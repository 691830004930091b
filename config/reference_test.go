package config

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const languagePage = "../docs/language.md"

// TestLanguagePage compares docs/language.md with the comments that it is generated from.
func TestLanguagePage(t *testing.T) {
	want, err := reference()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(languagePage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(languagePage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Fatalf("docs/language.md is out of date: run `make golden`\n%s", d)
	}
}

// TestEverythingIsDocumented: an attribute without a comment would be an empty cell of the page.
func TestEverythingIsDocumented(t *testing.T) {
	var walk func(b *block)
	walk = func(b *block) {
		for _, a := range b.every() {
			if a.doc() == "" {
				t.Errorf("%s.%s has no comment", a.goType, a.goField)
			}
		}
		for _, k := range b.blocks {
			if k.doc() == "" {
				t.Errorf("%s.%s has no comment", k.goType, k.goField)
			}
			walk(k)
		}
	}
	walk(language())
}

// reference returns the page docs/language.md: reference.head.md, then a table for each block.
func reference() (string, error) {
	head, err := os.ReadFile("reference.head.md")
	if err != nil {
		return "", fmt.Errorf("read the head of the page: %w", err)
	}
	var names []string
	for n := range functions(".", newMeter()) {
		names = append(names, "`"+n+"`")
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(strings.Replace(string(head), "{{functions}}", strings.Join(names, ", "), 1))
	b.WriteString("\n## Blocks\n\nThe tables below are generated from the comments in the source code.\n")
	for _, k := range language().blocks {
		k.page(&b, "", 3)
	}
	return b.String(), nil
}

func (b *block) page(w *strings.Builder, path string, level int) {
	fmt.Fprintf(w, "\n%s `%s`\n\n%s\n", strings.Repeat("#", level), path+b.header(), b.doc())
	var notes []string
	if !b.many {
		notes = append(notes, "At most one.")
	}
	if b.repeat {
		notes = append(notes, "Accepts `for_each` and `enabled`.")
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "%s\n", strings.Join(notes, " "))
	}
	if len(b.attrs) > 0 {
		w.WriteString("\n| attribute | value | default | meaning |\n|---|---|---|---|\n")
		for _, a := range b.attrs {
			fmt.Fprintf(w, "| `%s` | %s | %s | %s%s |\n", a.name, a.describe(), a.fallback(), a.doc(), a.parts())
		}
	}
	inside := strings.Fields(path + b.name)
	for _, k := range b.blocks {
		if level > 3 && k.name == "validate" || k.typ == b.typ {
			continue
		}
		if (b.name == "link" || b.name == "network" || b.name == "host") && (k.name == "validate" || k.name == "ssh" || k.name == "nccl") {
			fmt.Fprintf(w, "\n%s `%s`\n\n%s It has the attributes of the top-level `%s` block.\n", strings.Repeat("#", level+1), strings.Join(inside, " ")+" "+k.name, k.doc(), k.name)
			continue
		}
		k.page(w, strings.Join(inside, " ")+" ", level+1)
	}
}

// parts documents the attributes of an object in the same table cell.
func (a *attribute) parts() string {
	var out []string
	for _, p := range a.partAttributes() {
		out = append(out, fmt.Sprintf("`%s`: %s", p.name, strings.TrimSuffix(p.doc(), ".")))
	}
	if out == nil {
		return ""
	}
	return " " + strings.Join(out, "; ") + "."
}
