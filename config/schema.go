package config

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fabricform/fabricform/fabric"
)

// attribute is one attribute of a block: a tagged field of a type of package fabric.
type attribute struct {
	name     string
	field    []int // index of the struct field
	typ      reflect.Type
	required bool
	auto     bool // "auto" means as if absent
	path     bool // relative to the file that names it
	one      []string
	min, max *float64
	initial  string // default, as the language writes it; "": none
	absent   string // what holds where it is not set, without being set; "": nothing
	shape    string
	owner    string // Go type and field, for the documentation
	goField  string
}

// block is a kind of block: its attributes and the blocks in it.
type block struct {
	name   string
	label  string // what the label means; "": no label
	many   bool   // more than one may stand
	repeat bool   // takes for_each and enabled
	free   bool   // takes any attribute
	field  []int
	typ    reflect.Type
	attrs  []*attribute
	blocks []*block

	owner   string // Go type and field, for the documentation
	goField string
}

// language is the whole language, made from the tags once.
var language = sync.OnceValue(func() *block {
	root := &block{many: true}
	root.read(reflect.TypeFor[files](), nil)
	root.read(reflect.TypeFor[fabric.Fabric](), nil)
	return root
})

func (b *block) read(t reflect.Type, at []int) {
	b.typ = t
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		tag, tagged := f.Tag.Lookup("ff")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			typ := b.typ
			b.read(f.Type, index)
			b.typ = typ
		case tagged && slices.Contains(strings.Split(tag, ","), "block"):
			b.blocks = append(b.blocks, newBlock(t, f, tag, index))
		case tagged:
			b.attrs = append(b.attrs, newAttribute(t, f, tag, index))
		}
	}
}

func newBlock(t reflect.Type, f reflect.StructField, tag string, index []int) *block {
	b := &block{field: index, owner: t.Name(), goField: f.Name}
	for i, part := range strings.Split(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0:
			b.name = part
		case key == "label":
			b.label = value
		case key == "repeat":
			b.repeat = true
		case key == "free":
			b.free = true
		}
	}
	elem := f.Type
	if elem.Kind() == reflect.Slice {
		b.many = true
		elem = elem.Elem()
	}
	if elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	b.read(elem, nil)
	return b
}

func newAttribute(t reflect.Type, f reflect.StructField, tag string, index []int) *attribute {
	a := &attribute{field: index, typ: f.Type, owner: t.Name(), goField: f.Name}
	for i, part := range strings.Split(tag, ",") {
		key, value, _ := strings.Cut(part, "=")
		switch {
		case i == 0:
			a.name = part
		case key == "required":
			a.required = true
		case key == "auto":
			a.auto = true
		case key == "path":
			a.path = true
		case key == "one":
			a.one = strings.Split(value, "|")
		case key == "min":
			a.min = number(value)
		case key == "max":
			a.max = number(value)
		case key == "default":
			a.initial = value
		case key == "absent":
			a.absent = value
		case key == "shape":
			a.shape = value
		default:
			panic(fmt.Sprintf("tag %q of %s.%s", part, t.Name(), f.Name)) // seen by every test
		}
	}
	return a
}

func number(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err) // our own tags; seen by every test
	}
	return &f
}

// block finds a nested block's kind; nil where there is none.
func (b *block) block(name string) *block {
	for _, k := range b.blocks {
		if k.name == name {
			return k
		}
	}
	return nil
}

// attr finds an attribute; nil where there is none.
func (b *block) attr(name string) *attribute {
	for _, a := range b.attrs {
		if a.name == name {
			return a
		}
	}
	return nil
}

// names of all that may stand in the block.
func (b *block) names() []string {
	var out []string
	for _, a := range b.attrs {
		out = append(out, a.name)
	}
	for _, k := range b.blocks {
		out = append(out, k.name)
	}
	if b.repeat {
		out = append(out, "for_each", "enabled")
	}
	return out
}

// every attribute of the block, those of a repeated one included.
func (b *block) every() []*attribute {
	if !b.repeat {
		return b.attrs
	}
	spec := &block{}
	spec.read(reflect.TypeFor[repetition](), nil)
	return append(slices.Clone(b.attrs), spec.attrs...)
}

// repetition is what a block takes that may stand once for each key.
type repetition struct {
	// Repeats the block for each key of a map, or of a set of strings; `each.key` and `each.value` are the instance's.
	ForEach anything `ff:"for_each"`
	// Whether the instance is there.
	Enabled bool `ff:"enabled,default=true"`
}

// files are the blocks of the language that are gone once a fabric is read.
type files struct {
	// Names the fabric. The name scopes ownership on the hosts; `default` without the block.
	Fabric header `ff:"fabric,block,label=NAME"`
	// An input of the files. Values, later ones win: its `default`, `FABRICFORM_VAR_NAME`, `*.auto.fabricvars` beside the files in the order of their names, `-var-file` and `-var` in the order of the command line.
	Variables []variable `ff:"variable,block,label=NAME"`
	// Named expressions: any attributes.
	Locals []struct{} `ff:"locals,block,free"`
	// A value for other programs: `fabricform output`.
	Outputs []output `ff:"output,block,label=NAME"`
}

type header struct {
	// For people.
	Description string `ff:"description"`
	// Constraint on the version of fabricform, such as `">= 0.1.0"`. A development build satisfies every constraint.
	RequiredVersion string `ff:"required_version"`
}

// anything is an attribute that decode leaves to its own code: an expression of any type.
type anything struct{}

type variable struct {
	// Type constraint, such as `string` or `map(object({ mgmt = string, number = number }))`.
	Type anything `ff:"type"`
	// Value where none is given.
	Default anything `ff:"default"`
	// For people.
	Description string `ff:"description"`
	// Whether the value is left out of messages and outputs.
	Sensitive bool `ff:"sensitive"`
	// A condition on the value.
	Validation []validation `ff:"validation,block"`
}

type validation struct {
	// Must be true.
	Condition anything `ff:"condition,required"`
	// What to say where it is not.
	ErrorMessage anything `ff:"error_message,required"`
}

type output struct {
	// The value.
	Value anything `ff:"value,required"`
	// For people.
	Description string `ff:"description"`
	// Whether the value is left out of what people see; needed where a sensitive variable goes into it.
	Sensitive bool `ff:"sensitive"`
}
