package config

import (
	"reflect"
	"sort"
	"strings"
	"sync"

	"github.com/zclconf/go-cty/cty/function"
)

// Kind is what an editor says of a kind of block. The whole language is a kind without a name.
type Kind struct {
	Name       string
	Label      string // what the label means; "": no label
	Header     string // how a block begins: host "NAME"
	Doc        string
	Many       bool // more than one may stand
	Free       bool // takes any attribute
	Attributes []Attribute
	Blocks     []*Kind
}

// Attribute is what an editor says of an attribute. Texts are Markdown.
type Attribute struct {
	Name    string
	Takes   string // type and range
	Without string // what holds where it is not set; "": nothing
	Doc     string
	Values  []string    // what may be written, where that is a short list
	Static  bool        // takes no references: a type constraint
	Parts   []Attribute // of an object
}

// Function is a function that expressions may call.
type Function struct{ Name, Signature string }

// Language is the whole language, made from the same tags as Load's. It is shared: change nothing.
var Language = sync.OnceValue(func() *Kind { return language().help() })

// Block finds a nested block's kind; nil where there is none.
func (k *Kind) Block(name string) *Kind {
	for _, b := range k.Blocks {
		if b.Name == name {
			return b
		}
	}
	return nil
}

// Attribute finds an attribute; nil where there is none.
func (k *Kind) Attribute(name string) *Attribute { return find(k.Attributes, name) }

// Part finds an attribute of an object; nil where there is none.
func (a *Attribute) Part(name string) *Attribute { return find(a.Parts, name) }

func find(all []Attribute, name string) *Attribute {
	for i := range all {
		if all[i].Name == name {
			return &all[i]
		}
	}
	return nil
}

func (b *block) help() *Kind {
	k := &Kind{Name: b.name, Label: b.label, Header: b.header(), Many: b.many, Free: b.free}
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
	out := Attribute{Name: a.name, Takes: a.takes(), Without: a.without(), Doc: a.doc(), Values: quoted(a.one)}
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
	if a.owner == "variable" && a.name == "type" {
		out.Static, out.Values = true, []string{"string", "number", "bool", "any", "list(string)", "set(string)", "map(string)", "object({})"}
	}
	for _, p := range a.partAttributes() {
		out.Parts = append(out.Parts, p.help())
	}
	return out
}

// Functions are what expressions may call, sorted by name.
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
