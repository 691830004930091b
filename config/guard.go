package config

import (
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

const (
	maxFileBytes  = 4 << 20
	maxTotalBytes = 16 << 20
	maxDepth      = 256
	maxOperators  = 4096
	maxExponent   = 400
)

// guard refuses sources that would make HCL's recursive parser or cty's numbers eat the machine.
// It looks at tokens only: the parser itself has no limits of its own.
func guard(src []byte, filename string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	depth, round, operators := 0, 0, 0
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			depth++
			round++
		case hclsyntax.TokenOBrace, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			depth++
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenTemplateSeqEnd:
			depth--
			round--
		case hclsyntax.TokenCBrace, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			depth--
		case hclsyntax.TokenNewline:
			if round <= 0 {
				operators = 0
			}
		case hclsyntax.TokenComma:
			operators = 0
		case hclsyntax.TokenNumberLit:
			if hugeNumber(string(t.Bytes)) {
				return fail(t.Range, "Number too large", "No setting of a fabric needs such a number. Write a smaller one.")
			}
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenBang, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenDot:
			operators++
		}
		if depth > maxDepth {
			return fail(t.Range, "Nested too deeply", "Brackets are nested more than 256 deep here. Split the expression into locals.")
		}
		if operators > maxOperators {
			return fail(t.Range, "Expression too long", "More than 4096 operators stand in one expression. Split it into locals.")
		}
	}
	return nil
}

func hugeNumber(s string) bool {
	if len(s) > maxExponent {
		return true
	}
	_, exp, found := strings.Cut(strings.ToLower(s), "e")
	if !found {
		return false
	}
	n, err := strconv.Atoi(exp)
	return err != nil || n > maxExponent || n < -maxExponent
}

func fail(r hcl.Range, summary, detail string) hcl.Diagnostics {
	return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: &r}}
}
