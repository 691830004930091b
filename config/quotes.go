package config

import (
	"fmt"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// unclosed is the parser's message for each line after a missing quote.
const unclosed = "Invalid multi-line string"

// openers are the tokens after which a text in quotes may begin without a space.
var openers = []hclsyntax.TokenType{hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenComma, hclsyntax.TokenEqual,
	hclsyntax.TokenColon, hclsyntax.TokenFatArrow, hclsyntax.TokenQuestion, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl,
	hclsyntax.TokenPlus, hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenNewline, hclsyntax.TokenComment}

// missingQuote returns the cause of the parser's message that a text in quotes has several lines: a quote or a brace is missing before
// the place where the parser noticed it.
func missingQuote(src []byte, name string, noticed hcl.Range) *hcl.Diagnostic {
	tokens, _ := hclsyntax.LexConfig(src, name, hcl.InitialPos)
	said := func(summary, detail string, from, to hclsyntax.Token) *hcl.Diagnostic {
		r := hcl.RangeBetween(from.Range, to.Range)
		return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r}
	}
	closing := func(from, to hclsyntax.Token) *hcl.Diagnostic {
		return said("Missing quote", "The closing quote of this text is missing.", from, to)
	}
	var open []int              // indexes of the quotes and ${ that are not closed yet
	var texts []int             // indexes of the quotes on this line that begin a text
	var suspect *hcl.Diagnostic // the first of this line
	for i, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOQuote:
			if first := wordBefore(tokens, i); first < i && suspect == nil {
				switch {
				case len(open) > 0 && tokens[open[len(open)-1]].Type != hclsyntax.TokenOQuote:
					brace := tokens[open[len(open)-1]]
					suspect = said("Missing brace", fmt.Sprintf("The closing brace of %s is missing.", brace.Bytes), brace, tokens[i-1])
				case len(texts) > 0 && first > 0 && tokens[first-1].Type == hclsyntax.TokenCQuote && joined(tokens[first-1], tokens[first]):
					suspect = closing(tokens[texts[len(texts)-1]], tokens[first-1])
				default:
					word := src[tokens[first].Range.Start.Byte:tokens[i-1].Range.End.Byte]
					suspect = said("Missing quote", fmt.Sprintf("The opening quote is missing before %s.", word), tokens[first], t)
				}
			}
			open, texts = append(open, i), append(texts, i)
		case hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl, hclsyntax.TokenOHeredoc:
			open = append(open, i)
		case hclsyntax.TokenCQuote, hclsyntax.TokenTemplateSeqEnd, hclsyntax.TokenCHeredoc:
			open = open[:max(0, len(open)-1)]
		case hclsyntax.TokenNewline:
			texts = nil
			if len(open) == 0 {
				suspect = nil
			}
		case hclsyntax.TokenQuotedNewline:
			if suspect != nil {
				return suspect
			}
			if len(open) > 0 {
				from := tokens[open[0]]
				end := slices.IndexFunc(tokens[open[0]:], func(t hclsyntax.Token) bool { return t.Range.End.Line > from.Range.Start.Line })
				return closing(from, tokens[open[0]+end-1])
			}
		}
	}
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Missing quote", Detail: "A quote is missing on this line, or on one before it.", Subject: &noticed}
}

// wordBefore returns the index of the first token of the word that ends where the quote tokens[i] begins; i if there is none.
func wordBefore(tokens hclsyntax.Tokens, i int) int {
	for ; i > 0 && joined(tokens[i-1], tokens[i]); i-- {
		if t := tokens[i-1].Type; t == hclsyntax.TokenCQuote || slices.Contains(openers, t) {
			break
		}
	}
	return i
}

func joined(a, b hclsyntax.Token) bool { return a.Range.End.Byte == b.Range.Start.Byte }
