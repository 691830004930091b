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
	maxJoined     = 4 << 30 // twice the bytes that the parser copies to join the pieces of one text
)

// guard rejects sources that would exhaust memory or time in HCL's recursive parser or in cty's
// numbers, which have no limits. It looks only at tokens.
func guard(src []byte, filename string) hcl.Diagnostics {
	tokens, _ := hclsyntax.LexConfig(src, filename, hcl.InitialPos)
	var n nesting
	pieces, bytes := 0, 0 // of one literal text
	for _, t := range tokens {
		if t.Type != hclsyntax.TokenQuotedLit && t.Type != hclsyntax.TokenStringLit {
			pieces, bytes = 0, 0
		}
		switch t.Type {
		case hclsyntax.TokenQuotedLit, hclsyntax.TokenStringLit:
			// The parser joins the pieces of a text one by one (meldConsecutiveStringLiterals), which is
			// quadratic. Each % and each line of a heredoc begins another piece.
			pieces, bytes = pieces+1, bytes+len(t.Bytes)
			if pieces*bytes > maxJoined {
				return fail(t.Range, "Text too long", "This text is too long to parse. Put it into a file and read it with file().")
			}
		case hclsyntax.TokenOParen, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateInterp:
			n.open(false)
		case hclsyntax.TokenTemplateControl:
			// The part between if and endif is nested, although its brackets are closed.
			n.operator()
			n.open(false)
		case hclsyntax.TokenOBrace, hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			n.open(true)
		case hclsyntax.TokenCParen, hclsyntax.TokenCBrack, hclsyntax.TokenTemplateSeqEnd,
			hclsyntax.TokenCBrace, hclsyntax.TokenCQuote, hclsyntax.TokenCHeredoc:
			n.close()
		case hclsyntax.TokenNewline:
			n.line()
		case hclsyntax.TokenComma:
			n.next()
		case hclsyntax.TokenNumberLit:
			if hugeNumber(string(t.Bytes)) {
				return fail(t.Range, "Number too large",
					"No setting of a fabric needs a number this large or precise. Write a smaller one.")
			}
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash,
			hclsyntax.TokenPercent, hclsyntax.TokenBang, hclsyntax.TokenAnd, hclsyntax.TokenOr, hclsyntax.TokenQuestion,
			hclsyntax.TokenEqualOp, hclsyntax.TokenNotEqual, hclsyntax.TokenLessThan, hclsyntax.TokenGreaterThan,
			hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThanEq, hclsyntax.TokenDot:
			n.operator()
		}
		if len(n.levels) > maxDepth {
			return fail(t.Range, "Nested too deeply", "Brackets are nested more than 256 levels deep. Split the expression into locals.")
		}
		if n.operators > maxOperators {
			return fail(t.Range, "Expression too long", "This expression has more than 4096 operators. Split it into locals.")
		}
	}
	return nil
}

// nesting tracks how deep the parser would recurse: open brackets, and the operators at each level.
type nesting struct {
	levels    []level
	top       int // operators outside of all brackets
	operators int // in all open levels together
}

// level is one open bracket.
type level struct {
	operators int
	lines     bool // a newline ends an expression at this level, as in braces
}

func (n *nesting) count() *int {
	if len(n.levels) == 0 {
		return &n.top
	}
	return &n.levels[len(n.levels)-1].operators
}

func (n *nesting) open(lines bool) { n.levels = append(n.levels, level{lines: lines}) }

func (n *nesting) close() {
	if len(n.levels) > 0 { // otherwise the parser reports the extra bracket
		n.next()
		n.levels = n.levels[:len(n.levels)-1]
	}
}

func (n *nesting) operator() { *n.count()++; n.operators++ }

// next starts a new expression at this level.
func (n *nesting) next() { n.operators -= *n.count(); *n.count() = 0 }

func (n *nesting) line() {
	if len(n.levels) == 0 || n.levels[len(n.levels)-1].lines {
		n.next()
	}
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

// ParseExpression parses an expression that begins at a byte of a file. It returns nil if the text is not a whole expression or
// exceeds the limits of a file.
func ParseExpression(src []byte, at int) hclsyntax.Expression {
	if len(src) > maxFileBytes || guard(src, "").HasErrors() {
		return nil
	}
	e, diags := hclsyntax.ParseExpression(src, "", hcl.Pos{Line: 1, Column: 1, Byte: at})
	if diags.HasErrors() {
		return nil
	}
	return e
}
