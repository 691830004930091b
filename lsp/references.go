package lsp

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// declaration is a name that the files of a fabric declare.
type declaration struct {
	file *file
	at   span // the name, without quotes
	name string
	kind string // kind of the block; "local" for a local
}

// use is a place where a declared name stands.
type use struct {
	file *file
	at   span   // the name, without quotes
	from int    // where the step of the reference begins: its dot or bracket
	end  int    // where it ends
	form string // "label", "step" or "index"
}

// maxReferences limits the expressions that a search for references looks at.
const maxReferences = 1_000_000

// declarationAt returns the declaration of the name at a byte of a file, and where the name stands there.
func declarationAt(files []*file, f *file, at int) (d declaration, here span, ok bool) {
	c, ok := f.cursor(at)
	switch {
	case !ok:
		return d, here, false
	case c.attr == nil && c.block != nil && c.block.labelSpan.has(at):
		d, ok = c.block.declares(f)
		return d, d.at, ok
	case c.attr == nil:
		return d, here, false
	case !c.value:
		ok = c.body.block != nil && c.body.block.typ == "locals"
		return declaration{f, c.attr.nameSpan, c.attr.name, "local"}, c.attr.nameSpan, ok
	}
	s := newScope(files, f, c.body)
	var open brackets
	for i, t := range c.attr.tokens {
		if (t.typ == hclsyntax.TokenIdent || t.typ == hclsyntax.TokenQuotedLit) && t.span.has(at) {
			if e := s.refers(c.attr.tokens, i, open.stack); e != nil {
				return e.declaration(), t.span, true
			}
		}
		open.step(t)
	}
	return d, here, false
}

// declares returns the name that a block declares.
func (k *block) declares(f *file) (declaration, bool) {
	kind := kindOf(k.in)
	if kind == nil || k.label == "" {
		return declaration{}, false
	}
	b := kind.Block(k.typ)
	return declaration{f, k.labelSpan, k.label, k.typ}, b != nil && b.Label != ""
}

// declaration returns where an entry that has a name of the files is declared.
func (e *entry) declaration() declaration {
	kind := "local"
	for b := e.file.root; b != nil; {
		var next *body
		for _, k := range b.blocks {
			if k.labelSpan == e.at {
				kind = k.typ
			} else if k.body.span.has(e.at.start) {
				next = k.body
			}
		}
		b = next
	}
	return declaration{e.file, e.at, e.name, kind}
}

// refers resolves the name or the literal index at a token of a value. It returns nil if the token is not a reference to a name
// that the files declare. open are the brackets around the token.
func (s scope) refers(tokens []token, i int, open []token) *entry {
	s = s.inside(open, tokens[:i])
	st := step{name: s.file.source(tokens[i].span)}
	var of *entry
	if tokens[i].typ == hclsyntax.TokenQuotedLit {
		if !indexAt(tokens, i) {
			return nil
		}
		st.index = true
		if of = s.source(tokens[:i-2]); of == nil || of.keyed {
			return nil // a key of an instance
		}
	} else {
		of = s.before(tokens[:i])
	}
	if e := of.walk([]step{st}); e != nil && e.named && e.name == st.name && e.file != nil {
		return e
	}
	return nil
}

// indexAt reports whether the token is all of a literal index: ["rail0"].
func indexAt(tokens []token, i int) bool {
	return i >= 3 && i+2 < len(tokens) && tokens[i-1].typ == hclsyntax.TokenOQuote && tokens[i-2].typ == hclsyntax.TokenOBrack && operandEnds(tokens[i-3]) &&
		tokens[i+1].typ == hclsyntax.TokenCQuote && tokens[i+2].typ == hclsyntax.TokenCBrack
}

// uses returns all places of a declared name, the declaration first.
func uses(files []*file, d declaration) []use {
	out := []use{{d.file, d.at, d.at.start, d.at.end, "label"}}
	for _, f := range files {
		s := newScope(files, f, f.root)
		*s.budget = maxReferences
		f.root.walk(func(b *body) {
			for _, a := range b.attrs {
				out = append(out, s.at(f, b).usesIn(a, d)...)
			}
		})
	}
	return out
}

// walk visits a body and all bodies in it.
func (b *body) walk(visit func(*body)) {
	visit(b)
	for _, k := range b.blocks {
		k.body.walk(visit)
	}
}

func (s scope) usesIn(a *attribute, d declaration) (out []use) {
	var open brackets
	for i, t := range a.tokens {
		if (t.typ == hclsyntax.TokenIdent || t.typ == hclsyntax.TokenQuotedLit) && s.file.source(t.span) == d.name {
			if e := s.refers(a.tokens, i, open.stack); e != nil && e.file == d.file && e.at == d.at {
				u := use{s.file, t.span, t.span.start, t.span.end, "step"}
				if t.typ == hclsyntax.TokenQuotedLit {
					u.from, u.end, u.form = a.tokens[i-2].span.start, a.tokens[i+2].span.end, "index"
				} else if i > 0 {
					u.from = a.tokens[i-1].span.start
				}
				out = append(out, u)
			}
		}
		open.step(t)
	}
	return out
}

func (s *server) references(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	files := s.docs.fabric(d)
	name, _, ok := declarationAt(files, d.file(), d.file().text.offset(p.Position))
	if !ok {
		return nil, nil
	}
	out := []location{}
	for _, u := range uses(files, name) {
		if u.form != "label" || p.Context.IncludeDeclaration {
			out = append(out, location{u.file.uri, u.file.text.textRange(u.at)})
		}
	}
	return out, nil
}
