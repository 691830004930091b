package lsp

import (
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
	if a == nil || a.Parts == nil {
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

// steps parses the reference that ends with the tokens, backwards from its last dot. It returns nil if the
// text before the dot is not a reference, and an empty list if there is no dot.
func (f *file) steps(before []token) (out []step, ok bool) {
	i := len(before) - 1
	for i >= 0 && before[i].typ == hclsyntax.TokenDot {
		i--
		for i >= 0 && before[i].typ == hclsyntax.TokenCBrack {
			key, at := f.index(before, i)
			if at < 0 {
				return nil, false
			}
			out = append(out, step{key, true})
			i = at - 1
		}
		if i < 0 || before[i].typ != hclsyntax.TokenIdent {
			return nil, false
		}
		out = append(out, step{f.source(before[i].span), false})
		i--
	}
	for a, b := 0, len(out)-1; a < b; a, b = a+1, b-1 {
		out[a], out[b] = out[b], out[a]
	}
	return out, true
}

// index parses […] backwards from its end. It returns the key, if it is a literal, and where the index begins.
func (f *file) index(before []token, end int) (key string, at int) {
	depth := 0
	for i := end; i >= 0; i-- {
		switch before[i].typ {
		case hclsyntax.TokenCBrack:
			depth++
		case hclsyntax.TokenOBrack:
			if depth--; depth == 0 {
				if end-i == 4 && before[i+2].typ == hclsyntax.TokenQuotedLit {
					key = f.source(before[i+2].span)
				}
				return key, i
			}
		}
	}
	return "", -1
}
