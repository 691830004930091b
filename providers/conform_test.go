package providers

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryKindConforms: each kind that a folder makes is named in a test of that folder that calls kindtest.Conform.
func TestEveryKindConforms(t *testing.T) {
	files, err := filepath.Glob("*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	made, tested := map[string]bool{}, map[string]bool{}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		folder := filepath.Dir(path)
		if !strings.HasSuffix(path, "_test.go") {
			ast.Inspect(file, func(n ast.Node) bool {
				if call, is := n.(*ast.CallExpr); is && calls(call, "resource", "Erase") {
					made[folder+"."+call.Args[0].(*ast.Ident).Name] = true
				}
				return true
			})
			continue
		}
		for _, d := range file.Decls {
			conforms, names := false, []string(nil)
			ast.Inspect(d, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					conforms = conforms || calls(n, "kindtest", "Conform")
				case *ast.Ident:
					names = append(names, n.Name)
				}
				return true
			})
			for _, name := range names {
				tested[folder+"."+name] = tested[folder+"."+name] || conforms
			}
		}
	}
	if len(made) != len(Kinds()) {
		t.Errorf("%d kinds are made in the folders, and %d are in the table", len(made), len(Kinds()))
	}
	for kind := range made {
		if !tested[kind] {
			t.Errorf("no test hands %s to kindtest.Conform", kind)
		}
	}
}

// calls says whether a call is of a package's function, generic or not.
func calls(c *ast.CallExpr, pkg, name string) bool {
	f := c.Fun
	switch g := f.(type) {
	case *ast.IndexExpr:
		f = g.X
	case *ast.IndexListExpr:
		f = g.X
	}
	s, is := f.(*ast.SelectorExpr)
	if !is || s.Sel.Name != name {
		return false
	}
	x, is := s.X.(*ast.Ident)
	return is && x.Name == pkg
}
