package config

import (
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty/function"
)

// BlockKind describes a kind of block for editors. The whole language is a BlockKind without a name.
type BlockKind struct {
	Name       string
	Label      string // what the label means; "": no label
	Header     string // first line of a block: host "NAME"
	Doc        string
	Many       bool // may occur more than once
	Free       bool // accepts any attribute
	Attributes []Attribute
	Blocks     []*BlockKind
}

// Attribute describes an attribute for editors. Texts are Markdown.
type Attribute struct {
	Name    string
	Type    string // type and range
	Default string // what applies if it is not set: a value, "required", "derived" or ""
	Doc     string
	Values  []string    // the possible values, if there are few
	Static  bool        // accepts no references: a type constraint
	Parts   []Attribute // the attributes of an object
}

// Function describes a function that expressions may call.
type Function struct{ Name, Signature string }

// Language describes the whole language. It is made from the tags that Load decodes by. Callers share
// the value and must not change it.
var Language = sync.OnceValue(func() *BlockKind { return language().help() })

// Block returns the kind of a nested block, or nil.
func (k *BlockKind) Block(name string) *BlockKind {
	for _, b := range k.Blocks {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Attribute returns the attribute of that name, or nil.
func (k *BlockKind) Attribute(name string) *Attribute { return find(k.Attributes, name) }

// Part returns the attribute of that name in an object, or nil.
func (a *Attribute) Part(name string) *Attribute { return find(a.Parts, name) }

func find(all []Attribute, name string) *Attribute {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func (b *block) help() *BlockKind {
	k := &BlockKind{Name: b.name, Label: b.label, Header: b.header(), Many: b.many, Free: b.free}
	if b.name != "" {
		k.Doc = b.doc()
	}
	for _, a := range b.every() {
		k.Attributes = append(k.Attributes, a.help())
	}
	for _, in := range b.blocks {
		k.Blocks = append(k.Blocks, in.help())
	}
	return k
}

func (a *attribute) help() Attribute {
	out := Attribute{Name: a.name, Type: a.describe(), Default: a.fallback(), Doc: a.doc(), Values: quoted(a.one)}
	t := a.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Bool {
		out.Values = []string{"true", "false"}
	}
	if a.auto {
		out.Values = append(out.Values, `"auto"`)
	}
	if a.goType == "variable" && a.name == "type" {
		out.Static, out.Values = true, []string{"string", "number", "bool", "any", "list(string)", "set(string)",
			"map(string)", "object({})"}
	}
	for _, p := range a.partAttributes() {
		out.Parts = append(out.Parts, p.help())
	}
	return out
}

// Functions returns the functions that expressions may call, sorted by name.
var Functions = sync.OnceValue(func() []Function {
	var out []Function
	for name, f := range functions(".", newMeter()) {
		out = append(out, Function{name, signature(name, f)})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
})

func signature(name string, f function.Function) string {
	var params []string
	for _, p := range f.Params() {
		params = append(params, p.Name)
	}
	if p := f.VarParam(); p != nil {
		params = append(params, p.Name+"…")
	}
	return name + "(" + strings.Join(params, ", ") + ")"
}
