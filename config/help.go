package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/nccl/env"
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
	Keys    []Attribute // the known keys of a map, which may have others
}

// Function describes a function that expressions may call.
type Function struct {
	Name       string
	Parameters []string // the last one ends with … if there may be any number of it
	Doc        string   // Markdown
}

// Signature returns the function with the names of its parameters.
func (f Function) Signature() string { return f.Name + "(" + strings.Join(f.Parameters, ", ") + ")" }

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

// Part returns the attribute of that name in an object, or the known key of a map, or nil.
func (a *Attribute) Part(name string) *Attribute {
	if a.Keys != nil {
		return find(a.Keys, name)
	}
	return find(a.Parts, name)
}

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
	if a.goType == "NCCL" && a.name == "env" {
		out.Keys = ncclVariables()
	}
	return out
}

// ncclVariables describes the variables that NCCL reads, those that its documentation names first.
var ncclVariables = sync.OnceValue(func() (out []Attribute) {
	for _, status := range []env.Status{env.Documented, env.Undocumented} {
		for _, name := range env.Names() {
			if v := env.Lookup(name); v.Status == status && v.Deprecated == "" {
				out = append(out, variableHelp(v))
			}
		}
	}
	return out
})

func variableHelp(v *env.Variable) Attribute {
	a := Attribute{Name: v.Name, Type: string(v.Type), Doc: title(v.Note + "."), Values: quoted(v.Words)}
	if v.Note == "" {
		a.Doc = ""
	}
	if v.Words != nil {
		a.Type = "`" + strings.Join(a.Values, "`, `") + "`"
	}
	if v.Default != "" {
		a.Default = "`" + v.Default + "`"
	}
	if v.First.Known() {
		a.Doc += " Read since NCCL " + v.First.String() + "."
	}
	if v.Status == env.Undocumented {
		a.Doc += " NCCL's documentation does not name it, so it may change in any release."
	}
	if v.PerHost {
		a.Doc += " The right value differs between hosts."
	}
	a.Doc = strings.TrimSpace(a.Doc)
	return a
}

// Functions returns the functions that expressions may call, sorted by name.
var Functions = sync.OnceValue(func() []Function {
	var out []Function
	for _, name := range slices.Sorted(maps.Keys(functionDocs)) {
		h := functionDocs[name]
		doc := h.doc + " For example, `" + h.example + "`"
		if h.result != "" {
			doc += " is `" + h.result + "`"
		}
		out = append(out, Function{name, strings.Fields(h.params), doc + "."})
	}
	return out
})
