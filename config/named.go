package config

import (
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// named reads all top-level blocks of a type that others refer to by their name. read reads one, and returns its value in expressions.
func (l *loader) named(block string, read func(k *hclsyntax.Block, name string) cty.Value) cty.Value {
	values := map[string]cty.Value{}
	for _, k := range l.blocks[block] {
		name := k.Labels[0]
		if _, twice := values[name]; twice {
			l.duplicate(k.DefRange(), "Duplicate "+block+" name", "Another %s is named %q. Rename one.", block, name)
			continue
		}
		if !fabric.IsName(name) {
			l.errorf(k.LabelRanges[0], "Name not allowed",
				"The name of a %s block begins with a letter or digit and has only letters, digits, '.', '_' and '-'.", block)
		}
		values[name] = read(k, name)
	}
	return object(values)
}

// namedKind returns the type of the block whose value it is: qos or workload; "" if it is of neither.
func namedKind(v cty.Value) string {
	if _, is := nameOf(v, workloadMark); is {
		return "workload"
	}
	if _, is := nameOf(v, qosMark); is {
		return "qos"
	}
	return ""
}

// nameOf returns the name of a block from its value in expressions, which is known by an attribute that no other value has.
func nameOf(v cty.Value, mark string) (string, bool) {
	v, _ = v.Unmark()
	if v.IsNull() || !v.IsKnown() || !v.Type().IsObjectType() || !v.Type().HasAttribute(mark) || !v.Type().HasAttribute("name") {
		return "", false
	}
	return plainString(v.GetAttr("name"))
}
