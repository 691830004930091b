package lsp

import (
	"slices"

	"github.com/hashicorp/hcl/v2/hclsyntax"
)

var opening = map[hclsyntax.TokenType]bool{
	hclsyntax.TokenOBrace: true, hclsyntax.TokenOBrack: true, hclsyntax.TokenOParen: true, hclsyntax.TokenOQuote: true,
	hclsyntax.TokenOHeredoc: true, hclsyntax.TokenTemplateInterp: true, hclsyntax.TokenTemplateControl: true,
}

var closing = map[hclsyntax.TokenType][]hclsyntax.TokenType{
	hclsyntax.TokenCBrace: {hclsyntax.TokenOBrace}, hclsyntax.TokenCBrack: {hclsyntax.TokenOBrack},
	hclsyntax.TokenCParen: {hclsyntax.TokenOParen},
	hclsyntax.TokenCQuote: {hclsyntax.TokenOQuote}, hclsyntax.TokenCHeredoc: {hclsyntax.TokenOHeredoc},
	hclsyntax.TokenTemplateSeqEnd: {hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl},
}

// brackets tracks open brackets, quotes and templates. The counts avoid a walk over all open brackets for a
// bracket that closes nothing.
type brackets struct {
	stack []token
	count map[hclsyntax.TokenType]int
}

// step opens or closes a bracket. Closing a bracket also closes all brackets inside it.
func (b *brackets) step(t token) {
	if opening[t.typ] {
		if b.count == nil {
			b.count = map[hclsyntax.TokenType]int{}
		}
		b.stack = append(b.stack, t)
		b.count[t.typ]++
		return
	}
	opens := closing[t.typ]
	if !slices.ContainsFunc(opens, func(o hclsyntax.TokenType) bool { return b.count[o] > 0 }) {
		return
	}
	for {
		last := b.stack[len(b.stack)-1]
		b.stack = b.stack[:len(b.stack)-1]
		b.count[last.typ]--
		if slices.Contains(opens, last.typ) {
			return
		}
	}
}

// innermost returns the innermost open bracket, and false if there is none.
func (b *brackets) innermost() (token, bool) {
	if len(b.stack) == 0 {
		return token{}, false
	}
	return b.stack[len(b.stack)-1], true
}
