package config

import (
	"embed"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"reflect"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
)

//go:embed schema.go
var own embed.FS

// comments holds the comments of all tagged fields, by "Type.Field". They come from the source that is
// embedded in the program, so that the page, an editor's help and the code always agree.
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
				panic(err) // the compiler has parsed it
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

// doc returns the comment of the attribute's field.
func (a *attribute) doc() string { return comments()[a.goType+"."+a.goField] }

// doc returns the comment of the block's field in the enclosing block.
func (b *block) doc() string { return comments()[b.goType+"."+b.goField] }

func (b *block) header() string {
	if b.label != "" {
		return fmt.Sprintf("%s %q", b.name, b.label)
	}
	return b.name
}

// describe describes the attribute's type and range.
func (a *attribute) describe() string {
	out := string(a.typeName())
	if a.one != nil {
		out = "`" + strings.Join(quoted(a.one), "`, `") + "`"
		if a.typeName() == typeStrings {
			out = "a list of " + out
		}
	}
	if a.min != nil && a.max != nil {
		out += ", " + a.within("")
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

// fallback describes what applies if the attribute is not set.
func (a *attribute) fallback() string {
	switch {
	case a.required:
		return "required"
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

// partAttributes returns the attributes of an attribute whose value is an object.
func (a *attribute) partAttributes() []*attribute {
	if a.typeName() != typeObject {
		return nil
	}
	spec := &block{}
	spec.read(a.typ, nil)
	return spec.attrs
}
