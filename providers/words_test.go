package providers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestGenericRoomsKnowNoProvidersWords: a kind's name and the names of its attributes are the provider's to
// say, as typed values. A generic package that compares with one of them breaks where a provider is added
// or reworded.
func TestGenericRoomsKnowNoProvidersWords(t *testing.T) {
	var kinds []string
	for _, k := range Kinds() {
		kinds = append(kinds, k.Name)
	}
	words := append(attributes(t), kinds...)
	for _, needed := range []string{"mtu", "state", "address", "nic"} {
		if !slices.Contains(words, needed) {
			t.Fatalf("%q is not found among the words of providers: %v", needed, words)
		}
	}
	for folder, words := range map[string][]string{"resource": words, "planner": words, "apply": words, "checkpoint": words, "agent": words, "view": words,
		// Validators see no changes (the import table says so), and have a check of NCCL.
		"validators": slices.DeleteFunc(kinds, func(k string) bool { return k == "nccl" })} {
		literals(t, filepath.Join("..", folder), func(at token.Position, text string, parent ast.Node) {
			if compares(parent) && slices.Contains(words, strings.TrimSpace(text)) {
				t.Errorf("%s: %q is a provider's word", at, text)
			}
		})
	}
}

// compares says whether what stands in an expression decides something.
func compares(parent ast.Node) bool {
	switch p := parent.(type) {
	case *ast.BinaryExpr:
		return p.Op == token.EQL || p.Op == token.NEQ
	case *ast.CallExpr:
		f, is := p.Fun.(*ast.SelectorExpr)
		return is && slices.Contains([]string{"Contains", "Cut", "CutPrefix", "HasPrefix", "NewAtom", "TrimPrefix", "Lookup"}, f.Sel.Name)
	case *ast.CaseClause, *ast.IndexExpr:
		return true
	case *ast.KeyValueExpr:
		key, is := p.Key.(*ast.Ident)
		return !is || key.Name == "Kind" || key.Name == "Attribute"
	}
	return false
}

// attributes are the first words of the attributes that providers write into changes and atoms.
func attributes(t *testing.T) (words []string) {
	t.Helper()
	literals(t, ".", func(_ token.Position, text string, parent ast.Node) {
		word, _, _ := strings.Cut(text, " ")
		switch p := parent.(type) {
		case *ast.KeyValueExpr:
			if key, is := p.Key.(*ast.Ident); !is || !strings.EqualFold(key.Name, "attribute") {
				return
			}
		case *ast.CallExpr:
			name := ""
			switch f := p.Fun.(type) {
			case *ast.Ident:
				name = f.Name
			case *ast.SelectorExpr:
				name = f.Sel.Name
			}
			if !slices.Contains([]string{"NewAtom", "atom", "nicAtom", "change"}, name) {
				return
			}
		default:
			return
		}
		if word != "" {
			words = append(words, word)
		}
	})
	slices.Sort(words)
	return slices.Compact(words)
}

// literals visits the string literals of a folder's programs, tests and struct tags aside.
func literals(t *testing.T, dir string, visit func(at token.Position, text string, parent ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		var parents []ast.Node
		ast.Inspect(file, func(n ast.Node) bool {
			if n == nil {
				parents = parents[:len(parents)-1]
				return true
			}
			if l, is := n.(*ast.BasicLit); is && l.Kind == token.STRING {
				parent := parents[len(parents)-1]
				if field, is := parent.(*ast.Field); !is || field.Tag != l {
					if text, err := strconv.Unquote(l.Value); err == nil {
						visit(files.Position(l.Pos()), text, parent)
					}
				}
			}
			parents = append(parents, n)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
