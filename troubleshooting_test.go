package fabricform_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Each message of docs/troubleshooting.md is one that the program prints: the parts around … are in one of its strings, in this order.
func TestTheMessagesOfTroubleshootingExist(t *testing.T) {
	page, err := os.ReadFile("docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := regexp.MustCompile("(?m)^### `(.*)`$").FindAllStringSubmatch(string(page), -1)
	if len(headings) < 25 || len(headings) != strings.Count(string(page), "\n### ") {
		t.Fatalf("%d messages were read", len(headings))
	}
	texts := stringsOfTheProgram(t)
	for _, h := range headings {
		var parts []string
		for part := range strings.SplitSeq(h[1], "…") {
			parts = append(parts, regexp.QuoteMeta(part))
		}
		message := regexp.MustCompile("(?s)" + strings.Join(parts, ".*"))
		if !slices.ContainsFunc(texts, message.MatchString) {
			t.Errorf("docs/troubleshooting.md has %q, which no string of the program contains", h[1])
		}
	}
}

// stringsOfTheProgram returns the string expressions of all files but the tests. What is not a literal in them is a line break.
func stringsOfTheProgram(t *testing.T) (all []string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if e, is := n.(ast.Expr); is {
				if text := joined(e); text != "\n" {
					all = append(all, text)
				}
			}
			return true
		})
		return nil
	})
	if err != nil || len(all) < 1000 {
		t.Fatalf("%d strings were read: %v", len(all), err)
	}
	return all
}

// joined is the text of a literal, or of a sum of them.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		if e.Op == token.ADD {
			return joined(e.X) + joined(e.Y)
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return text
		}
	}
	return "\n"
}
