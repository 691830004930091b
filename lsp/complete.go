package lsp

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// completion collects the completions at a position.
type completion struct {
	file     *file
	replace  textRange // the text that a completion replaces
	snippets bool      // the editor supports placeholders
	items    []completionItem
}

// complete returns the completions at a byte of a file.
func complete(files []*file, f *file, at int, snippets bool) []completionItem {
	c, ok := f.cursor(at)
	if !ok {
		return nil
	}
	p := &completion{file: f, snippets: snippets}
	if c.attr != nil && c.value {
		p.value(files, c)
		return p.items
	}
	w, before := word(f.tokens, at)
	p.from(w.start, at)
	if c.kind == nil || !beginsStatement(before) {
		return nil
	}
	p.names(c)
	return p.items
}

// from sets the text that a completion replaces.
func (p *completion) from(start, at int) { p.replace = p.file.text.textRange(span{start, at}) }

// add appends an item. Editors keep the order.
func (p *completion) add(i completionItem, insert, doc string) {
	i.SortText = fmt.Sprintf("%04d", len(p.items))
	i.TextEdit = textEdit{p.replace, insert}
	if doc != "" {
		i.Documentation = &markup{"markdown", doc}
	}
	p.items = append(p.items, i)
}

// beginsStatement reports whether the position is the first on its line or in its block.
func beginsStatement(before []token) bool {
	if len(before) == 0 {
		return true
	}
	last := before[len(before)-1].typ
	return last == hclsyntax.TokenNewline || last == hclsyntax.TokenOBrace || last == hclsyntax.TokenCBrace
}

// names adds the attributes and blocks that the body does not contain yet.
func (p *completion) names(c cursor) {
	for _, a := range c.kind.Attributes {
		if set := c.body.attr(a.Name); set == nil || set == c.attr {
			insert := a.Name + " = "
			if c.attr != nil {
				insert = a.Name
			}
			p.add(completionItem{Label: a.Name, Kind: itemProperty, Detail: bare(a.Type)}, insert, attributeHelp(&a))
		}
	}
	for _, k := range c.kind.Blocks {
		if !k.Many && c.body.has(k.Name) && c.block == nil {
			continue
		}
		i := completionItem{Label: k.Name, Kind: itemStruct, Detail: k.Header}
		insert := k.Name
		if p.snippets && c.block == nil {
			i.InsertTextFormat = formatSnippet
			insert = snippet(k)
		}
		p.add(i, insert, kindHelp(k))
	}
}

func (b *body) has(typ string) bool {
	for _, k := range b.blocks {
		if k.typ == typ {
			return true
		}
	}
	return false
}

func snippet(k *config.BlockKind) string {
	if k.Label == "" {
		return k.Name + " {\n  $0\n}"
	}
	return k.Name + ` "${1:` + k.Label + "}\" {\n  $0\n}"
}

// bare removes Markdown markup, for editors that show plain text.
func bare(s string) string { return strings.ReplaceAll(s, "`", "") }

// value adds the completions inside an expression.
func (p *completion) value(files []*file, c cursor) {
	e := c.expression()
	a, key := c.part(p.file, e)
	if e.quoted != nil {
		p.quoted(files, c, e, a, key)
		return
	}
	p.from(e.word.start, c.at)
	if key {
		p.parts(c, e, a)
		return
	}
	first := len(e.before) == 0 || e.before[len(e.before)-1].typ != hclsyntax.TokenDot
	if first && a != nil {
		p.constants(a, false)
	}
	if a != nil && a.Static {
		return
	}
	for _, m := range c.scope(files, p.file, e.before).before(e.before).list() {
		if m.name != "" && hclsyntax.ValidIdentifier(m.name) {
			p.add(completionItem{Label: m.name, Kind: m.kind, Detail: m.detail}, m.name, m.doc)
		}
	}
	if first {
		p.functions()
	}
}

// quoted adds the completions inside quotes: values of the attribute, or the keys of what is indexed.
func (p *completion) quoted(files []*file, c cursor, e expression, a *config.Attribute, key bool) {
	if e.quoted.typ != hclsyntax.TokenOQuote {
		return
	}
	p.from(e.quoted.span.end, c.at)
	before := e.before[:lastToken(e.before, *e.quoted)]
	if end := len(before) - 1; end > 0 && before[end].typ == hclsyntax.TokenOBrack && operandEnds(before[end-1]) {
		of := c.scope(files, p.file, before).source(before[:end])
		for _, m := range append(of.list(), of.words()...) {
			if m.name != "" {
				p.add(completionItem{Label: m.name, Kind: m.kind, Detail: m.detail}, m.name, m.doc)
			}
		}
		return
	}
	if a != nil && !key {
		p.constants(a, true)
	}
}

// parts adds the names of an object's attributes, or the known keys of a map, that are not there yet.
func (p *completion) parts(c cursor, e expression, a *config.Attribute) {
	after := c.attr.tokens[len(e.before):]
	if e.word.start < e.word.end && len(after) > 0 {
		after = after[1:]
	}
	written := len(after) > 0 && (after[0].typ == hclsyntax.TokenEqual || after[0].typ == hclsyntax.TokenColon)
	set := map[string]bool{}
	for i, t := range c.attr.tokens[:max(len(c.attr.tokens)-1, 0)] {
		if next := c.attr.tokens[i+1].typ; t.typ == hclsyntax.TokenIdent && t.span != e.word && (next == hclsyntax.TokenEqual || next == hclsyntax.TokenColon) {
			set[p.file.source(t.span)] = true
		}
	}
	for _, part := range append(slices.Clone(a.Parts), a.Keys...) {
		if set[part.Name] {
			continue
		}
		insert := part.Name + " = "
		if written {
			insert = part.Name
		}
		p.add(completionItem{Label: part.Name, Kind: itemProperty, Detail: bare(part.Type)}, insert, attributeHelp(&part))
	}
}

// constants adds the values of an attribute that accepts only a few values.
func (p *completion) constants(a *config.Attribute, quoted bool) {
	for _, v := range a.Values {
		text := strings.Trim(v, `"`)
		switch {
		case quoted && text != v:
			p.add(completionItem{Label: text, Kind: itemEnum}, text, "")
		case !quoted:
			p.add(completionItem{Label: v, Kind: itemEnum, FilterText: text}, v, "")
		}
	}
}

func (p *completion) functions() {
	for _, f := range config.Functions() {
		i := completionItem{Label: f.Name, Kind: itemFunction, Detail: f.Signature()}
		insert := f.Name
		if p.snippets {
			i.InsertTextFormat, insert = formatSnippet, f.Name+"($0)"
		}
		p.add(i, insert, f.Doc)
	}
}
