package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const languagePage = "../docs/language.md"

// TestLanguagePage compares docs/language.md with the comments and examples that it is generated from.
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

// languageExamples has an example for each heading of the page: testdata/language/host.nic.hcl for `host nic`.
const languageExamples = "testdata/language/"

// Examples without hosts are loaded with these hosts and, if they have no link of their own, with this cable.
const (
	exampleHosts = `
host "a" {
  address = "10.0.0.11"
  nic "rail0" { netdev = "ens19f0np0" }
  nic "rail1" { netdev = "ens19f1np1" }
}
host "b" {
  address = "10.0.0.12"
  nic "rail0" { netdev = "ens19f0np0" }
  nic "rail1" { netdev = "ens19f1np1" }
}
`
	exampleCable = `
link "rail0" {
  endpoints  = [host.a.nic.rail0, host.b.nic.rail0]
  subnet     = "192.168.88.0/30"
  speed_gbps = 25
}
`
)

// TestLanguageExamples: every example of the page loads without errors and warnings, contains the block that it is for,
// and is as `fmt` writes it.
func TestLanguageExamples(t *testing.T) {
	files, err := filepath.Glob(languageExamples + "*.hcl")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		path := strings.Split(strings.TrimSuffix(filepath.Base(file), ".hcl"), ".")
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parsed, d := hclsyntax.ParseConfig(src, file, hcl.InitialPos)
			body, is := parsed.Body.(*hclsyntax.Body)
			if d.HasErrors() || !is || !hasBlock(body, path) {
				t.Fatalf("%s has no such block: %s", file, d)
			}
			text := string(src)
			if !hasBlock(body, []string{"host"}) {
				text += exampleHosts
				if !hasBlock(body, []string{"link"}) {
					text += exampleCable
				}
			}
			if _, _, d := Load(write(t, "example.hcl", text), Options{Version: "0.1.0"}); len(d) != 0 {
				t.Error(d)
			}
			want, d := Format(src, file)
			if diff := cmp.Diff(string(src), string(want)); diff != "" || d.HasErrors() {
				t.Errorf("%s is not in canonical form: %s%s", file, diff, d)
			}
		})
	}
}

// hasBlock reports whether body contains the block that path names, from the outermost block.
func hasBlock(body *hclsyntax.Body, path []string) bool {
	return len(path) == 0 || slices.ContainsFunc(body.Blocks, func(b *hclsyntax.Block) bool {
		return b.Type == path[0] && hasBlock(b.Body, path[1:])
	})
}

// page is the text of docs/language.md, and the examples that it does not have yet.
type page struct {
	strings.Builder
	examples map[string]string // by file name
	missing  []string          // files that a heading has no example from
}

// reference returns the page docs/language.md: reference.head.md, then a table and an example for each block.
func reference() (string, error) {
	head, err := os.ReadFile("reference.head.md")
	if err != nil {
		return "", fmt.Errorf("read the head of the page: %w", err)
	}
	files, err := os.ReadDir(languageExamples)
	if err != nil {
		return "", fmt.Errorf("list the examples of the page: %w", err)
	}
	w := &page{examples: map[string]string{}}
	for _, f := range files {
		src, err := os.ReadFile(languageExamples + f.Name())
		if err != nil {
			return "", fmt.Errorf("read an example of the page: %w", err)
		}
		w.examples[f.Name()] = string(src)
	}
	var names []string
	for n := range functions(".", newMeter()) {
		names = append(names, "`"+n+"`")
	}
	slices.Sort(names)
	w.WriteString(strings.Replace(string(head), "{{functions}}", strings.Join(names, ", "), 1))
	w.WriteString("\n## Blocks\n\nThe tables below are generated from the comments in the source code. The examples without hosts belong to a fabric\n" +
		"of two hosts, `a` and `b`, with a cable between their NICs `rail0`.\n")
	for _, k := range language().blocks {
		w.block(k, "", 3)
	}
	if len(w.missing) > 0 {
		return "", fmt.Errorf("blocks without an example: write %s in %s", strings.Join(w.missing, ", "), languageExamples)
	}
	if len(w.examples) > 0 {
		return "", fmt.Errorf("examples without a block in %s: %s", languageExamples, strings.Join(slices.Sorted(maps.Keys(w.examples)), ", "))
	}
	return w.String(), nil
}

func (w *page) block(b *block, path string, level int) {
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
	inside := path + b.name
	w.example(inside)
	for _, k := range b.blocks {
		if level > 3 && k.name == "validate" || k.typ == b.typ {
			continue
		}
		if (b.name == "link" || b.name == "network" || b.name == "host") && (k.name == "validate" || k.name == "ssh" || k.name == "slurm" || k.name == "nccl") {
			fmt.Fprintf(w, "\n%s `%s`\n\n%s It has the attributes of the top-level `%s` block.\n", strings.Repeat("#", level+1), inside+" "+k.name, k.doc(), k.name)
			w.example(inside + " " + k.name)
			continue
		}
		w.block(k, inside+" ", level+1)
	}
}

// example writes the example of the block that path names, such as "host nic".
func (w *page) example(path string) {
	name := strings.ReplaceAll(path, " ", ".") + ".hcl"
	text, is := w.examples[name]
	if !is {
		w.missing = append(w.missing, name)
	}
	delete(w.examples, name)
	fmt.Fprintf(w, "\n```hcl\n%s```\n", text)
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
