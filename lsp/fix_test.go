package lsp

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestQuickFixes does what the editor offers for each problem of a file, and looks again.
func TestQuickFixes(t *testing.T) {
	src, err := os.ReadFile("../config/testdata/diagnostics/suggestions.hcl")
	if err != nil {
		t.Fatal(err)
	}
	c := inProcess(t)
	c.start()
	text, version, done := "# 网络 😀\n"+string(src), 1, 0
	uri := c.open(filepath.Join(t.TempDir(), "f.hcl"), text)
	for {
		problems := c.problems(uri, version)
		var actions []codeAction
		for _, p := range problems {
			if c.call("textDocument/codeAction", object{"textDocument": object{"uri": uri}, "range": p.Range, "context": object{}}, &actions); len(actions) > 0 {
				break
			}
		}
		if len(actions) == 0 {
			if slices.ContainsFunc(problems, func(p diagnostic) bool { return strings.Contains(p.Message, "Did you mean") }) {
				t.Errorf("nothing is offered for %+v", problems)
			}
			break
		}
		at := newText([]byte(text))
		edit := actions[0].Edit.Changes[uri][0]
		old := text[at.offset(edit.Range.Start):at.offset(edit.Range.End)]
		if want := "Replace " + old + " with " + edit.NewText; actions[0].Title != want || len(actions[0].Diagnostics) != 1 {
			t.Fatalf("%+v, want %s", actions[0], want)
		}
		text = text[:at.offset(edit.Range.Start)] + edit.NewText + text[at.offset(edit.Range.End):]
		version, done = version+1, done+1
		c.change(uri, version, text)
	}
	if done < 15 || strings.Contains(text, "rial0") {
		t.Errorf("%d fixes:\n%s", done, text)
	}
}

// TestNoQuickFix: for a place without a problem, a text that changed, or another kind of action.
func TestNoQuickFix(t *testing.T) {
	c := inProcess(t)
	c.start()
	uri := c.open(filepath.Join(t.TempDir(), "f.hcl"), "locals {\n  a = 1\n}\noutput \"o\" {\n  value = local.b\n  description2 = \"\"\n}\n")
	if p := c.problems(uri, 1); len(p) != 2 {
		t.Fatal(p)
	}
	offered := func(line int, context object) int {
		t.Helper()
		var actions []codeAction
		at := textRange{position{line, 0}, position{line, 20}}
		if fault := c.call("textDocument/codeAction", object{"textDocument": object{"uri": uri}, "range": at, "context": context}, &actions); fault != nil {
			t.Fatal(fault)
		}
		return len(actions)
	}
	if offered(5, object{}) != 1 || offered(5, object{"only": []string{"quickfix"}}) != 1 || offered(1, object{}) != 0 || offered(5, object{"only": []string{"refactor"}}) != 0 {
		t.Error("wrong actions")
	}
	c.change(uri, 2, "locals {}\n")
	if offered(5, object{}) != 0 || offered(0, object{}) != 0 {
		t.Error("an action for a text that is gone")
	}
}
