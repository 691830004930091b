package config

import (
	"math/big"
	"regexp"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

var nameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// body reads one block's attributes in a scope.
type body struct {
	l *loader
	b *hclsyntax.Body
	s scope
}

// known checks a block's names: attributes and blocks it may have, and those of later builds.
func (l *loader) known(b *hclsyntax.Body, names, later string) {
	all := strings.Fields(names)
	check := func(name string, r hcl.Range) {
		for _, n := range all {
			if n == name {
				return
			}
		}
		for _, n := range strings.Fields(later) {
			if n == name {
				l.errorf(r, "Not in this build yet", "%q is part of the language, but this build does not carry it out. Remove it for now.", name)
				return
			}
		}
		l.errorf(r, "Unknown name", "%q is not known here.%s", name, suggest(name, append(strings.Fields(later), all...)))
	}
	for _, a := range b.Attributes {
		check(a.Name, a.NameRange)
	}
	for _, k := range b.Blocks {
		check(k.Type, k.TypeRange)
	}
}

func (b body) value(name string, t cty.Type) (cty.Value, hcl.Range, bool) {
	a := b.b.Attributes[name]
	if a == nil {
		return cty.NilVal, hcl.Range{}, false
	}
	r := a.Expr.Range()
	v, ok := b.l.eval(a.Expr, b.s)
	if !ok {
		return v, r, false
	}
	if v.IsNull() {
		return v, r, false
	}
	if !v.IsWhollyKnown() {
		b.l.errorf(r, "Not known yet", "%s depends on an address that is not settled at this stage. Use var or local values.", name)
		return v, r, false
	}
	c, err := convert.Convert(v, t)
	if err != nil {
		b.l.errorf(r, "Wrong type", "%s: %s.", name, err)
		return v, r, false
	}
	bad := false
	_ = cty.Walk(c, func(_ cty.Path, e cty.Value) (bool, error) {
		if !e.IsNull() && e.Type() == cty.String && strings.ContainsAny(e.AsString(), "\n\r\x00") {
			bad = true
		}
		if e.IsNull() {
			bad = true
		}
		return true, nil
	})
	if bad {
		b.l.errorf(r, "Value not allowed", "%s must not contain line breaks, NUL or null values.", name)
		return c, r, false
	}
	return c, r, true
}

func (b body) str(name string) string {
	if v, _, ok := b.value(name, cty.String); ok {
		return v.AsString()
	}
	return ""
}

func (b body) boolean(name string, def bool) bool {
	if v, _, ok := b.value(name, cty.Bool); ok {
		return v.True()
	}
	return def
}

func (b body) boolPtr(name string) *bool {
	if v, _, ok := b.value(name, cty.Bool); ok {
		t := v.True()
		return &t
	}
	return nil
}

func (b body) integer(name string, def, low, high int) int {
	v, r, ok := b.value(name, cty.Number)
	if !ok {
		return def
	}
	n, acc := v.AsBigFloat().Int64()
	if acc != big.Exact || n < int64(low) || n > int64(high) {
		b.l.errorf(r, "Number out of range", "%s must be a whole number from %d to %d.", name, low, high)
		return def
	}
	return int(n)
}

func (b body) float(name string) *float64 {
	v, r, ok := b.value(name, cty.Number)
	if !ok {
		return nil
	}
	f, _ := v.AsBigFloat().Float64()
	if f < 0 || f > 1e9 {
		b.l.errorf(r, "Number out of range", "%s must not be negative or above 1e9.", name)
		return nil
	}
	return &f
}

func (b body) duration(name string) *time.Duration {
	v, r, ok := b.value(name, cty.String)
	if !ok {
		return nil
	}
	d, err := time.ParseDuration(v.AsString())
	if err != nil || d <= 0 {
		b.l.errorf(r, "Not a duration", "%s must be a time such as \"3s\" or \"200us\".", name)
		return nil
	}
	return &d
}

func (b body) strMap(name string) map[string]string {
	v, _, ok := b.value(name, cty.Map(cty.String))
	if !ok {
		return nil
	}
	m := map[string]string{}
	for k, e := range v.AsValueMap() {
		m[k] = e.AsString()
	}
	return m
}

func (b body) oneOf(name, def string, allowed ...string) string {
	v, r, ok := b.value(name, cty.String)
	if !ok {
		return def
	}
	for _, a := range allowed {
		if v.AsString() == a {
			return a
		}
	}
	b.l.errorf(r, "Unknown value", "%s must be one of %s.", name, strings.Join(allowed, ", "))
	return def
}

func (b body) rng(name string) hcl.Range {
	if a := b.b.Attributes[name]; a != nil {
		return a.Expr.Range()
	}
	return b.b.MissingItemRange()
}

// instance is one expansion of a block.
type instance struct {
	name string
	s    scope
	on   bool
	each bool
}

func (l *loader) expand(k *hclsyntax.Block, s scope) []instance {
	if len(k.Labels) != 1 {
		l.errorf(k.DefRange(), "One name needed", "Write %s \"name\" { … }.", k.Type)
		return nil
	}
	out := []instance{{name: k.Labels[0], s: s}}
	if a := k.Body.Attributes["for_each"]; a != nil {
		v, ok := l.eval(a.Expr, s)
		if !ok {
			return nil
		}
		t := v.Type()
		if v.IsNull() || !v.IsKnown() || !t.IsMapType() && !t.IsObjectType() && (!t.IsSetType() || t.ElementType() != cty.String) || v.LengthInt() > 4096 {
			l.errorf(a.Expr.Range(), "Cannot repeat over this", "for_each takes a map, or a set of strings such as toset([\"a\"]), of at most 4096 elements known at this stage.")
			return nil
		}
		out = nil
		for it := v.ElementIterator(); it.Next(); {
			key, val := it.Element()
			if !key.IsKnown() || key.IsNull() {
				l.errorf(a.Expr.Range(), "Cannot repeat over this", "A key is null or not known yet.")
				return nil
			}
			each := cty.ObjectVal(map[string]cty.Value{"key": key, "value": val})
			out = append(out, instance{name: key.AsString(), s: s.with("each", each), each: true})
		}
	}
	for i := range out {
		out[i].on = body{l, k.Body, out[i].s}.boolean("enabled", true)
		if !nameShape.MatchString(out[i].name) {
			l.errorf(k.DefRange(), "Name not allowed", "%q must start with a letter or digit and have letters, digits, '.', '_' and '-' only.", out[i].name)
		}
	}
	return out
}
