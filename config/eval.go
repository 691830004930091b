package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"
)

// Marks travel with values through expressions. They say why a value cannot be used or shown.
type (
	// failed marks a value whose error was already reported, so that dependents report nothing more.
	failed struct{}
	// early marks a value that only a later stratum computes.
	early struct{ what string }
	// secret marks a value that comes from a sensitive variable.
	secret struct{}
)

// scope holds the names that an expression may use besides variables, locals and hosts.
type scope map[string]cty.Value

func (s scope) with(name string, v cty.Value) scope {
	out := make(scope, len(s)+1)
	maps.Copy(out, s)
	out[name] = v
	return out
}

// eval evaluates an expression to a wholly known value without marks. ok is false if a problem was
// reported.
func (l *loader) eval(e hcl.Expression, s scope) (v cty.Value, ok bool) {
	marked, ok := l.evalMarked(e, s)
	if !ok {
		return cty.DynamicVal, false
	}
	v, marks := marked.UnmarkDeep()
	if _, hide := marks[secret{}]; hide {
		l.hide(v)
	}
	if v.IsWhollyKnown() {
		return v, true
	}
	if _, bad := marks[failed{}]; !bad {
		l.notYet(e, s, marks)
	}
	return cty.DynamicVal, false
}

// hide remembers the strings of a sensitive value, so that no message shows them.
func (l *loader) hide(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, e cty.Value) (bool, error) {
		if e.Type() == cty.String && e.IsKnown() && !e.IsNull() && e.AsString() != "" {
			l.hidden[e.AsString()] = e.AsString()
		}
		return true, nil
	})
}

// evalMarked evaluates an expression and keeps marks and unknown parts. ok is false if a problem was
// reported, now or earlier.
func (l *loader) evalMarked(e hcl.Expression, s scope) (cty.Value, bool) {
	if !l.static(e, s) {
		return cty.DynamicVal, false
	}
	ctx := l.context(e, s)
	v, diags := l.meter.value(e, ctx)
	v = l.carry(v, e, ctx)
	_, marks := v.UnmarkDeep()
	if _, bad := marks[failed{}]; bad {
		return v, false
	}
	for i, d := range diags {
		if i > 0 && d.Summary == diags[i-1].Summary && d.Context != nil && diags[i-1].Context != nil && *d.Context == *diags[i-1].Context {
			continue // the other operand
		}
		if slices.Contains(stepProblems, d.Summary) && len(l.lost)+len(l.unnamed) > 0 {
			continue // what is missing may be in a block whose name is mistaken
		}
		explain(d, ctx)
		if secretive(e, ctx) {
			d.Detail, d.EvalContext = "The expression uses a sensitive value, so the reason is not shown. Try it with another value.", nil
			d.Extra = nil
		}
		l.diags = append(l.diags, d)
	}
	return v, !diags.HasErrors()
}

// secretive reports whether the expression refers to a sensitive value, or to a part of one that does not exist.
func secretive(e hcl.Expression, ctx *hcl.EvalContext) bool {
	for _, t := range e.Variables() {
		for i := range t {
			v, diags := t[:i+1].TraverseAbs(ctx)
			if diags.HasErrors() {
				break
			}
			_, marks := v.Unmark()
			if i == len(t)-1 {
				_, marks = v.UnmarkDeep()
			}
			if _, hidden := marks[secret{}]; hidden {
				return true
			}
		}
	}
	return false
}

// carry gives an unknown result the marks of the values that the expression refers to. HCL drops
// marks where it cannot look into a value, as in a for expression over an unknown collection.
func (l *loader) carry(v cty.Value, e hcl.Expression, ctx *hcl.EvalContext) cty.Value {
	if bare, marks := v.UnmarkDeep(); len(marks) > 0 || bare.IsWhollyKnown() {
		return v
	}
	for _, t := range e.Variables() {
		ref, diags := t.TraverseAbs(ctx)
		if diags.HasErrors() {
			continue
		}
		if _, marks := ref.UnmarkDeep(); len(marks) > 0 {
			v = v.WithMarks(marks)
		}
	}
	return v
}

func (l *loader) context(e hcl.Expression, s scope) *hcl.EvalContext {
	ctx := &hcl.EvalContext{Functions: l.functions, Variables: make(map[string]cty.Value, len(s)+3)}
	maps.Copy(ctx.Variables, s)
	locals := map[string]cty.Value{}
	for _, t := range e.Variables() {
		switch t.RootName() {
		case "var":
			ctx.Variables["var"] = l.vars
		case "host":
			ctx.Variables["host"] = l.hostVal
		case "qos":
			ctx.Variables["qos"] = l.qosVal
		case "workload":
			ctx.Variables["workload"] = l.workloadVal
		case "local":
			if name, ok := second(t); ok {
				locals[name] = l.local(name)
			}
		}
	}
	ctx.Variables["local"] = cty.ObjectVal(locals)
	return ctx
}

// second returns the name after the root of a reference: rail0 in local.rail0.
func second(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// notYet reports an expression that uses values of a later stratum, and says what to use instead.
func (l *loader) notYet(e hcl.Expression, s scope, marks cty.ValueMarks) {
	what := map[string]bool{}
	for m := range marks {
		if x, is := m.(early); is {
			what[x.what] = true
		}
	}
	var parts []string
	for w := range what {
		parts = append(parts, w)
	}
	slices.Sort(parts)
	if parts == nil {
		parts = []string{"values that are computed later"}
	}
	if own := ofOwnHost(e, s); own != "" {
		l.say(e, s, "NIC of a host", fmt.Sprintf("The NICs in this block are of its own host, and are named without it: write %s.", own))
		return
	}
	l.say(e, s, "Not known yet", fmt.Sprintf("This uses %s, which are computed later. Use var, local, each or self here, and "+
		"put a value that both places need into a local.", strings.Join(parts, " and ")))
}

// ofOwnHost returns nic.NAME if an expression has host.HOST.nic.NAME where the NICs of the enclosing host are known; otherwise "".
func ofOwnHost(e hcl.Expression, s scope) string {
	for _, t := range e.Variables() {
		if n := len(t); n >= 4 && t.RootName() == "host" {
			kind := stepName(t[n-2])
			if _, known := s[kind]; known && slices.Contains(nicKinds, kind) {
				return kind + "." + stepName(t[n-1])
			}
		}
	}
	return ""
}

// local evaluates a local at most once per stratum. Its problems are reported at its declaration.
func (l *loader) local(name string) cty.Value {
	if v, done := l.localVal[name]; done {
		return v
	}
	for i, b := range l.busy {
		if b == name {
			circle := append(append([]string{}, l.busy[i:]...), name)
			l.errorf(l.locals[name].NameRange, "Circular reference", "local.%s depends on itself: local.%s. Break the cycle.",
				name, strings.Join(circle, " → local."))
			for _, in := range l.busy[i:] {
				l.localVal[in] = cty.DynamicVal.Mark(failed{})
			}
			return cty.DynamicVal.Mark(failed{})
		}
	}
	l.busy = append(l.busy, name)
	v, ok := l.evalMarked(l.locals[name].Expr, scope{})
	l.busy = l.busy[:len(l.busy)-1]
	if _, circle := l.localVal[name]; circle || !ok {
		v = cty.DynamicVal.Mark(failed{})
	}
	l.localVal[name] = v
	return v
}

// nextStratum forgets the locals whose values were not wholly known, so that they are evaluated again.
func (l *loader) nextStratum(hosts cty.Value) {
	l.hostVal = hosts
	for n, v := range l.localVal {
		bare, marks := v.UnmarkDeep()
		if _, bad := marks[failed{}]; !bad && !bare.IsWhollyKnown() {
			delete(l.localVal, n)
		}
	}
}
