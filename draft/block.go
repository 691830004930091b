package draft

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// block is a block of the files, before it is text.
type block struct {
	kind, label string
	comments    []string
	left        string // why it is written as a comment; "": it is not
	each        *local // its for_each; nil: none
	attrs       []attr
	blocks      []*block
}

type attr struct {
	name  string
	value expr
}

func (b *block) set(name string, value expr) { b.attrs = append(b.attrs, attr{name, value}) }

// lines returns about how many lines the block takes.
func (b *block) lines() int {
	n := 2 + len(b.comments) + len(b.attrs)
	for _, in := range b.blocks {
		n += in.lines()
	}
	return n
}

// shape is what two blocks must have in common to be one block with for_each.
func (b *block) shape() string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %v(", b.kind, b.each)
	for _, a := range b.attrs {
		fmt.Fprintf(&s, "%s=%T ", a.name, a.value)
	}
	for _, in := range b.blocks {
		fmt.Fprintf(&s, "%s:%s ", in.label, in.shape())
	}
	return s.String() + ")"
}

// expr is an expression. Its form in the text can depend on what is folded: text, ref, refs or field.
type expr any

// text is an expression as it is written.
type text string

// ref is a NIC, or an attribute of it. In the block of its own host, Host is "".
type ref struct {
	fabric.NICRef
	kind  string // of its block; "" is nic
	attr  string
	byKey bool // the NIC is the one whose name is the key of the block's for_each
}

// refs is a list of NICs.
type refs []ref

// field is a value of the for_each of a block, or of its host.
type field struct {
	of     *local
	name   string
	ofHost bool
}

// literal is a value as HCL writes it: no text in it is a template.
func literal(v cty.Value) text { return text(hclwrite.TokensForValue(v).Bytes()) }

func quoted(s string) text { return literal(cty.StringVal(s)) }

func list[T fmt.Stringer](all []T) text {
	out := make([]cty.Value, 0, len(all))
	for _, s := range all {
		out = append(out, cty.StringVal(s.String()))
	}
	return literal(cty.TupleVal(out))
}

func settings(m map[string]string) text {
	out := map[string]cty.Value{}
	for k, v := range m {
		out[k] = cty.StringVal(v)
	}
	return literal(cty.ObjectVal(out))
}

// member is .name, or ["name"] if that is no word.
func member(name string) string {
	word := func(r rune) bool {
		return r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !word(r) }) && (name[0] < '0' || name[0] > '9') && name[0] != '-' {
		return "." + name
	}
	return "[" + string(quoted(name)) + "]"
}

// printer writes blocks as text.
type printer struct {
	strings.Builder
	group  map[string]string // host -> the block that has it under its key
	family map[string]family // host -> its NICs under keys
	at     string            // the host whose block is written
}

// family is a nic block with for_each.
type family struct {
	label string
	nics  []string
}

func (p *printer) block(b *block, indent string) {
	if b.left != "" {
		in := &printer{group: p.group, family: p.family, at: p.at}
		plain := *b
		plain.left = ""
		in.block(&plain, "")
		fmt.Fprintf(&p.Builder, "%s# Left out: %s\n", indent, clean(b.left))
		for line := range strings.Lines(string(hclwrite.Format([]byte(in.String())))) {
			fmt.Fprintf(&p.Builder, "%s# %s", indent, line)
		}
		return
	}
	for _, c := range b.comments {
		fmt.Fprintf(&p.Builder, "%s# %s\n", indent, clean(c))
	}
	fmt.Fprintf(&p.Builder, "%s%s", indent, b.kind)
	if b.label != "" {
		fmt.Fprintf(&p.Builder, " %q", b.label)
	}
	if b.each == nil && len(b.attrs)+len(b.blocks) == 0 {
		fmt.Fprintln(&p.Builder, " {}")
		return
	}
	fmt.Fprintln(&p.Builder, " {")
	if b.each != nil {
		fmt.Fprintf(&p.Builder, "%s  for_each = %s\n", indent, b.each.forEach())
	}
	for _, a := range b.attrs {
		fmt.Fprintf(&p.Builder, "%s  %s = %s\n", indent, a.name, p.expr(a.value))
	}
	for _, in := range b.blocks {
		p.block(in, indent+"  ")
	}
	fmt.Fprintf(&p.Builder, "%s}\n", indent)
}

func (p *printer) expr(e expr) string {
	switch e := e.(type) {
	case ref:
		return p.ref(e)
	case refs:
		return p.refs(e)
	case field:
		return e.String()
	case text:
		return string(e)
	}
	panic(fmt.Sprintf("an expression of type %T", e))
}

func (p *printer) ref(r ref) string {
	kind := cmp.Or(r.kind, "nic")
	host, of := p.at, kind
	if r.Host != "" {
		host = r.Host
		if group := p.group[r.Host]; group != "" {
			of = "host" + member(group) + "[" + string(quoted(r.Host)) + "]." + kind
		} else {
			of = "host" + member(r.Host) + "." + kind
		}
	}
	out := of + p.nic(host, r)
	if r.attr != "" {
		out += "." + r.attr
	}
	return out
}

// nic is what follows nic in a reference.
func (p *printer) nic(host string, r ref) string {
	f := p.family[host] // not of bonds and VLANs, whose names differ from those of NICs
	key := string(quoted(r.NIC))
	if r.byKey {
		key = "each.key"
	}
	switch {
	case slices.Contains(f.nics, r.NIC):
		return member(f.label) + "[" + key + "]"
	case r.byKey:
		return "[each.key]"
	}
	return member(r.NIC)
}

// refs writes the NICs of all hosts of a for_each as one expression.
func (p *printer) refs(all refs) string {
	group := p.group[all[0].Host]
	same := group != "" && len(all) > 2
	var hosts []string
	for _, r := range all {
		same = same && p.group[r.Host] == group && r.NIC == all[0].NIC && r.kind == all[0].kind && !slices.Contains(hosts, r.Host)
		hosts = append(hosts, r.Host)
	}
	for host, of := range p.group {
		same = same && (of != group || slices.Contains(hosts, host))
	}
	if same {
		return "[for h in values(host" + member(group) + ") : h." + cmp.Or(all[0].kind, "nic") + p.nic(all[0].Host, all[0]) + "]"
	}
	var out []string
	for _, r := range all {
		out = append(out, p.ref(r))
	}
	return "[" + strings.Join(out, ", ") + "]"
}
