package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
)

//go:embed schema.go reference.head.md
var own embed.FS

// comments are the comments of all tagged fields, by "Type.Field", read from the source that the
// program carries: the page, an editor's help and the code cannot differ.
var comments = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, source := range []embed.FS{fabric.Source, own} {
		names, err := fs.Glob(source, "*.go")
		if err != nil {
			panic(err) // the pattern is ours
		}
		for _, name := range names {
			src, err := source.ReadFile(name)
			if err != nil {
				panic(err) // embedded
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
			if err != nil {
				panic(err) // it was compiled
			}
			ast.Inspect(file, func(n ast.Node) bool {
				t, is := n.(*ast.TypeSpec)
				if s, isStruct := structOf(t, is); isStruct {
					fieldComments(t.Name.Name, s, out)
				}
				return true
			})
		}
	}
	return out
})

func structOf(t *ast.TypeSpec, is bool) (*ast.StructType, bool) {
	if !is {
		return nil, false
	}
	s, isStruct := t.Type.(*ast.StructType)
	return s, isStruct
}

func fieldComments(typ string, s *ast.StructType, out map[string]string) {
	for _, f := range s.Fields.List {
		for _, n := range f.Names {
			out[typ+"."+n.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
		}
	}
}

// doc is the comment of the attribute's field.
func (a *attribute) doc() string { return comments()[a.owner+"."+a.goField] }

// doc is the comment of the block's field in the block around it.
func (b *block) doc() string { return comments()[b.owner+"."+b.goField] }

// Reference is the page of the language, docs/language.md: its head, and a table for each block.
func Reference() (string, error) {
	head, err := own.ReadFile("reference.head.md")
	if err != nil {
		return "", fmt.Errorf("read the page's head: %w", err)
	}
	var names []string
	for n := range functions(".", newMeter()) {
		names = append(names, "`"+n+"`")
	}
	sort.Strings(names)
	var b strings.Builder
	b.WriteString(strings.Replace(string(head), "{{functions}}", strings.Join(names, ", "), 1))
	b.WriteString("\n## Blocks\n\nThe tables below are made from the comments of the program's own types.\n")
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
		notes = append(notes, "Takes `for_each` and `enabled`.")
	}
	if len(notes) > 0 {
		fmt.Fprintf(w, "%s\n", strings.Join(notes, " "))
	}
	if len(b.attrs) > 0 {
		w.WriteString("\n| attribute | takes | without it | meaning |\n|---|---|---|---|\n")
		for _, a := range b.attrs {
			fmt.Fprintf(w, "| `%s` | %s | %s | %s%s |\n", a.name, a.takes(), a.without(), a.doc(), a.parts())
		}
	}
	inside := strings.Fields(path + b.name)
	for _, k := range b.blocks {
		if level > 3 && k.name == "validate" || k.typ == b.typ {
			continue
		}
		if (b.name == "link" || b.name == "network" || b.name == "host") && (k.name == "validate" || k.name == "ssh" || k.name == "nccl") {
			fmt.Fprintf(w, "\n%s `%s`\n\n%s The attributes are those of the top's `%s`.\n", strings.Repeat("#", level+1), strings.Join(inside, " ")+" "+k.name, k.doc(), k.name)
			continue
		}
		k.page(w, strings.Join(inside, " ")+" ", level+1)
	}
}

func (b *block) header() string {
	if b.label != "" {
		return fmt.Sprintf("%s %q", b.name, b.label)
	}
	return b.name
}

// takes is the attribute's type and range.
func (a *attribute) takes() string {
	out := a.typeName()
	if a.one != nil {
		out = "`" + strings.Join(quoted(a.one), "`, `") + "`"
		if a.typeName() == "a list of strings" {
			out = "a list of " + out
		}
	}
	if a.min != nil && a.max != nil {
		out += fmt.Sprintf(", %s to %s", plain(*a.min), plain(*a.max))
	}
	if a.auto {
		out += ", `\"auto\"`"
	}
	return out
}

func quoted(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = `"` + s + `"`
	}
	return out
}

func (a *attribute) without() string {
	switch {
	case a.required:
		return "an error"
	case a.auto:
		return "derived"
	case a.initial != "":
		return "`" + a.initial + "`"
	case a.typ.Kind() == reflect.Bool:
		return "`false`"
	case a.absent != "":
		return "`" + a.absent + "`"
	}
	return ""
}

// parts documents an object's own attributes in the same cell.
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

// partAttributes are the attributes of an object's own.
func (a *attribute) partAttributes() []*attribute {
	if a.typeName() != "an object" {
		return nil
	}
	spec := &block{}
	spec.read(a.typ, nil)
	return spec.attrs
}
