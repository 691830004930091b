package lsp

import (
	"slices"
	"sort"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// signatureHelp returns the function whose arguments are at the position, and the number of the argument.
func (s *server) signatureHelp(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	f := d.file()
	name, argument, ok := f.call(f.text.offset(p.Position))
	at := slices.IndexFunc(config.Functions(), func(k config.Function) bool { return k.Name == name })
	if !ok || at < 0 {
		return nil, nil
	}
	known := config.Functions()[at]
	out := signature{Label: known.Signature(), Documentation: markup{"markdown", known.Doc}, Parameters: []parameter{}}
	for _, name := range known.Parameters {
		out.Parameters = append(out.Parameters, parameter{name})
	}
	return signatures{[]signature{out}, min(argument, len(known.Parameters)-1)}, nil
}

// call returns the name of the function whose arguments are at a byte of the file, and the number of the argument.
func (f *file) call(at int) (name string, argument int, ok bool) {
	c, ok := f.cursor(at)
	if !ok || c.attr == nil || !c.value {
		return "", 0, false
	}
	before := c.attr.tokens
	before = before[:sort.Search(len(before), func(i int) bool { return before[i].span.end > at })]
	var open brackets
	for _, t := range before {
		open.step(t)
	}
	for i := len(open.stack) - 1; i >= 0; i-- {
		if open.stack[i].typ != hclsyntax.TokenOParen {
			continue // a list, an object or a text among the arguments
		}
		from := lastToken(before, open.stack[i])
		if from == 0 || before[from-1].typ != hclsyntax.TokenIdent {
			continue
		}
		return f.source(before[from-1].span), commas(before[from+1:]), true
	}
	return "", 0, false
}

// commas counts the commas that are not in brackets of their own.
func commas(tokens []token) (n int) {
	var open brackets
	for _, t := range tokens {
		if _, inside := open.innermost(); t.typ == hclsyntax.TokenComma && !inside {
			n++
		}
		open.step(t)
	}
	return n
}
