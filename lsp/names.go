package lsp

import (
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// entry is a possible name at a step of a reference, and what may follow it.
type entry struct {
	name    string
	kind    int    // kind of the completion item
	detail  string // one line
	doc     string
	file    *file // the file that declares it; nil: built in
	at      span
	keyed   bool           // has instances by ["key"]
	members func() []entry // nil: unknown
	element func() *entry  // an instance by a key that is not a literal; nil: unknown
}

// scope holds what a position may refer to.
type scope struct {
	files []*file // all files of the fabric
	file  *file
	body  *body
}

// find resolves a reference. It returns nil if the target does not exist or is known only after evaluation.
func (s scope) find(steps []step) *entry {
	at := &entry{members: s.roots}
	for _, st := range steps {
		if at = at.next(st); at == nil {
			return nil
		}
	}
	return at
}

func (e *entry) next(st step) *entry {
	switch {
	case e.keyed && st.index:
		one := *e
		one.keyed = false
		return &one
	case e.keyed || e.members == nil:
		return nil
	case st.index && st.name == "":
		if e.element == nil {
			return nil
		}
		return e.element()
	}
	for _, m := range e.members() {
		if m.name == st.name {
			return &m
		}
	}
	return nil
}

// roots returns the names with which a reference may begin at this position.
func (s scope) roots() []entry {
	out := []entry{
		{name: "var", kind: itemModule, doc: "The variables.", members: s.variables},
		{name: "local", kind: itemModule, doc: "The locals.", members: s.locals},
		{name: "host", kind: itemModule, doc: "The hosts, by the names of their blocks.", members: s.hosts},
	}
	child := ""
	for b := s.body; b.block != nil; b = b.block.in {
		if each := b.attr("for_each"); each != nil && !named(out, "each") {
			out = append(out, entry{name: "each", kind: itemModule, detail: "each of " + s.file.brief(each.value),
				doc:  "The key and the value of this instance.",
				file: s.file, at: each.nameSpan, members: plain("each", s.file, each.nameSpan)})
		}
		if b.block.typ != "host" {
			child = b.block.typ
			continue
		}
		k := b.block
		out = append(out, entry{name: "self", kind: itemModule, detail: k.head(), doc: "This instance of the host.",
			file: s.file, at: k.labelSpan,
			members: plain("self", s.file, k.labelSpan)})
		if child != "" && child != "nic" {
			out = append(out, entry{name: "nic", kind: itemModule, doc: "The NICs of this host.",
				members: func() []entry { return nics(s.file, b) }, element: anyNIC})
		}
	}
	return out
}

func named(all []entry, name string) bool {
	for _, e := range all {
		if e.name == name {
			return true
		}
	}
	return false
}

func (k *block) head() string { return k.typ + ` "` + k.label + `"` }

// blocks visits the top-level blocks of one kind.
func (s scope) blocks(typ string, visit func(f *file, k *block)) {
	for _, f := range s.files {
		for _, k := range f.root.blocks {
			if k.typ == typ {
				visit(f, k)
			}
		}
	}
}

func (s scope) variables() (out []entry) {
	s.blocks("variable", func(f *file, k *block) {
		e := entry{name: k.label, kind: itemVariable, detail: k.head(), file: f, at: k.labelSpan}
		if a := k.body.attr("type"); a != nil {
			e.detail += ": " + f.brief(a.value)
		}
		if a := k.body.attr("description"); a != nil {
			e.doc = f.literal(a)
		}
		out = append(out, e)
	})
	return out
}

func (s scope) locals() (out []entry) {
	s.blocks("locals", func(f *file, k *block) {
		for _, a := range k.body.attrs {
			out = append(out, entry{name: a.name, kind: itemVariable, detail: a.name + " = " + f.brief(a.value), file: f, at: a.nameSpan})
		}
	})
	return out
}

func (s scope) hosts() (out []entry) {
	s.blocks("host", func(f *file, k *block) {
		e := entry{name: k.label, kind: itemStruct, detail: k.head(), file: f, at: k.labelSpan, keyed: k.body.attr("for_each") != nil}
		if a := k.body.attr("address"); a != nil {
			e.detail += ", address " + f.brief(a.value)
		}
		e.members = func() []entry {
			members := plain("host", nil, span{})()
			for i := range members {
				if members[i].name == "nic" {
					members[i].members, members[i].element = func() []entry { return nics(f, k.body) }, anyNIC
				}
			}
			return members
		}
		out = append(out, e)
	})
	return out
}

// nics returns the NICs of a host block.
func nics(f *file, host *body) (out []entry) {
	for _, k := range host.blocks {
		if k.typ != "nic" {
			continue
		}
		e := *anyNIC()
		e.name, e.detail, e.file, e.at, e.keyed = k.label, k.head(), f, k.labelSpan, k.body.attr("for_each") != nil
		if a := k.body.attr("netdev"); a != nil {
			e.detail += ", netdev " + f.brief(a.value)
		}
		if a := k.body.attr("addresses"); a != nil {
			e.detail += ", addresses " + f.brief(a.value)
		}
		out = append(out, e)
	}
	return out
}

func anyNIC() *entry { return &entry{kind: itemStruct, members: plain("nic", nil, span{})} }

// plain returns members that have no members themselves.
func plain(of string, f *file, at span) func() []entry {
	return func() (out []entry) {
		for _, m := range config.Properties(of) {
			out = append(out, entry{name: m.Name, kind: itemField, detail: of + "." + m.Name, doc: m.Doc, file: f, at: at})
		}
		return out
	}
}

// widest limits the length of a value that is shown.
const widest = 80

// brief returns the source of a value as one short line.
func (f *file) brief(value span) string {
	out := []rune(strings.Join(strings.Fields(f.source(span{value.start, min(value.end, value.start+4*widest)})), " "))
	if len(out) > widest {
		return string(out[:widest]) + "…"
	}
	return string(out)
}

// literal returns a value that is a string without templates.
func (f *file) literal(a *attribute) string {
	if len(a.tokens) == 3 && a.tokens[1].typ == hclsyntax.TokenQuotedLit {
		return f.source(a.tokens[1].span)
	}
	return ""
}
