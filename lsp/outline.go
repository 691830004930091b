package lsp

import "github.com/hashicorp/hcl/v2/hclsyntax"

// file is one text and its outline.
type file struct {
	path     string
	uri      string
	text     *text
	comments []span
	tokens   []token
	root     *body
	parsed   map[span]hclsyntax.Expression // nil: not an expression
	hosts    instances                     // of the fabric, in the file that a request is about; nil: not known
}

// body is the content of a block or of the file.
type body struct {
	block  *block // nil: the body of the file
	span   span   // the text between the braces
	attrs  []*attribute
	blocks []*block
}

// block is a block with its name, if it has one.
type block struct {
	in        *body
	typ       string
	label     string
	typSpan   span
	labelSpan span // without the quotes
	body      *body
}

// attribute is a name with the tokens of its value.
type attribute struct {
	name     string
	nameSpan span
	value    span // from the equals sign to the end of the value
	tokens   []token
}

func (b *body) attr(name string) *attribute {
	for _, a := range b.attrs {
		if a.name == name {
			return a
		}
	}
	return nil
}

// newFile outlines a text only from its tokens. A text that is being typed is rarely complete, and HCL's
// parser drops the block around a mistake.
func newFile(path, uri string, src []byte) *file {
	f := &file{path: path, uri: uri, text: newText(src), parsed: map[span]hclsyntax.Expression{}}
	f.tokens, f.comments = lex(src)
	f.root = &body{span: span{0, len(src)}}
	o := outliner{file: f, body: f.root}
	for o.at < len(f.tokens) {
		o.statement()
	}
	for b := o.body; b.block != nil; b = b.block.in {
		b.span.end = len(src)
	}
	return f
}

func (f *file) source(s span) string { return string(f.text.src[s.start:s.end]) }

type outliner struct {
	*file
	at   int
	body *body
}

// is reports whether the next tokens have these types.
func (o *outliner) is(types ...hclsyntax.TokenType) bool {
	for i, t := range types {
		if o.at+i >= len(o.tokens) || o.tokens[o.at+i].typ != t {
			return false
		}
	}
	return true
}

// statement parses an attribute, or the head or end of a block.
func (o *outliner) statement() {
	t := o.tokens[o.at]
	switch {
	case t.typ == hclsyntax.TokenCBrace && o.body.block != nil:
		o.body.span.end = t.span.start
		o.body = o.body.block.in
		o.at++
	case o.is(hclsyntax.TokenIdent, hclsyntax.TokenEqual):
		o.attribute()
	case t.typ == hclsyntax.TokenIdent && o.head():
	default:
		o.at++
	}
}

// head parses `name {` or `name "label" {`, and enters the block.
func (o *outliner) head() bool {
	k := &block{in: o.body, typ: o.source(o.tokens[o.at].span), typSpan: o.tokens[o.at].span}
	brace := o.headBrace()
	if brace < 0 {
		return false
	}
	for _, t := range o.tokens[o.at+1 : brace] {
		if t.typ == hclsyntax.TokenQuotedLit || t.typ == hclsyntax.TokenIdent {
			k.label, k.labelSpan = o.source(t.span), t.span
		}
	}
	k.body = &body{block: k, span: span{o.tokens[brace].span.end, o.tokens[brace].span.end}}
	o.body.blocks = append(o.body.blocks, k)
	o.body = k.body
	o.at = brace + 1
	return true
}

// headBrace returns the opening brace of the block whose head begins here, or -1.
func (o *outliner) headBrace() int {
	for _, head := range [][]hclsyntax.TokenType{
		{hclsyntax.TokenIdent, hclsyntax.TokenOBrace},
		{hclsyntax.TokenIdent, hclsyntax.TokenIdent, hclsyntax.TokenOBrace},
		{hclsyntax.TokenIdent, hclsyntax.TokenOQuote, hclsyntax.TokenQuotedLit, hclsyntax.TokenCQuote, hclsyntax.TokenOBrace},
		{hclsyntax.TokenIdent, hclsyntax.TokenOQuote, hclsyntax.TokenCQuote, hclsyntax.TokenOBrace},
	} {
		if o.is(head...) {
			return o.at + len(head) - 1
		}
	}
	return -1
}

func (o *outliner) attribute() {
	name := o.tokens[o.at]
	a := &attribute{name: o.source(name.span), nameSpan: name.span}
	o.body.attrs = append(o.body.attrs, a)
	a.value.start = o.tokens[o.at+1].span.end
	o.at += 2
	from := o.at
	o.value()
	a.tokens = o.tokens[from:o.at]
	a.value.end = len(o.text.src)
	if o.at < len(o.tokens) {
		a.value.end = max(a.value.start, o.tokens[o.at].span.start)
	}
}

// value skips a value. Open brackets end where a new statement begins.
func (o *outliner) value() {
	var open brackets
	for ; o.at < len(o.tokens); o.at++ {
		t := o.tokens[o.at].typ
		switch {
		case t == hclsyntax.TokenEOF:
			return
		case t == hclsyntax.TokenNewline:
			if in, is := open.innermost(); !is || o.newStatement(in.typ) {
				return
			}
		case t == hclsyntax.TokenCBrace && open.count[hclsyntax.TokenOBrace] == 0:
			return // the brace ends the enclosing block
		default:
			open.step(o.tokens[o.at])
		}
	}
}

// newStatement reports whether the next line cannot belong to the value with the given innermost open
// bracket.
func (o *outliner) newStatement(innermost hclsyntax.TokenType) bool {
	next := &outliner{file: o.file, at: o.at + 1}
	if next.headBrace() >= 0 {
		return true
	}
	return innermost != hclsyntax.TokenOBrace && innermost != hclsyntax.TokenOHeredoc && next.is(hclsyntax.TokenIdent, hclsyntax.TokenEqual)
}
