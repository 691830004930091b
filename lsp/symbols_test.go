package lsp

import (
	"fmt"
	"strings"
	"testing"
)

// TestOutlineOfADocument: blocks by their names, in their order, each within the one around it.
func TestOutlineOfADocument(t *testing.T) {
	files := map[string]string{"f.hcl": "# 网络\nlocals {\n  a = 1\n}\nhost \"x\" {\n  nic \"rail0\" {\n  }\n  ssh {\n  }\n}\nvariable \"v\" {\n"}
	s, uri := editing(t, files)
	var all []symbol
	ask(t, s, "documentSymbol", object{"textDocument": object{"uri": uri("f.hcl")}}, &all)
	var lines []string
	var list func(in []symbol, indent string)
	list = func(in []symbol, indent string) {
		for _, y := range in {
			lines = append(lines, fmt.Sprintf("%s%s %s %d: %d-%d", indent, y.Name, y.Detail, y.Kind, y.Range.Start.Line, y.Range.End.Line))
			if y.SelectionRange.Start.before(y.Range.Start) || y.Range.End.before(y.SelectionRange.End) {
				t.Errorf("%+v", y)
			}
			list(y.Children, indent+" ")
		}
	}
	list(all, "")
	if got, want := strings.Join(lines, "\n"), "locals  19: 1-3\n a  13: 2-2\nx host 5: 4-9\n rail0 nic 11: 5-6\n ssh  19: 7-8\nv variable 13: 10-11"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	deep := newFile("", "", []byte(strings.Repeat("a {\n", 100_000)))
	if n := len(deep.symbols(deep.root, 0)); n != 1 {
		t.Error(n)
	}
}
