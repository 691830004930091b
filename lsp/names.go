package lsp

import (
	"slices"
	"strings"
	"sync"

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
	named   bool           // the place is the name in its declaration, so that renaming it renames this
	members func() []entry // nil: unknown
	element func() *entry  // an instance by a key that is not a literal; nil: unknown
	texts   func() []entry // the texts of a list, which are the keys of instances; nil: unknown
}

// become gives a member the shape of its value, which is found out only if it is needed.
func (e *entry) become(shape func() *entry) {
	e.members = func() []entry { return shape().list() }
	e.element = func() *entry { return shape().any() }
	e.texts = func() []entry { return shape().words() }
}

// list returns the members of an entry; none of nil.
func (e *entry) list() []entry {
	if e == nil || e.keyed || e.members == nil {
		return nil
	}
	return e.members()
}

// words returns the texts of a list.
func (e *entry) words() []entry {
	if e == nil || e.texts == nil {
		return nil
	}
	return e.texts()
}

// walk follows the steps of a reference from an entry.
func (e *entry) walk(steps []step) *entry {
	for _, st := range steps {
		if e == nil {
			return nil
		}
		e = e.next(st)
	}
	return e
}

// scope holds what a position may refer to.
type scope struct {
	files  []*file // all files of the fabric
	file   *file
	body   *body
	vars   []entry // names that only this expression has, the innermost last
	budget *int    // expressions that may still be looked at
	known  *declared
}

// declared holds what the whole fabric declares, listed once for all references of a request.
type declared struct{ hosts, variables, locals, classes, workloads func() []entry }

func newScope(files []*file, f *file, b *body) scope {
	budget := maxShapes
	s := scope{files: files, file: f, body: b, budget: &budget}
	s.known = &declared{}
	s.known.hosts, s.known.variables, s.known.locals = sync.OnceValue(s.hosts), sync.OnceValue(s.variables), sync.OnceValue(s.locals)
	s.known.classes = sync.OnceValue(s.classes)
	s.known.workloads = sync.OnceValue(s.workloads)
	return s
}

// at returns the scope of another place of the fabric.
func (s scope) at(f *file, b *body) scope {
	s.file, s.body, s.vars = f, b, nil
	return s
}

// find resolves a reference. It returns nil if the target does not exist or is known only after evaluation.
func (s scope) find(steps []step) *entry {
	return (&entry{members: s.roots}).walk(steps)
}

func (e *entry) next(st step) *entry {
	switch {
	case e.keyed && st.index:
		one := *e
		one.keyed = false
		return &one
	case e.keyed:
		return nil
	case st.index && (st.name == "" || e.members == nil):
		if e.element == nil {
			return nil
		}
		return e.element()
	case e.members == nil:
		return nil
	}
	all := e.members()
	for i := range all {
		if all[i].name == st.name {
			return &all[i]
		}
	}
	if st.index && e.element != nil {
		return e.element()
	}
	return nil
}

// roots returns the names with which a reference may begin at this position.
func (s scope) roots() []entry {
	out := slices.Clone(s.vars)
	slices.Reverse(out)
	out = append(out, []entry{
		{name: "var", kind: itemModule, doc: "The variables.", members: s.known.variables},
		{name: "local", kind: itemModule, doc: "The locals.", members: s.known.locals},
		{name: "host", kind: itemModule, doc: "The hosts, by the names of their blocks.", members: s.known.hosts, element: s.anyHost},
		{name: "qos", kind: itemModule, doc: "The classes of traffic, by the names of their blocks.", members: s.known.classes},
		{name: "workload", kind: itemModule, doc: "The workloads, by the names of their blocks.", members: s.known.workloads},
	}...)
	child := ""
	for b := s.body; b.block != nil; b = b.block.in {
		if each := b.attr("for_each"); each != nil && !named(out, "each") {
			out = append(out, entry{name: "each", kind: itemModule, detail: "each of " + s.file.brief(each.value),
				doc:  "The key and the value of this instance.",
				file: s.file, at: each.nameSpan, members: s.instance("each", each, b.block.in, each.nameSpan)})
		}
		if b.block.typ != "host" {
			child = b.block.typ
			continue
		}
		k := b.block
		out = append(out, entry{name: "self", kind: itemModule, detail: k.head(), doc: "This instance of the host.",
			file: s.file, at: k.labelSpan,
			members: s.instance("self", b.attr("for_each"), b.block.in, k.labelSpan)})
		for _, kind := range referable(child) {
			out = append(out, entry{name: kind, kind: itemModule, doc: "The " + kind + " blocks of this host.",
				members: func() []entry { return s.nics(kind, s.file, b) }, element: anyNIC})
		}
	}
	return out
}

// referable returns the kinds of NICs to which a block of a host may refer: a bond to NICs, a VLAN to NICs and bonds.
func referable(child string) []string {
	kinds := config.NICKinds()
	if i := slices.Index(kinds, child); i >= 0 || child == "" {
		return kinds[:max(i, 0)]
	}
	return kinds
}

// instance returns the members of each or self. What its value has, the value of for_each says.
func (s scope) instance(of string, each *attribute, in *body, at span) func() []entry {
	return func() []entry {
		out := plain(of, s.file, at)()
		for i := range out {
			if out[i].name == "value" && each != nil {
				out[i].become(func() *entry { return s.at(s.file, in).attributeShape(each).any() })
			}
		}
		return out
	}
}

// keys returns the keys of the instances of a block with for_each: those that the files write or, of a host, those of the last
// check.
func (s scope) keys(f *file, k *block) []entry {
	shape := s.at(f, k.in).attributeShape(k.body.attr("for_each"))
	out := append(shape.list(), shape.words()...)
	if len(out) == 0 && k.typ == "host" {
		for _, name := range s.files[0].hosts[k.label] {
			out = append(out, entry{name: name, kind: itemEnum})
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
		e := entry{name: k.label, kind: itemVariable, detail: k.head(), file: f, at: k.labelSpan, named: true}
		if a := k.body.attr("default"); a != nil {
			e.become(func() *entry { return s.at(f, f.root).attributeShape(a) })
		}
		if a := k.body.attr("type"); a != nil {
			e.detail += ": " + f.brief(a.value)
			if t := f.parse(a.value); t != nil {
				e.become(func() *entry { return s.at(f, f.root).typed(t) })
			}
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
			e := entry{name: a.name, kind: itemVariable, detail: a.name + " = " + f.brief(a.value), file: f, at: a.nameSpan, named: true}
			e.become(func() *entry { return s.at(f, f.root).attributeShape(a) })
			out = append(out, e)
		}
	})
	return out
}

func (s scope) classes() (out []entry) {
	s.blocks("qos", func(f *file, k *block) {
		out = append(out, entry{name: k.label, kind: itemStruct, detail: k.head(), file: f, at: k.labelSpan, named: true,
			members: plain("qos", nil, span{})})
	})
	return out
}

func (s scope) workloads() (out []entry) {
	s.blocks("workload", func(f *file, k *block) {
		out = append(out, entry{name: k.label, kind: itemStruct, detail: k.head(), file: f, at: k.labelSpan, named: true,
			members: plain("workload", nil, span{})})
	})
	return out
}

func (s scope) hosts() (out []entry) {
	s.blocks("host", func(f *file, k *block) {
		e := entry{name: k.label, kind: itemStruct, detail: k.head(), file: f, at: k.labelSpan, named: true, keyed: k.body.attr("for_each") != nil}
		if e.keyed {
			e.texts = func() []entry { return s.keys(f, k) }
		}
		if a := k.body.attr("address"); a != nil {
			e.detail += ", address " + f.brief(a.value)
		}
		e.members = hostMembers(func(kind string) []entry { return s.nics(kind, f, k.body) })
		out = append(out, e)
	})
	return out
}

func hostMembers(nics func(kind string) []entry) func() []entry {
	return func() []entry {
		members := plain("host", nil, span{})()
		for i, m := range members {
			if slices.Contains(config.NICKinds(), m.name) {
				members[i].members, members[i].element = func() []entry { return nics(m.name) }, anyNIC
			}
		}
		return members
	}
}

// anyHost is a host that no literal key names. If there is only one block, it is an instance of that block; otherwise it has the
// NICs of all hosts, which are declared at several places.
func (s scope) anyHost() *entry {
	all := s.known.hosts()
	if len(all) == 1 {
		one := all[0]
		one.keyed = false
		return &one
	}
	return &entry{kind: itemStruct, detail: "host", members: hostMembers(func(kind string) (out []entry) {
		seen := map[string]bool{}
		s.blocks("host", func(f *file, k *block) {
			for _, n := range s.nics(kind, f, k.body) {
				if !seen[n.name] {
					seen[n.name] = true
					n.file, n.named = nil, false
					out = append(out, n)
				}
			}
		})
		return out
	})}
}

// nics returns the NICs of a host block; or its bonds, or its VLANs.
func (s scope) nics(kind string, f *file, host *body) (out []entry) {
	for _, k := range host.blocks {
		if k.typ != kind {
			continue
		}
		e := *anyNIC()
		e.named = true
		e.name, e.detail, e.file, e.at, e.keyed = k.label, k.head(), f, k.labelSpan, k.body.attr("for_each") != nil
		if e.keyed {
			e.texts = func() []entry { return s.keys(f, k) }
		}
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
