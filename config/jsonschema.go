package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/fabricform/fabricform/fabric"
)

// schema is a JSON schema or a part of one.
type schema = map[string]any

// template matches a string that may evaluate to a value of any type.
const template = `[$%]\{`

// Schema returns the JSON schema (draft 2020-12) of *.hcl.json files, made from the same tags and
// comments as docs/language.md. It accepts more than Load does, because a schema can neither evaluate
// templates nor compare attributes.
func Schema() ([]byte, error) {
	m := schemas{names: map[reflect.Type]string{}, defs: schema{}}
	m.name(language())
	out := m.body(language(), "#")
	out["type"] = []string{"object", "array"}
	out["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	out["title"] = "fabricform"
	out["description"] = "A file of a fabric, in HCL's JSON syntax."
	m.defs["expression"] = schema{"description": "An expression in a string, such as \"${host.a.nic.rail0}\".",
		"type": "string", "pattern": template}
	m.defs["scalar"] = schema{"type": []string{"string", "number", "boolean"}}
	m.defs["bool_text"] = schema{"type": "string", "pattern": `^(true|false|0|1)$|` + template}
	m.defs["number_text"] = schema{"type": "string", "pattern": `^-?[0-9.]+([eE][+-]?[0-9]+)?$|` + template}
	out["$defs"] = m.defs
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(out); err != nil {
		return nil, fmt.Errorf("encode the schema: %w", err)
	}
	return b.Bytes(), nil
}

// schemas collects a definition for each kind of block.
type schemas struct {
	names map[reflect.Type]string
	defs  schema
}

// name names each kind of block by its shortest path: `validate` is both the top-level block and the
// one in a link.
func (m schemas) name(root *block) {
	type place struct {
		b    *block
		path string
	}
	for queue := []place{{root, ""}}; len(queue) > 0; queue = queue[1:] {
		for _, k := range queue[0].b.blocks {
			if m.names[k.typ] == "" {
				path := strings.TrimPrefix(queue[0].path+"."+k.name, ".")
				m.names[k.typ] = path
				queue = append(queue, place{k, path})
			}
		}
	}
}

// ref returns a reference to a block's definition, and makes the definition on first use.
func (m schemas) ref(b *block) schema {
	name := m.names[b.typ]
	ref := schema{"$ref": "#/$defs/" + name}
	if m.defs[name] == nil {
		m.defs[name] = ref // stops the recursion if a kind contains itself
		m.defs[name] = m.body(b, "#/$defs/"+name)
	}
	return ref
}

// body is the schema of a block's content: an object, a list of them, or null. The keywords for objects
// and lists are side by side because each applies only to its own type.
func (m schemas) body(b *block, self string) schema {
	properties := schema{"//": schema{"description": "A comment."}}
	var required []string
	for _, a := range b.every() {
		properties[a.name] = a.schema()
		if a.required {
			required = append(required, a.name)
		}
	}
	for _, k := range b.blocks {
		properties[k.name] = m.blocks(k)
	}
	out := schema{"type": []string{"object", "array", "null"}, "properties": properties,
		"additionalProperties": b.free, "items": schema{"$ref": self}}
	if required != nil {
		out["required"] = required
	}
	return out
}

// blocks is the schema of all blocks of one kind, by label if the kind has one.
func (m schemas) blocks(b *block) schema {
	if b.label == "" {
		out := m.ref(b)
		if out["description"] = b.doc(); !b.many {
			out["maxItems"] = 1
		}
		return out
	}
	byLabel := schema{"additionalProperties": m.ref(b), "minProperties": 1}
	if !b.many {
		byLabel["maxProperties"] = 1
	}
	item := schema{"type": "object"}
	out := schema{"type": []string{"object", "array"}, "description": b.doc(), "items": item}
	for k, v := range byLabel {
		out[k], item[k] = v, v
	}
	return out
}

// schema is the JSON schema of an attribute.
func (a *attribute) schema() schema {
	out := schema{"description": strings.TrimSpace(a.doc() + " " + title(strings.ReplaceAll(a.describe(), "`", "")) + ".")}
	if a.initial != "" {
		out["default"] = a.initialJSON()
	}
	kinds := a.kinds()
	if kinds == nil {
		return out
	}
	if a.auto {
		kinds = append(kinds, schema{"const": "auto"})
	}
	if !a.required {
		kinds = append(kinds, schema{"type": "null"})
	}
	out["anyOf"] = kinds
	return out
}

var expression = schema{"$ref": "#/$defs/expression"}

// kinds returns the schemas that the attribute's value may match; nil: any value.
func (a *attribute) kinds() []schema {
	t := a.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t {
	case reflect.TypeFor[anything]():
		return nil
	case reflect.TypeFor[fabric.NICRef](), reflect.TypeFor[fabric.HostRef](), reflect.TypeFor[fabric.QoSRef](),
		reflect.TypeFor[fabric.WorkloadRef]():
		return []schema{expression}
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[netip.Addr](), reflect.TypeFor[netip.Prefix](), reflect.TypeFor[fabric.Netdev]():
		return []schema{{"type": "string"}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return []schema{{"type": "boolean"}, {"$ref": "#/$defs/bool_text"}}
	case reflect.Int:
		return []schema{a.limits(schema{"type": "integer"}), {"$ref": "#/$defs/number_text"}}
	case reflect.Float64:
		return []schema{a.limits(schema{"type": "number"}), {"$ref": "#/$defs/number_text"}}
	case reflect.Map:
		return []schema{{"type": "object", "additionalProperties": schema{"anyOf": []schema{{"$ref": "#/$defs/scalar"}, {"type": "null"}}}},
			expression}
	case reflect.Slice:
		return a.list(t.Elem())
	case reflect.Struct:
		return []schema{a.object(), expression}
	}
	if a.one != nil {
		return []schema{{"enum": a.one}, expression}
	}
	return []schema{{"$ref": "#/$defs/scalar"}}
}

func (a *attribute) limits(s schema) schema {
	if a.min != nil {
		s["minimum"] = *a.min
	}
	if a.least != nil {
		s["anyOf"] = []schema{{"const": 0}, {"minimum": *a.least}}
	}
	if a.max != nil {
		s["maximum"] = *a.max
	}
	return s
}

func (a *attribute) list(elem reflect.Type) []schema {
	one := &attribute{name: a.name, typ: elem, one: a.one}
	out := []schema{{"type": "array", "items": schema{"anyOf": one.kinds()}}, expression}
	if a.name == "subnet" {
		out[1] = schema{"type": "string"}
	}
	return out
}

// object is the schema of an attribute whose value is an object. A key may be a template.
func (a *attribute) object() schema {
	properties := schema{}
	for _, p := range a.partAttributes() {
		properties[p.name] = p.schema()
	}
	return schema{"type": "object", "properties": properties, "patternProperties": schema{template: true}, "additionalProperties": false}
}

// initialJSON returns the default as a JSON value.
func (a *attribute) initialJSON() any {
	t := a.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Bool:
		return a.initial == "true"
	case t.Kind() == reflect.Slice:
		return strings.Fields(a.initial)
	}
	if f, err := strconv.ParseFloat(a.initial, 64); err == nil {
		return f
	}
	return a.initial
}
