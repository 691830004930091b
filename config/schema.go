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
	auto     bool // accepts "auto", which means the same as absent
	path     bool // a file, relative to the fabric file that names it
	secret   bool // a map whose values may be sensitive
	one      []string
	min, max *float64
	least    *float64 // smallest value besides 0; nil: min
	initial  string   // default value as text; "": none
	absent   string   // documented behaviour if not set, where the field stays nil; "": none
	shape    string
	goType   string // Go type and field, for the documentation
	goField  string
}

// block is a kind of block: its attributes and the blocks in it.
type block struct {
	name   string
	label  string // what the label means; "": no label
	many   bool   // may occur more than once
	repeat bool   // accepts for_each and enabled
	free   bool   // accepts any attribute
	field  []int
	typ    reflect.Type
	attrs  []*attribute
	blocks []*block

	goType  string // Go type and field, for the documentation
	goField string
}

// language returns the whole language, made once from the tags.
var language = sync.OnceValue(func() *block {
	root := &block{many: true}
	root.read(reflect.TypeFor[files](), nil)
	root.read(reflect.TypeFor[fabric.Fabric](), nil)
	return root
})

// read adds the tagged fields of a struct type. at is the index path of an embedded struct.
func (b *block) read(t reflect.Type, at []int) {
	b.typ = t
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clone(at), i)
		tag, tagged := f.Tag.Lookup("ff")
		switch {
		case f.Anonymous && f.Type.Kind() == reflect.Struct:
			inner := &block{}
			inner.read(f.Type, index)
			without := strings.Split(strings.TrimPrefix(tag, "without="), "|")
			b.attrs = append(b.attrs, slices.DeleteFunc(inner.attrs, func(a *attribute) bool { return slices.Contains(without, a.name) })...)
			b.blocks = append(b.blocks, inner.blocks...)
		case tagged && slices.Contains(strings.Split(tag, ","), "block"):
			b.blocks = append(b.blocks, newBlock(t, f, tag, index))
		case tagged:
			b.attrs = append(b.attrs, newAttribute(t, f, tag, index))
		}
	}
}

func newBlock(t reflect.Type, f reflect.StructField, tag string, index []int) *block {
	b := &block{field: index, goType: t.Name(), goField: f.Name}
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
	a := &attribute{field: index, typ: f.Type, goType: t.Name(), goField: f.Name}
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
		case key == "sensitive":
			a.secret = true
		case key == "one":
			a.one = strings.Split(value, "|")
		case key == "min":
			a.min = number(value)
		case key == "max":
			a.max = number(value)
		case key == "least":
			a.least = number(value)
		case key == "default":
			a.initial = value
		case key == "absent":
			a.absent = value
		case key == "shape":
			a.shape = value
		default:
			panic(fmt.Sprintf("tag %q of %s.%s", part, t.Name(), f.Name)) // a mistake in our own tags; every test would see it
		}
	}
	return a
}

func number(s string) *float64 {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		panic(err) // a mistake in our own tags; every test would see it
	}
	return &f
}

// block returns the kind of a nested block, or nil.
func (b *block) block(name string) *block {
	for _, k := range b.blocks {
		if k.name == name {
			return k
		}
	}
	return nil
}

// attr returns the attribute of that name, or nil.
func (b *block) attr(name string) *attribute {
	for _, a := range b.attrs {
		if a.name == name {
			return a
		}
	}
	return nil
}

// names returns the names of all attributes and blocks that the block may contain.
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

// every returns all attributes of the block, including for_each and enabled.
func (b *block) every() []*attribute {
	if !b.repeat {
		return b.attrs
	}
	spec := &block{}
	spec.read(reflect.TypeFor[repetition](), nil)
	return append(slices.Clone(b.attrs), spec.attrs...)
}

// repetition holds the attributes of a block that may be repeated.
type repetition struct {
	// Repeats the block for each key of a map or set of strings; `each.key` and `each.value` belong to the instance.
	ForEach anything `ff:"for_each"`
	// Whether the instance exists.
	Enabled bool `ff:"enabled,default=true"`
}

// files holds the blocks that only matter while a fabric is loaded.
type files struct {
	// Names the fabric (`default` if the block is absent). Ownership on the hosts is recorded per fabric name.
	Fabric header `ff:"fabric,block,label=NAME"`
	// An input of the files. Later values override earlier ones: `default`, `FABRICFORM_VAR_NAME`, `fabricform.fabricvars` beside the
	// files, `*.auto.fabricvars` in the order of their names, `-var-file` and `-var` in the order of the command line.
	Variables []variable `ff:"variable,block,label=NAME"`
	// Named expressions. Any attribute name is allowed.
	Locals []struct{} `ff:"locals,block,free"`
	// A value for other programs, shown by `fabricform output`.
	Outputs []output `ff:"output,block,label=NAME"`
}

type header struct {
	// Text for readers.
	Description string `ff:"description"`
	// Constraint on the version of fabricform, such as `">= 0.1.0"`. A build between releases satisfies every constraint.
	RequiredVersion string `ff:"required_version"`
}

// anything is the type of an attribute that takes any expression, and that decode skips.
type anything struct{}

type variable struct {
	// Type constraint, such as `string` or `map(object({ mgmt = string, number = number }))`.
	Type anything `ff:"type"`
	// Value if no other is given.
	Default anything `ff:"default"`
	// Text for readers.
	Description string `ff:"description"`
	// Whether messages and outputs hide the value.
	Sensitive bool `ff:"sensitive"`
	// A condition that the value must meet.
	Validation []validation `ff:"validation,block"`
}

type validation struct {
	// Must be true.
	Condition anything `ff:"condition,required"`
	// The error message if the condition is false.
	ErrorMessage anything `ff:"error_message,required"`
}

type output struct {
	// The value.
	Value anything `ff:"value,required"`
	// Text for readers.
	Description string `ff:"description"`
	// Whether the value is hidden from people. Required if it uses a sensitive variable.
	Sensitive bool `ff:"sensitive"`
}
