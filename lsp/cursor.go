package lsp

import (
	"sort"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// cursor describes a position in a file.
type cursor struct {
	body  *body
	kind  *config.BlockKind // kind of the body; nil: unknown to the language
	block *block            // the position is in the head of this block
	attr  *attribute        // the position is in this attribute
	value bool              // the position is in its value, not in its name
	at    int
}

// cursor returns the cursor at a byte, and false in a comment.
func (f *file) cursor(at int) (cursor, bool) {
	for _, c := range f.comments {
		if c.start < at && at <= c.end && (at < c.end || f.text.src[c.start] != '/' || f.text.src[c.start+1] != '*') {
			return cursor{}, false
		}
	}
	c := cursor{body: f.root, at: at}
	for next := f.root; next != nil; {
		c.body, next = next, nil
		for _, k := range c.body.blocks {
			if k.body.span.has(at) {
				next = k.body
			}
			if k.typSpan.has(at) || k.labelSpan.has(at) {
				c.block = k
			}
		}
	}
	for _, a := range c.body.attrs {
		if inName := a.nameSpan.has(at); inName || a.value.has(at) {
			c.attr, c.value = a, !inName
		}
	}
	c.kind = kindOf(c.body)
	return c, true
}

// kindOf returns the kind of a body.
func kindOf(b *body) *config.BlockKind {
	var path []string
	for ; b.block != nil; b = b.block.in {
		path = append(path, b.block.typ)
	}
	k := config.Language()
	for i := len(path) - 1; i >= 0 && k != nil; i-- {
		k = k.Block(path[i])
	}
	return k
}

// word returns the name at or next to the byte, and the tokens before it.
func word(tokens []token, at int) (w span, before []token) {
	for i, t := range tokens {
		if t.typ == hclsyntax.TokenIdent && t.span.has(at) {
			return t.span, tokens[:i]
		}
		if t.span.start >= at {
			return span{at, at}, tokens[:i]
		}
	}
	return span{at, at}, tokens
}

// expression describes a position in a value.
type expression struct {
	word   span    // the name at the position
	before []token // tokens of the value before the word
	quoted *token  // the string or heredoc that contains the position
	object *token  // the innermost bracket, if it is a brace
}

func (c cursor) expression() expression {
	var e expression
	var open brackets
	e.word, e.before = word(c.attr.tokens, c.at)
	for _, t := range e.before {
		open.step(t)
	}
	if in, is := open.innermost(); is {
		switch in.typ {
		case hclsyntax.TokenOQuote, hclsyntax.TokenOHeredoc:
			e.quoted = &in
		case hclsyntax.TokenOBrace:
			e.object = &in
		}
	}
	return e
}

// part returns the attribute whose value is at the position: the cursor's attribute or, inside an object, one
// of its parts. key is true if the position is in the name of a part.
func (c cursor) part(f *file, e expression) (a *config.Attribute, key bool) {
	if c.kind == nil {
		return nil, false
	}
	a = c.kind.Attribute(c.attr.name)
	if a == nil || a.Parts == nil && a.Keys == nil {
		return a, false
	}
	before := e.before
	if e.quoted != nil {
		before = before[:lastToken(before, *e.quoted)]
	} else if e.object == nil {
		return a, false
	}
	for i := len(before) - 1; i >= 0; i-- {
		switch before[i].typ {
		case hclsyntax.TokenOBrace, hclsyntax.TokenComma, hclsyntax.TokenNewline:
			return a, true
		case hclsyntax.TokenEqual, hclsyntax.TokenColon:
			if i > 0 && before[i-1].typ == hclsyntax.TokenIdent {
				return a.Part(f.source(before[i-1].span)), false
			}
			return nil, false
		}
	}
	return a, false
}

func lastToken(tokens []token, t token) int {
	for i := len(tokens) - 1; i >= 0; i-- {
		if tokens[i] == t {
			return i
		}
	}
	return 0
}

// step is one part of a reference: a name, or an index.
type step struct {
	name  string
	index bool // an index; name is its key if that is a literal
}

// before returns what the name after the tokens is a member of: the scope itself if the name begins a reference. It returns nil
// if the text before the last dot is not a reference, or what it refers to is known only after evaluation.
func (s scope) before(tokens []token) *entry {
	end := len(tokens) - 1
	if end < 0 || tokens[end].typ != hclsyntax.TokenDot {
		return &entry{members: s.roots}
	}
	return s.source(tokens[:end])
}

// source resolves the operand that ends with the tokens.
func (s scope) source(tokens []token) *entry {
	from := operand(tokens)
	if from == len(tokens) {
		return nil
	}
	e := s.file.parse(span{tokens[from].span.start, tokens[len(tokens)-1].span.end})
	if e == nil {
		return nil
	}
	at := s.shapeOf(e)
	if _, splat := e.(*hclsyntax.SplatExpr); splat {
		return at.any() // what follows belongs to each element
	}
	return at
}

// operand returns where the operand begins that ends with the tokens: a name, a call or brackets, with the names and indexes
// after it. It returns len(tokens) if there is none.
func operand(tokens []token) int {
	for i := len(tokens) - 1; i >= 0; {
		switch tokens[i].typ {
		case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCBrace:
			i = opened(tokens, i)
			if i > 0 && tokens[i].typ != hclsyntax.TokenOBrace && operandEnds(tokens[i-1]) {
				i-- // an index, or the arguments of a call
				continue
			}
		case hclsyntax.TokenIdent, hclsyntax.TokenStar:
		default:
			return len(tokens)
		}
		if i < 2 || tokens[i-1].typ != hclsyntax.TokenDot {
			return max(i, 0)
		}
		i -= 2
	}
	return len(tokens)
}

// operandEnds reports whether a bracket after the token belongs to the operand that ends there.
func operandEnds(t token) bool {
	return t.typ == hclsyntax.TokenIdent || t.typ == hclsyntax.TokenCBrack || t.typ == hclsyntax.TokenCParen || t.typ == hclsyntax.TokenStar
}

// opened returns the bracket that the last of the tokens closes, or -1.
func opened(tokens []token, end int) int {
	depth := 0
	for i := end; i >= 0; i-- {
		switch tokens[i].typ {
		case hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenCBrace, hclsyntax.TokenCQuote, hclsyntax.TokenTemplateSeqEnd:
			depth++
		case hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenOBrace, hclsyntax.TokenOQuote, hclsyntax.TokenTemplateInterp:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// scope returns the names that a position in the cursor's value may use, after the tokens before it. The variables of each for
// around it are among them.
func (c cursor) scope(files []*file, f *file, before []token) scope {
	var open brackets
	for _, t := range before {
		open.step(t)
	}
	return newScope(files, f, c.body).inside(open.stack, before)
}

// inside adds the variables of each for that the open brackets are around.
func (s scope) inside(open, before []token) scope {
	if *s.budget -= len(open); *s.budget < 0 {
		return s
	}
	for _, in := range open {
		if in.typ == hclsyntax.TokenOBrack || in.typ == hclsyntax.TokenOBrace {
			at := sort.Search(len(before), func(i int) bool { return before[i].span.start > in.span.start })
			s = s.loop(before[at:])
		}
	}
	return s
}

// loop adds the variables of a for that the tokens after a bracket begin: for k, v in COLLECTION :.
func (s scope) loop(tokens []token) scope {
	name := func(i int) string {
		if i < len(tokens) && tokens[i].typ == hclsyntax.TokenIdent {
			return s.file.source(tokens[i].span)
		}
		return ""
	}
	if name(0) != "for" || name(1) == "" {
		return s
	}
	variables, in := []string{name(1)}, 2
	if len(tokens) > 4 && tokens[2].typ == hclsyntax.TokenComma {
		variables, in = []string{name(1), name(3)}, 4
	}
	if name(in) != "in" {
		return s
	}
	var open brackets
	for i := in + 1; i < len(tokens); i++ {
		if _, inside := open.innermost(); !inside && tokens[i].typ == hclsyntax.TokenColon {
			each := s.source(tokens[in+1 : i]).any()
			if len(variables) == 2 {
				return s.with(variables[0], nil).with(variables[1], each)
			}
			return s.with(variables[0], each)
		}
		open.step(tokens[i])
	}
	return s
}
