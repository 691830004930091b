package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/nccl/env"
)

// stepProblems are the summaries of HCL's problems with a step of a reference.
var stepProblems = []string{"Unsupported attribute", "Invalid index", "Missing map element", "Attempt to get attribute from null value",
	"Attempt to index null value"}

// explain adds the available names, or the reason, to HCL's own messages.
func explain(d *hcl.Diagnostic, ctx *hcl.EvalContext) {
	defer brief(d)
	if slices.Contains(stepProblems, d.Summary) {
		if d.EvalContext != nil {
			ctx = d.EvalContext
		}
		explainStep(d, ctx)
	}
	switch d.Summary {
	case "Call to unknown function":
		if call, is := d.Extra.(hclsyntax.FunctionCallUnknownDiagExtra); is && call.CalledFunctionNamespace() == "" && d.EvalContext != nil && d.Subject != nil {
			near := env.Nearest(call.CalledFunctionName(), slices.Collect(maps.Keys(d.EvalContext.Functions)))
			d.Detail = fmt.Sprintf("fabricform has no function %q.%s", call.CalledFunctionName(), didYouMean(near))
			if d.Extra = nil; near != "" {
				d.Extra = Suggestion{*d.Subject, near}
			}
		}
		for _, volatile := range []string{"timestamp", "plantimestamp", "uuid", "uuidv5", "bcrypt", "timeadd"} {
			if strings.Contains(d.Detail, `"`+volatile+`"`) {
				d.Detail = fmt.Sprintf("There is no %s function: a plan must be repeatable, so no function depends on time or randomness.",
					volatile)
				d.Extra = nil
			}
		}
	case "Invalid operand":
		if strings.Contains(d.Detail, "number is required") {
			d.Detail += " To join texts, write \"${…}${…}\"."
		}
	case "Iteration over non-iterable value":
		d.Detail += " For the numbers from 0, write range(3)."
	}
}

// brief omits the values behind a problem if one of them would fill the screen, or if all are objects, of which only the number of attributes
// would be shown.
func brief(d *hcl.Diagnostic) {
	if d.Expression == nil || d.EvalContext == nil {
		return
	}
	says := false
	for _, t := range d.Expression.Variables() {
		v, diags := t.TraverseAbs(d.EvalContext)
		v, _ = v.Unmark()
		says = says || !diags.HasErrors() && !v.Type().IsObjectType()
		if !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String && len(v.AsString()) > 200 {
			d.EvalContext = nil
			return
		}
	}
	if !says {
		d.EvalContext = nil
	}
}

// explainStep says at which step a reference fails, what is there, and what exists instead.
func explainStep(d *hcl.Diagnostic, ctx *hcl.EvalContext) {
	v, text, steps := stepsOf(d.Expression, ctx)
	host := ""                       // whose NICs v has, if it has those of a host
	others := map[string]cty.Value{} // the host's NICs, by kind
	if slices.Contains(nicKinds, text) && bare(v).Type().IsObjectType() {
		for _, kind := range nicKinds {
			if all, known := ctx.Variables[kind]; known {
				others[kind] = bare(all)
				host = cmp.Or(host, hostOf(all))
			}
		}
	}
	for _, step := range steps {
		next, diags := step.TraversalStep(v)
		if !diags.HasErrors() {
			text += written(hcl.Traversal{step})
			host = ""
			if isHost(v) && slices.Contains(nicKinds, stepName(step)) {
				host, _ = plainString(bare(v).GetAttr("name"))
				for _, kind := range nicKinds {
					others[kind] = bare(bare(v).GetAttr(kind))
				}
			}
			v = next
			continue
		}
		said, near := "", ""
		if host != "" {
			said, near = lacksNIC(others, text[strings.LastIndex(text, ".")+1:], host, stepName(step), severalHosts(d.Expression))
		} else {
			said, near = lacks(bare(v), text, step)
		}
		if said != "" {
			d.Detail, d.Extra = said, nil
			if near != "" {
				d.Extra = Suggestion{step.SourceRange(), inStep(step, near)}
			}
		}
		return
	}
}

// stepsOf splits an expression into a value, its text, and steps into it; there are none for other expressions.
func stepsOf(e hcl.Expression, ctx *hcl.EvalContext) (v cty.Value, text string, steps hcl.Traversal) {
	if e == nil {
		return cty.DynamicVal, "", nil
	}
	var diags hcl.Diagnostics
	switch e := hcl.UnwrapExpression(e).(type) {
	case *hclsyntax.ScopeTraversalExpr:
		v, diags = e.Traversal[:1].TraverseAbs(ctx)
		text, steps = e.Traversal.RootName(), e.Traversal[1:]
	case *hclsyntax.RelativeTraversalExpr:
		v, diags = e.Source.Value(ctx)
		text, steps = "This value", e.Traversal
	case *hclsyntax.IndexExpr:
		v, diags = e.Collection.Value(ctx)
		key, more := e.Key.Value(ctx)
		diags = append(diags, more...)
		text, steps = "This value", hcl.Traversal{hcl.TraverseIndex{Key: bare(key), SrcRange: e.BracketRange}}
		if t, is := hcl.UnwrapExpression(e.Collection).(*hclsyntax.ScopeTraversalExpr); is {
			v, diags = t.Traversal[:1].TraverseAbs(ctx)
			text, steps = t.Traversal.RootName(), append(slices.Clone(t.Traversal[1:]), steps...)
		}
	}
	if diags.HasErrors() {
		return cty.DynamicVal, "", nil
	}
	return v, text, steps
}

// lacks says that a value does not have what a step asks for, and returns the name that it suggests, if any.
func lacks(v cty.Value, text string, step hcl.Traverser) (said, near string) {
	name := stepName(step)
	switch t := v.Type(); {
	case v.IsNull() && (text == "self.key" || text == "self.value"):
		return text + " is null, because this host block has no for_each. Add for_each, or write the value here.", ""
	case v.IsNull():
		return fmt.Sprintf("%s is null, so it has no %q.", text, name), ""
	case t.IsPrimitiveType():
		shown, _ := valueText(v)
		return fmt.Sprintf("%s is %s and not an object, so it has no %q. Write it without %s.", text, shown, name, written(hcl.Traversal{step})), ""
	case isNIC(v):
		cure, near := nearestOrList(name, propertyNames("nic"))
		if name == "address" {
			cure, near = " Write ip for the address, or addresses for all of them with their prefix lengths.", ""
		}
		return fmt.Sprintf("A NIC has no %q.%s", name, cure), near
	case isHost(v):
		cure, near := nearestOrList(name, propertyNames("host"))
		return fmt.Sprintf("A host has no %q.%s", name, cure), near
	case instances(v, isHost) && text != "host" && !inText(step):
		return fmt.Sprintf("%s is a host block with for_each, so each instance has a key: %s. Write host.NAME[\"key\"] for one, or values(host.NAME) for all.",
			text, listed(attributeNames(v))), ""
	case instances(v, isNIC) && !inText(step):
		return fmt.Sprintf("%s is a nic block with for_each, so each instance has a key: %s. Write …[\"key\"] for one.",
			text, listed(attributeNames(v))), ""
	case namedKind(v) != "" && inText(step):
		return fmt.Sprintf("%s is one %s block and has no instances. Write it without %s.", text, namedKind(v), written(hcl.Traversal{step})), ""
	case namedKind(v) != "":
		cure, near := nearestOrList(name, propertyNames(namedKind(v)))
		return fmt.Sprintf("A %s block has no %q.%s", namedKind(v), name, cure), near
	case t.IsObjectType():
		cure, near := nearestOrList(name, attributeNames(v))
		return fmt.Sprintf("%s has no %q.%s", text, name, cure), near
	case t.IsMapType() && v.IsKnown():
		cure, near := nearestOrList(name, slices.Collect(maps.Keys(v.AsValueMap())))
		return fmt.Sprintf("%s has no %q.%s", text, name, cure), near
	}
	return "", ""
}

// nicTitles are the kinds of NICs in sentences.
var nicTitles = map[string]string{"nic": "NIC", "bond": "bond", "vlan": "VLAN"}

// severalHosts reports whether a reference is that of a for expression or a splat, which takes one host after the other.
func severalHosts(e hcl.Expression) bool {
	t, is := hcl.UnwrapExpression(e).(*hclsyntax.ScopeTraversalExpr)
	return !is || !slices.Contains(append([]string{"host", "self"}, nicKinds...), t.Traversal.RootName())
}

// lacksNIC says that a host has no NIC, bond or VLAN of a name. Where an expression is about several hosts, the others may have it.
func lacksNIC(all map[string]cty.Value, kind, host, name string, several bool) (said, near string) {
	said = fmt.Sprintf("Host %q has no %s %q.", host, nicTitles[kind], name)
	nics := all[kind]
	for _, block := range attributeNames(nics) {
		if v := bare(nics.GetAttr(block)); instances(v, isNIC) && v.Type().HasAttribute(name) {
			return said + fmt.Sprintf(" Its %s block %q has for_each: write %s.%s[%q].", kind, block, kind, block, name), ""
		}
	}
	for _, other := range nicKinds {
		if v := all[other]; other != kind && v.Type().IsObjectType() && v.Type().HasAttribute(name) {
			return said + fmt.Sprintf(" It has a %s of that name: write %s.%s.", nicTitles[other], other, name), ""
		}
	}
	cure, near := nearestOrList(name, attributeNames(nics))
	if near != "" && !sameButDigits(near, name) {
		return said + cure, near
	}
	said += listOf(attributeNames(nics)) + " Add the " + nicTitles[kind] + " to this host"
	if several {
		said += ", or leave such hosts out with if can(…) at the end of the for expression"
	}
	return said + ".", ""
}

// sameButDigits reports whether two names are those of two NICs, such as rail0 and rail1, rather than one name and a typing error.
func sameButDigits(a, b string) bool {
	return strings.TrimRight(a, "0123456789") == strings.TrimRight(b, "0123456789")
}

// hostOf returns the name of the host whose NICs a value has.
func hostOf(nics cty.Value) (host string) {
	_ = cty.Walk(nics, func(_ cty.Path, v cty.Value) (bool, error) {
		if isNIC(v) {
			host, _ = plainString(bare(v).GetAttr("host"))
		}
		return host == "", nil
	})
	return host
}

// inText reports whether a step is a text in brackets.
func inText(step hcl.Traverser) bool {
	s, is := step.(hcl.TraverseIndex)
	return is && s.Key.Type() == cty.String
}

func bare(v cty.Value) cty.Value { v, _ = v.Unmark(); return v }

func stepName(step hcl.Traverser) string {
	switch step := step.(type) {
	case hcl.TraverseAttr:
		return step.Name
	case hcl.TraverseIndex:
		if s, ok := text(step.Key); ok {
			return s
		}
	}
	return ""
}

// isHost and isNIC report whether a value is what expressions see of a host or a NIC.
func isHost(v cty.Value) bool { return like(v, "host") }
func isNIC(v cty.Value) bool  { return like(v, "nic") }

func like(v cty.Value, of string) bool {
	t := bare(v).Type()
	return t.IsObjectType() && !slices.ContainsFunc(propertyNames(of), func(p string) bool { return !t.HasAttribute(p) })
}

// instances reports whether a value has the instances of a block with for_each.
func instances(v cty.Value, of func(cty.Value) bool) bool {
	v = bare(v)
	return v.Type().IsObjectType() && v.LengthInt() > 0 &&
		!slices.ContainsFunc(attributeNames(v), func(n string) bool { return !of(v.GetAttr(n)) })
}

// described names a value in a message about its type.
func described(v cty.Value) string {
	name := func(attr string) string { s, _ := plainString(bare(v).GetAttr(attr)); return s }
	switch v = bare(v); {
	case !v.IsKnown() || v.IsNull():
		return article(typeOf(v))
	case isHost(v):
		return "host " + name("name")
	case isNIC(v):
		return "NIC " + name("name") + " of host " + name("host")
	case instances(v, isHost):
		return "a map of hosts"
	case instances(v, isNIC):
		return "a map of NICs"
	}
	s, _ := valueText(v)
	return s
}

// valueText describes a value of a primitive type.
func valueText(v cty.Value) (string, bool) {
	s, ok := text(v)
	switch {
	case !ok || !v.Type().IsPrimitiveType() || len(s) > 80:
		return article(typeOf(v)), false
	case v.Type() == cty.String:
		return fmt.Sprintf("the string %q", s), true
	case v.Type() == cty.Number:
		return "the number " + s, true
	}
	return s, true
}

func written(t hcl.Traversal) string {
	var b strings.Builder
	for _, step := range t {
		switch s := step.(type) {
		case hcl.TraverseRoot:
			b.WriteString(s.Name)
		case hcl.TraverseAttr:
			b.WriteString("." + s.Name)
		case hcl.TraverseIndex:
			k, ok := text(s.Key)
			switch {
			case ok && s.Key.Type() == cty.String:
				fmt.Fprintf(&b, "[%q]", k)
			case ok:
				fmt.Fprintf(&b, "[%s]", k)
			}
		}
	}
	return b.String()
}

func attributeNames(v cty.Value) []string {
	v, _ = v.Unmark()
	return slices.Sorted(maps.Keys(v.Type().AttributeTypes()))
}
