package config

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/fabricform/fabricform/fabric"
)

const maxInstances = 65536

// instance is one expansion of a block.
type instance struct {
	name string
	key  string // of for_each
	s    scope
	on   bool
	each bool
}

// repeatedOver says how to write a value of which for_each takes none: a list, a number, or a set of numbers.
func (l *loader) repeatedOver(e hclsyntax.Expression, v cty.Value) string {
	own, set := cmp.Or(l.source(e.Range()), "…"), false
	if call, is := e.(*hclsyntax.FunctionCallExpr); is && call.Name == "toset" && len(call.Args) == 1 {
		own, set = cmp.Or(l.source(call.Args[0].Range()), "…"), true
	}
	of := cty.String // of the elements, or DynamicPseudoType for several types or none
	switch t := v.Type(); {
	case t == cty.Number:
		return fmt.Sprintf("Write for_each = toset([for x in range(%s) : tostring(x)]).", own)
	case t == cty.String && quotedReference().MatchString(v.AsString()):
		return fmt.Sprintf("Remove the quotes: %s is a reference.", v.AsString())
	case t.IsPrimitiveType():
		return fmt.Sprintf("Write for_each = toset([%s]).", own)
	case t.IsTupleType():
		for i, one := range t.TupleElementTypes() {
			if i > 0 && one != of {
				one = cty.DynamicPseudoType
			}
			of = one
		}
	case t.IsCollectionType():
		of = t.ElementType()
	}
	switch {
	case of == cty.Number:
		return fmt.Sprintf("Write for_each = toset([for x in %s : tostring(x)]): its keys are texts, and each.value can be used as a number.", own)
	case of == cty.String && !set:
		return fmt.Sprintf("Write for_each = toset(%s).", own)
	}
	return fmt.Sprintf("Write for_each = { for x in %s : x.name => x }, with a part of x that names it.", own)
}

// repeated reports whether a block has for_each, or another tool's word for it.
func (l *loader) repeated(k *hclsyntax.Block) bool {
	return k.Body.Attributes["for_each"] != nil || l.unrepeated[k.Body]
}

// expand repeats a block over its for_each. ok is false if the instances are not known; then everything
// that refers to the block is skipped.
func (l *loader) expand(k *hclsyntax.Block, s scope) (out []instance, ok bool) {
	a := k.Body.Attributes["for_each"]
	ok = !l.unrepeated[k.Body]
	switch {
	case a == nil && !ok: // one instance, for the mistakes that have nothing to do with its key
		out = []instance{{name: k.Labels[0], s: s.with("each", cty.DynamicVal.Mark(failed{})), each: true}}
	case a == nil:
		out = []instance{{name: k.Labels[0], s: s}}
	default:
		if out, ok = l.forEach(a, s); !ok {
			return nil, false
		}
	}
	good := out[:0]
	for _, i := range out {
		if !l.nameAllowed(k, i.name) {
			ok = false
			continue
		}
		i.on = l.enabled(k, i.s)
		good = append(good, i)
	}
	return good, ok
}

// another is the cure for a second block, or instance, with the name of an earlier one.
func another(kind string, i instance) string {
	switch {
	case i.each && strings.Contains(i.name, "["): // the name has the label, too
		return "Rename one of the blocks, or use another key in for_each."
	case i.each:
		return fmt.Sprintf("Each key of for_each names one %s: use another key.", kind)
	}
	return "Merge the two blocks, or rename one."
}

// nameAllowed reports whether a block or an instance of it may have the name, and adds a diagnostic if it may not.
func (l *loader) nameAllowed(k *hclsyntax.Block, name string) bool {
	if fabric.IsName(name) {
		return true
	}
	l.errorf(k.DefRange(), "Name not allowed",
		"%q: a name begins with a letter or digit, has only letters, digits, '.', '_' and '-', and at most 63 characters.", name)
	return false
}

// labelled returns the instances with the label in their names, such as v4["rail0"]: several routes or policy routes may have
// the same keys, because each may be about a family or a destination of the same NICs.
func (l *loader) labelled(k *hclsyntax.Block, insts []instance) []instance {
	if !l.nameAllowed(k, k.Labels[0]) {
		return nil
	}
	for n, i := range insts {
		if i.each {
			insts[n].name = fmt.Sprintf("%s[%q]", k.Labels[0], i.name)
		}
	}
	return insts
}

func (l *loader) forEach(a *hclsyntax.Attribute, s scope) (out []instance, ok bool) {
	marked, ok := l.evalMarked(a.Expr, s)
	if !ok {
		return nil, false
	}
	v, marks := marked.Unmark()
	if !v.IsKnown() {
		_, all := marked.UnmarkDeep()
		l.notYet(a.Expr, s, all)
		return nil, false
	}
	if _, hidden := marks[secret{}]; hidden {
		l.say(a.Expr, s, "Sensitive value", "The keys of for_each are shown, so they must not be sensitive. "+
			"If they may be shown, write for_each = toset(nonsensitive(keys(…))), and look the values up with each.key.")
		return nil, false
	}
	t := v.Type()
	switch {
	case v.IsNull():
		l.say(a.Expr, s, "Invalid for_each", "for_each is null. Write an empty map, {}, for no instances.")
		return nil, false
	case t.IsMapType(), t.IsObjectType(), t.IsSetType() && (t.ElementType() == cty.String || v.LengthInt() == 0):
	case t.IsListType(), t.IsTupleType():
		l.say(a.Expr, s, "Invalid for_each", "for_each takes a map or a set of strings: with a list, removing one element would renumber the others. "+
			l.repeatedOver(a.Expr, v))
		return nil, false
	default:
		l.say(a.Expr, s, "Invalid for_each", "for_each takes a map or a set of strings; this is "+article(t.FriendlyName())+". "+l.repeatedOver(a.Expr, v))
		return nil, false
	}
	if v.LengthInt() > maxInstances {
		l.say(a.Expr, s, "Invalid for_each", "for_each has more than 65536 elements.")
		return nil, false
	}
	for it := v.ElementIterator(); it.Next(); {
		key, val := it.Element()
		key, _ = key.Unmark()
		if !key.IsKnown() || key.IsNull() {
			l.say(a.Expr, s, "Invalid for_each", "A key is null or not known yet.")
			return nil, false
		}
		each := cty.ObjectVal(map[string]cty.Value{"key": key, "value": val})
		out = append(out, instance{name: key.AsString(), s: s.with("each", each), each: true, key: key.AsString()})
	}
	return out, true
}

func (l *loader) enabled(k *hclsyntax.Block, s scope) bool {
	a := k.Body.Attributes["enabled"]
	if a == nil {
		return true
	}
	marked, ok := l.evalMarked(a.Expr, s)
	if !ok {
		return true
	}
	v, marks := marked.UnmarkDeep()
	if _, hidden := marks[secret{}]; hidden {
		l.reportExposed(a.Expr, s, a.Name)
		return true
	}
	if !v.IsKnown() {
		l.notYet(a.Expr, s, marks)
		return true
	}
	if v.IsNull() {
		return true
	}
	b, err := convert.Convert(v, cty.Bool)
	if err != nil {
		l.say(a.Expr, s, "Wrong type", "enabled must be true or false; this is "+article(v.Type().FriendlyName())+".")
		return true
	}
	return b.True()
}
