package lsp

import (
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/fabricform/fabricform/config"
)

// fix is a change of the checked text that removes a problem.
type fix struct {
	at       span
	old, new string
}

// newFix returns what a suggestion changes in a file, or nil if it changes another file.
func newFix(s config.Suggestion, path string, src []byte) *fix {
	at := span{s.Range.Start.Byte, s.Range.End.Byte}
	if s.Range.Filename != path || at.end > len(src) || at.start > at.end {
		return nil
	}
	old, name := string(src[at.start:at.end]), s.Text
	if strings.HasPrefix(old, ".") && strings.HasPrefix(name, ".") { // only the name, as people read it
		at.start, old, name = at.start+1, old[1:], name[1:]
	}
	return &fix{at, old, name}
}

// codeAction offers the changes that problems at the range suggest. A problem of an earlier text counts if its place has not
// changed.
func (s *server) codeAction(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	out := []codeAction{}
	if only := p.Context.Only; len(only) > 0 && !slices.ContainsFunc(only, func(k string) bool { return k == "" || k == kindQuickFix }) {
		return out, nil
	}
	t := d.file().text
	for _, problem := range s.checks.found[filepath.Dir(d.path)].problems[d.path] {
		f := problem.fix
		if f == nil || f.at.end > len(t.src) || string(t.src[f.at.start:f.at.end]) != f.old || !problem.Range.touches(p.Range) {
			continue
		}
		out = append(out, codeAction{
			Title: "Replace " + printable(f.old) + " with " + printable(f.new), Kind: kindQuickFix, Diagnostics: []diagnostic{problem}, IsPreferred: true,
			Edit: workspaceEdit{map[string][]textEdit{d.uri: {{t.textRange(f.at), f.new}}}}})
	}
	return out, nil
}

func (r textRange) touches(o textRange) bool { return !o.End.before(r.Start) && !r.End.before(o.Start) }

func (p position) before(o position) bool {
	return p.Line < o.Line || p.Line == o.Line && p.Character < o.Character
}

// printable removes what would change the look of an editor's menu.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
