package fabricform_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// sentences are fields and methods that hold text for people.
var sentences = []string{"Cause", "Cure", "Why", "Message", "Failed", "Reason", "Unreachable", "Sentence", "Note", "Notes", "Error", "Trouble", "Detail", "Describe"}

// looking are functions that read a text.
var looking = []string{"Contains", "ContainsAny", "HasPrefix", "HasSuffix", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Index", "LastIndex", "Split", "SplitN", "Fields", "MatchString"}

// foreign are the files and rooms that read what other people's libraries and programs say, which have no types.
var foreign = map[string]string{
	"transport/hostkey.go": "errors of x/crypto/ssh", "transport/connect.go": "errors of x/crypto/ssh",
	"config/explain.go": "diagnostics of HCL", "config/load.go": "diagnostics of HCL",
	"facts/simulate.go": "package managers", "packagemanager": "package managers",
}

// A sentence can be reworded without changing what the program does: nothing looks into one.
func TestNothingReadsASentence(t *testing.T) {
	found := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		found++
		ast.Inspect(file, func(n ast.Node) bool {
			var text ast.Expr
			switch n := n.(type) {
			case *ast.CallExpr:
				if f, is := n.Fun.(*ast.SelectorExpr); is && slices.Contains(looking, f.Sel.Name) && len(n.Args) > 0 && !byLines(n.Args) {
					text = n.Args[0]
				}
			case *ast.BinaryExpr:
				if lit, is := n.Y.(*ast.BasicLit); is && (n.Op == token.EQL || n.Op == token.NEQ) && lit.Kind == token.STRING && lit.Value != `""` {
					text = n.X
				}
			}
			at := filepath.ToSlash(path)
			if name := field(text); slices.Contains(sentences, name) && foreign[at] == "" && foreign[filepath.Dir(at)] == "" {
				t.Errorf("%s reads the sentence %s: decide by a typed value instead", path, name)
			}
			return true
		})
		return nil
	})
	if err != nil || found < 100 {
		t.Fatalf("%d files were read: %v", found, err)
	}
}

// byLines says whether a text is only taken apart into its lines.
func byLines(args []ast.Expr) bool {
	lit, is := args[len(args)-1].(*ast.BasicLit)
	return is && len(args) == 2 && lit.Value == `"\n"`
}

// field is the last name of a selector or of a call of one.
func field(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.CallExpr:
		return field(e.Fun)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.ParenExpr:
		return field(e.X)
	}
	return ""
}

// A command in a message can be pasted: it names the fabric as the operator did (fabric.Invocation). A message of a room that does
// not know that has only words, which Fill completes.
func TestCommandsInMessagesNameTheFabric(t *testing.T) {
	knows := []string{"apply", "planner", "validators", "view", "cmd/fabricform"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		filled := map[ast.Node]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if call, is := n.(*ast.CallExpr); is && len(call.Args) == 1 {
				if f, is := call.Fun.(*ast.SelectorExpr); is && f.Sel.Name == "Fill" {
					filled[call.Args[0]] = true
				}
			}
			lit, is := n.(*ast.BasicLit)
			if !is || !strings.HasPrefix(lit.Value, `"`) || path == "fabric/invocation.go" {
				return true
			}
			left := lit.Value
			if filled[n] || !slices.Contains(knows, filepath.ToSlash(filepath.Dir(path))) {
				left = fabric.Invocation{Path: "FABRIC"}.Fill(left)
			}
			for _, command := range strings.Split(left, "`fabricform ")[1:] {
				if words, _, _ := strings.Cut(command, "`"); !strings.Contains(words, "FABRIC") {
					t.Errorf("%s: %s", path, lit.Value)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wrong are phrases that are wrong wherever they are: inverted sentences, proverbs, and words that the field does not use.
var wrong = []string{"stands wherever", "stands twice", "these would do", "nothing was found out", "link bears", "knows not", "were to be killed",
	"is let go", "is borne", "cannot be told from", "too mild", "fails together with", "by who ", "goes back to how", "will do it", "of the which", "`role` says.", "is no warning"}

// TestPlainWords: the pages and the texts of the program have none of the wrong phrases.
func TestPlainWords(t *testing.T) {
	read := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		var texts []string
		switch {
		case filepath.Ext(path) == ".md" && path != "CHANGELOG.md":
			page, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			texts = strings.Split(string(page), "\n")
		case filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go"):
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.BasicLit:
					texts = append(texts, n.Value)
				case *ast.Comment:
					texts = append(texts, n.Text)
				}
				return true
			})
		default:
			return nil
		}
		read++
		for _, text := range texts {
			for _, phrase := range wrong {
				if strings.Contains(text, phrase) {
					t.Errorf("%s has the phrase %q: %s", path, phrase, text)
				}
			}
		}
		return nil
	})
	if err != nil || read < 300 {
		t.Errorf("%d files were read: %v", read, err)
	}
}
