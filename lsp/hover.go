package lsp

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// help returns the hover text at a byte of a file, or "".
func help(files []*file, f *file, at int) (markdown string, of span) {
	c, ok := f.cursor(at)
	switch {
	case !ok || c.kind == nil:
	case c.attr != nil && c.value:
		return valueHelp(files, f, c)
	case c.attr != nil:
		if a := c.kind.Attribute(c.attr.name); a != nil {
			return attributeHelp(a), c.attr.nameSpan
		}
	case c.block != nil:
		if k := c.kind.Block(c.block.typ); k != nil {
			return kindHelp(k), c.block.typSpan
		}
	}
	return "", span{}
}

func valueHelp(files []*file, f *file, c cursor) (string, span) {
	e := c.expression()
	if e.word.start == e.word.end || e.quoted != nil {
		return "", span{}
	}
	if a, key := c.part(f, e); key {
		if p := a.Part(f.source(e.word)); p != nil {
			return attributeHelp(p), e.word
		}
		return "", span{}
	}
	if target := reference(files, f, c, e); target != nil {
		return entryHelp(target), e.word
	}
	if after := c.attr.tokens[len(e.before)+1:]; len(after) > 0 && after[0].typ == hclsyntax.TokenOParen {
		for _, known := range config.Functions() {
			if known.Name == f.source(e.word) {
				return code(known.Signature()) + "\n\n" + known.Doc, e.word
			}
		}
	}
	return "", span{}
}

// reference resolves the reference that ends at the word.
func reference(files []*file, f *file, c cursor, e expression) *entry {
	return c.scope(files, f, e.before).before(e.before).walk([]step{{name: f.source(e.word)}})
}

// definition returns where the name at a byte of a file is declared.
func definition(files []*file, f *file, at int) (location, bool) {
	c, ok := f.cursor(at)
	if !ok || c.attr == nil || !c.value {
		return location{}, false
	}
	e := c.expression()
	if e.word.start == e.word.end || e.quoted != nil {
		return location{}, false
	}
	target := reference(files, f, c, e)
	if target == nil || target.file == nil {
		return location{}, false
	}
	return location{target.file.uri, target.file.text.textRange(target.at)}, true
}

func attributeHelp(a *config.Attribute) string {
	out := "**" + a.Name + "**: " + a.Type + "\n\n" + a.Doc
	for _, p := range a.Parts {
		out += "\n- `" + p.Name + "`: " + p.Type + ". " + p.Doc
	}
	switch a.Default {
	case "":
	case "required":
		out += "\n\nRequired."
	case "derived":
		out += "\n\nDerived if not set."
	default:
		out += "\n\nDefault: " + a.Default + "."
	}
	return out
}

func kindHelp(k *config.BlockKind) string {
	out := code(k.Header) + "\n\n" + k.Doc
	if !k.Many {
		out += " At most one."
	}
	if k.Attribute("for_each") != nil {
		out += "\n\nAccepts `for_each` and `enabled`."
	}
	return out
}

func entryHelp(e *entry) string {
	out := e.doc
	if e.detail != "" {
		out = code(e.detail) + "\n\n" + out
	}
	return strings.TrimSpace(out)
}

func code(s string) string { return "```hcl\n" + strings.ReplaceAll(s, "```", "'''") + "\n```" }
