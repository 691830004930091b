//go:build linux

package helper

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/facts"
)

// TestEveryDeclaredMethodIsServed compares the table with the declarations in the source.
func TestEveryDeclaredMethodIsServed(t *testing.T) {
	table, err := Methods(nil, nil, checkpoint.NewStore(t.TempDir(), checkpoint.Now), facts.Connection{})
	if err != nil {
		t.Fatal(err)
	}
	declared := declarations(t)
	slices.Sort(declared)
	if d := cmp.Diff(declared, slices.Sorted(maps.Keys(table))); d != "" || len(declared) < 40 {
		t.Errorf("declared (-) and served (+), %d methods:\n%s", len(declared), d)
	}
}

// declarations are the names in all agent.Method[P, R](name) outside of tests.
func declarations(t *testing.T) (names []string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			generic, ok := call.Fun.(*ast.IndexListExpr)
			if !ok {
				return true
			}
			if is, ok := generic.X.(*ast.SelectorExpr); ok && is.Sel.Name == "Method" {
				names = append(names, literal(t, call.Args[0]))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// literal is the value of "name" or agent.Busy + "name".
func literal(t *testing.T, e ast.Expr) string {
	t.Helper()
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		if err != nil {
			t.Fatal(err)
		}
		return s
	case *ast.SelectorExpr:
		if e.Sel.Name == "Busy" {
			return agent.Busy
		}
	case *ast.BinaryExpr:
		return literal(t, e.X) + literal(t, e.Y)
	}
	t.Fatalf("a method's name is %T: write it as a string", e)
	return ""
}
