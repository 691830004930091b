package lsp

import (
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// token is a token of HCL with its position. Comments are left out.
type token struct {
	typ  hclsyntax.TokenType
	span span
}

// maxCuts limits how many open strings of a text are closed, because each requires lexing the rest again.
const maxCuts = 8

// lex splits a text into tokens. It ends an unclosed quote at the end of its line, because HCL's scanner would
// read the rest of the file as a string while somebody types.
func lex(src []byte) (tokens []token, comments []span) {
	for from, cuts := 0, 0; ; cuts++ {
		all, _ := hclsyntax.LexConfig(src[from:], "", hcl.Pos{Line: 1, Column: 1, Byte: from})
		cut := len(all)
		if cuts < maxCuts {
			cut = openQuote(all)
		}
		for i, t := range all {
			if i > cut {
				break
			}
			at := span{t.Range.Start.Byte, t.Range.End.Byte}
			switch {
			case i == cut:
				tokens = append(tokens, token{hclsyntax.TokenNewline, at})
			case t.Type != hclsyntax.TokenComment:
				tokens = append(tokens, token{t.Type, at})
			default:
				if n := len(t.Bytes); n > 0 && t.Bytes[n-1] == '\n' {
					tokens = append(tokens, token{hclsyntax.TokenNewline, span{at.end - 1, at.end}})
					at.end--
				}
				comments = append(comments, at)
			}
		}
		if cut == len(all) {
			return tokens, comments
		}
		from = all[cut].Range.End.Byte
	}
}

// openQuote returns the outermost unclosed quote and the end of its line, or len(all) if all quotes are
// closed.
func openQuote(all hclsyntax.Tokens) int {
	depth, end := 0, -1
	for i, t := range all {
		switch t.Type {
		case hclsyntax.TokenOQuote:
			if depth++; depth == 1 {
				end = -1
			}
		case hclsyntax.TokenCQuote:
			depth--
		case hclsyntax.TokenNewline, hclsyntax.TokenQuotedNewline:
			if depth > 0 && end < 0 {
				end = i
			}
		}
		broken := t.Type == hclsyntax.TokenQuotedNewline || t.Type == hclsyntax.TokenEOF && depth > 0
		if broken && end >= 0 {
			return end
		}
	}
	return len(all)
}
