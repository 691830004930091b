package config

import (
	"fmt"
	"sort"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Marks travel with values through expressions and say why one cannot be used, or shown.
type (
	// failed marks what has an error of its own: what comes of it is not reported again.
	failed struct{}
	// early marks what a later stratum settles.
	early struct{ what string }
	// secret marks what comes from a sensitive variable.
	secret struct{}
)

// scope is what an expression may see beside variables, locals and hosts.
type scope map[string]cty.Value

func (s scope) with(name string, v cty.Value) scope {
	out := make(scope, len(s)+1)
	for k, old := range s {
		out[k] = old
	}
	out[name] = v
	return out
}

// eval evaluates an expression to a value without marks that is wholly known; ok is false after a
// reported problem.
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

// hide remembers the texts of a sensitive value, which no message may show.
func (l *loader) hide(v cty.Value) {
	_ = cty.Walk(v, func(_ cty.Path, e cty.Value) (bool, error) {
		if e.Type() == cty.String && e.IsKnown() && !e.IsNull() && e.AsString() != "" {
			l.hidden[e.AsString()] = true
		}
		return true, nil
	})
}

// evalMarked evaluates with marks, and with parts that are not known yet. ok is false after a
// problem that was reported, here or before.
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
	for _, d := range diags {
		l.diags = append(l.diags, explain(d, ctx))
	}
	return v, !diags.HasErrors()
}

// carry gives an unknown result the marks of what the expression refers to: HCL drops them where
// it cannot look into a value, as in a for over an unknown collection.
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
	for k, v := range s {
		ctx.Variables[k] = v
	}
	locals := map[string]cty.Value{}
	for _, t := range e.Variables() {
		switch t.RootName() {
		case "var":
			ctx.Variables["var"] = l.vars
		case "host":
			ctx.Variables["host"] = l.hostVal
		case "local":
			if name, ok := second(t); ok {
				locals[name] = l.local(name)
			}
		}
	}
	ctx.Variables["local"] = cty.ObjectVal(locals)
	return ctx
}

// second is the name after the root of a reference.
func second(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	a, ok := t[1].(hcl.TraverseAttr)
	return a.Name, ok
}

// notYet says that an expression reaches for what a later stratum settles, and names the way.
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
	sort.Strings(parts)
	if parts == nil {
		parts = []string{"values that are settled later"}
	}
	l.say(e, s, "Not known yet", fmt.Sprintf("This uses %s, which are settled after this. Use what comes before: var, local, each and self; "+
		"put what both places need into a local.", strings.Join(parts, " and ")))
}

// local evaluates a local once a stratum; what is wrong with it is reported where it is declared.
func (l *loader) local(name string) cty.Value {
	if v, done := l.localVal[name]; done {
		return v
	}
	for i, b := range l.busy {
		if b == name {
			circle := append(append([]string{}, l.busy[i:]...), name)
			l.errorf(l.locals[name].NameRange, "Locals in a circle", "local.%s needs its own value: local.%s. Break the circle.", name, strings.Join(circle, " → local."))
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

// nextStratum forgets what locals did not know yet.
func (l *loader) nextStratum(hosts cty.Value) {
	l.hostVal = hosts
	for n, v := range l.localVal {
		bare, marks := v.UnmarkDeep()
		if _, bad := marks[failed{}]; !bad && !bare.IsWhollyKnown() {
			delete(l.localVal, n)
		}
	}
}

// static checks once what an expression refers to: names that can never exist at this place, and
// splats that would not do what they look like.
func (l *loader) static(e hcl.Expression, s scope) bool {
	if good, done := l.statics[e]; done {
		return good
	}
	before := len(l.diags)
	for _, t := range e.Variables() {
		l.reference(t, s)
	}
	l.splats(e)
	good := len(l.diags) == before
	l.statics[e] = good
	return good
}

var roots = map[string]string{
	"nic":  "nic names the host's own NICs, in its route, policy_route, rxe and nccl blocks only; elsewhere write host.NAME.nic.NAME",
	"each": "the block has no for_each",
	"self": "self is the host instance, inside host blocks only",
}

func (l *loader) reference(t hcl.Traversal, s scope) {
	root, r := t.RootName(), t.SourceRange()
	name, named := second(t)
	switch root {
	case "var":
		l.declared(root, "variable", name, named, r, attributeNames(l.vars))
	case "local":
		var names []string
		for n := range l.locals {
			names = append(names, n)
		}
		l.declared(root, "local", name, named, r, names)
	case "host":
		var names []string
		for n := range l.hostBlocks {
			names = append(names, n)
		}
		if l.declared(root, "host", name, named, r, names) && named {
			l.hostReference(t, l.hostBlocks[name])
		}
	default:
		if _, known := s[root]; known {
			return
		}
		if why := roots[root]; why != "" {
			l.errorf(r, "Not known here", "%q cannot be used at this place: %s.", root, why)
			return
		}
		names := []string{"var", "local", "host"}
		for n := range s {
			names = append(names, n)
		}
		l.errorf(r, "Unknown reference", "There is no %q. References begin with var, local, host, nic, each or self.%s", root, suggest(root, names))
	}
}

// declared checks the name after var, local or host.
func (l *loader) declared(root, what, name string, named bool, r hcl.Range, names []string) bool {
	if !named {
		if root == "host" {
			return true // for expressions over all of them
		}
		return true
	}
	for _, n := range names {
		if n == name {
			return true
		}
	}
	l.errorf(r, "Unknown "+what, "No %s %q is declared.%s", what, name, suggestOrList(name, names))
	return false
}

// hostReference checks host.NAME… against the blocks, which are known before any value is.
func (l *loader) hostReference(t hcl.Traversal, h *hostBlock) {
	rest := t[2:]
	if len(rest) == 0 {
		return
	}
	if step, is := rest[0].(hcl.TraverseAttr); is && h.keyed && h.has(step.Name) {
		l.errorf(t.SourceRange(), "Host has several instances", "host %q has for_each: name one as host.%s[\"key\"].%s, or all with values(host.%s)[*].%s.",
			h.name, h.name, step.Name, h.name, step.Name)
		return
	}
	if h.keyed {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return
	}
	step, is := rest[0].(hcl.TraverseAttr)
	if !is {
		return
	}
	if !h.has(step.Name) {
		l.errorf(t.SourceRange(), "Unknown attribute", "A host has no %q; it has %s.%s", step.Name, strings.Join(hostAttributes, ", "), suggest(step.Name, hostAttributes))
		return
	}
	if step.Name != "nic" || len(rest) < 2 {
		return
	}
	l.nicReference(t, rest[1], h)
}

func (l *loader) nicReference(t hcl.Traversal, step hcl.Traverser, h *hostBlock) {
	nic, is := step.(hcl.TraverseAttr)
	if !is || h.nicBlocks[nic.Name] {
		return
	}
	var names []string
	for n := range h.nicBlocks {
		names = append(names, n)
	}
	l.errorf(t.SourceRange(), "Unknown NIC", "Host %q has no nic block %q.%s", h.name, nic.Name, suggestOrList(nic.Name, names))
}

// splats finds host.h[*] over a host with for_each: HCL makes a list of one map of it, silently.
func (l *loader) splats(e hcl.Expression) {
	node, is := e.(hclsyntax.Node)
	if !is {
		return
	}
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		if m, is := n.(metered); is {
			n = m.Expression
		}
		sp, is := n.(*hclsyntax.SplatExpr)
		if !is {
			return nil
		}
		src, is := sp.Source.(*hclsyntax.ScopeTraversalExpr)
		if !is || len(src.Traversal) != 2 || src.Traversal.RootName() != "host" {
			return nil
		}
		if name, ok := second(src.Traversal); ok && l.hostBlocks[name] != nil && l.hostBlocks[name].keyed {
			l.errorf(sp.Range(), "Splat over a host with for_each", "host.%s is a map of instances, which [*] does not walk. Write values(host.%s)[*].", name, name)
		}
		return nil
	})
}

// explain adds to HCL's own messages what there is instead.
func explain(d *hcl.Diagnostic, ctx *hcl.EvalContext) *hcl.Diagnostic {
	defer brief(d)
	switch d.Summary {
	case "Call to unknown function":
		for _, chance := range []string{"timestamp", "plantimestamp", "uuid", "uuidv5", "bcrypt", "timeadd"} {
			if strings.Contains(d.Detail, `"`+chance+`"`) {
				d.Detail = fmt.Sprintf("There is no %s: nothing of a plan depends on time or chance, so that a plan can be repeated.", chance)
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
			if more := missing(t, inner); more != "" {
				d.Detail = more
				return d
			}
		}
	}
	return d
}

// brief leaves out the values that led to a problem where one of them would fill the screen.
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

// missing walks a reference to the step that leads nowhere, and says what there is.
func missing(t hcl.Traversal, ctx *hcl.EvalContext) string {
	for i := 1; i < len(t); i++ {
		if _, diags := t[:i+1].TraverseAbs(ctx); !diags.HasErrors() {
			continue
		}
		before, diags := t[:i].TraverseAbs(ctx)
		if diags.HasErrors() || before.IsNull() {
			return ""
		}
		before, _ = before.Unmark()
		var names []string
		switch {
		case before.Type().IsObjectType():
			names = attributeNames(before)
		case before.Type().IsMapType() && before.IsKnown():
			for k := range before.AsValueMap() {
				names = append(names, k)
			}
		default:
			return ""
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
		return fmt.Sprintf("%s has no %q.%s", written(t[:i]), name, suggestOrList(name, names))
	}
	return ""
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
	var names []string
	for n := range v.Type().AttributeTypes() {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}
