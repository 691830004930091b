package lsp

import (
	"fmt"
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
		if a != nil && !key && e.quoted.typ == hclsyntax.TokenOQuote {
			p.from(e.quoted.span.end, c.at)
			p.constants(a, true)
		}
		return
	}
	p.from(e.word.start, c.at)
	if key {
		for _, part := range a.Parts {
			p.add(completionItem{Label: part.Name, Kind: itemProperty, Detail: bare(part.Type)}, part.Name+" = ", attributeHelp(&part))
		}
		return
	}
	steps, ok := p.file.steps(e.before)
	if !ok {
		return
	}
	if len(steps) == 0 && a != nil {
		p.constants(a, false)
	}
	if a != nil && a.Static {
		return
	}
	at := scope{files, p.file, c.body}.find(steps)
	if at == nil || at.keyed || at.members == nil {
		return
	}
	for _, m := range at.members() {
		if m.name != "" {
			p.add(completionItem{Label: m.name, Kind: m.kind, Detail: m.detail}, m.name, m.doc)
		}
	}
	if len(steps) == 0 {
		p.functions()
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
		i := completionItem{Label: f.Name, Kind: itemFunction, Detail: f.Signature}
		insert := f.Name
		if p.snippets {
			i.InsertTextFormat, insert = formatSnippet, f.Name+"($0)"
		}
		p.add(i, insert, "")
	}
}
