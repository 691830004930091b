package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/nccl/env"
)

// explain adds the available names, or the reason, to HCL's own messages.
func explain(d *hcl.Diagnostic, ctx *hcl.EvalContext) *hcl.Diagnostic {
	defer brief(d)
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
	case "Unsupported attribute", "Invalid index", "Missing map element":
		if d.Expression == nil {
			return d
		}
		inner := d.EvalContext
		if inner == nil {
			inner = ctx
		}
		for _, t := range d.Expression.Variables() {
			if more, suggestion := missing(t, inner); more != "" {
				d.Detail = more
				if suggestion.Text != "" {
					d.Extra = suggestion
				}
				return d
			}
		}
	}
	return d
}

// brief omits the values behind a problem if one of them would fill the screen.
func brief(d *hcl.Diagnostic) {
	if d.Expression == nil || d.EvalContext == nil {
		return
	}
	for _, t := range d.Expression.Variables() {
		v, diags := t.TraverseAbs(d.EvalContext)
		if v, _ = v.Unmark(); !diags.HasErrors() && v.IsKnown() && !v.IsNull() && v.Type() == cty.String && len(v.AsString()) > 200 {
			d.EvalContext = nil
			return
		}
	}
}

// missing finds the first step of a reference that does not exist, and suggests or lists what exists there.
func missing(t hcl.Traversal, ctx *hcl.EvalContext) (string, Suggestion) {
	for i := 1; i < len(t); i++ {
		if _, diags := t[:i+1].TraverseAbs(ctx); !diags.HasErrors() {
			continue
		}
		before, diags := t[:i].TraverseAbs(ctx)
		if diags.HasErrors() || before.IsNull() {
			return "", Suggestion{}
		}
		before, _ = before.Unmark()
		var names []string
		switch {
		case before.Type().IsObjectType():
			names = attributeNames(before)
		case before.Type().IsMapType() && before.IsKnown():
			names = slices.Collect(maps.Keys(before.AsValueMap()))
		default:
			return "", Suggestion{}
		}
		name := ""
		switch step := t[i].(type) {
		case hcl.TraverseAttr:
			name = step.Name
		case hcl.TraverseIndex:
			if s, ok := text(step.Key); ok {
				name = s
			}
		}
		cure, near := nearestOrList(name, names)
		return fmt.Sprintf("%s has no %q.%s", written(t[:i]), name, cure), Suggestion{t[i].SourceRange(), inStep(t[i], near)}
	}
	return "", Suggestion{}
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
			if k, ok := text(s.Key); ok {
				fmt.Fprintf(&b, "[%q]", k)
			}
		}
	}
	return b.String()
}

func attributeNames(v cty.Value) []string {
	v, _ = v.Unmark()
	return slices.Sorted(maps.Keys(v.Type().AttributeTypes()))
}
