package config

import (
	"errors"
	"fmt"
	"math/big"
	"sync/atomic"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// Limits of one fabric's evaluation. A fabric of 20,000 hosts stays far below them.
const (
	maxValue          = 1 << 21 // bytes and elements of one value
	maxKept           = 1 << 24 // bytes and elements of all values together
	maxSteps          = 1 << 21 // bytes and elements that one expression produces, intermediate ones included
	maxBinaryExponent = 1024    // largest power of 2 in a number
)

// deadline is a variable for the tests, whose machines may be busy.
var deadline = 20 * time.Second

// patience is for a function call that the meter cannot interrupt.
func patience() time.Duration { return deadline + 5*time.Second }

// meter limits the time and memory of evaluation. HCL cannot be interrupted, so the meter works inside
// the expressions: measure replaces the parts that are evaluated many times, or that produce large
// values, with parts that count. At a limit they panic, and value recovers.
type meter struct {
	began time.Time
	steps int   // of the current expression
	over  error // the limit that the current expression exceeds; kept here because cty's functions recover panics
	kept  int
	spent error                     // set for good once the time or the total size is used up
	now   atomic.Pointer[hcl.Range] // the expression that is being evaluated
}

// stuck returns the diagnostic for an evaluation that did not finish in time.
func (m *meter) stuck() *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Expression too expensive", Subject: m.now.Load(),
		Detail: fmt.Sprintf("Evaluating the fabric takes longer than %s and was stopped here. "+
			"Look for functions of very long lists or strings.", patience())}
}

// exceeded is what stop panics with.
type exceeded struct{}

func newMeter() *meter { return &meter{began: time.Now()} }

// value evaluates an expression within the limits.
func (m *meter) value(e hcl.Expression, ctx *hcl.EvalContext) (v cty.Value, diags hcl.Diagnostics) {
	if m.spent != nil {
		return cty.DynamicVal.Mark(failed{}), nil // already reported
	}
	m.steps, m.over = 0, nil
	m.now.Store(e.Range().Ptr())
	defer func() {
		p := recover()
		if _, ours := p.(exceeded); p != nil && !ours {
			panic(p)
		}
		if m.over != nil {
			v, diags = cty.DynamicVal, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Expression too expensive",
				Subject: e.Range().Ptr(),
				Detail:  title(m.over.Error()) + "."}}
		}
	}()
	v, diags = e.Value(ctx)
	budget := maxValue
	if err := within(v, &budget); err != nil {
		m.stop(err)
	}
	if m.kept += maxValue - budget; m.kept > maxKept {
		m.spent = errors.New("the values of this fabric together exceed 16 MiB")
		m.stop(m.spent)
	}
	return v, diags
}

// stop aborts the current expression.
func (m *meter) stop(why error) {
	m.over = why
	panic(exceeded{})
}

// step counts n bytes or elements.
func (m *meter) step(n int) {
	if m.steps += n; m.steps > maxSteps {
		m.stop(fmt.Errorf("this expression produces more than %d elements or bytes: look for nested for expressions whose sizes multiply",
			maxSteps))
	}
	if time.Since(m.began) > deadline {
		m.spent = fmt.Errorf("evaluating the fabric takes longer than %s and was stopped here: "+
			"look for nested for expressions whose sizes multiply", deadline)
		m.stop(m.spent)
	}
}

// within subtracts the size of a value from the budget, and fails once the budget is used up.
func within(v cty.Value, budget *int) error {
	if *budget--; *budget < 0 {
		return fmt.Errorf("this value has more than %d elements or bytes: look for values that double", maxValue)
	}
	v, _ = v.Unmark() // only this level: UnmarkDeep would copy a value that contains another a million times
	if v.IsNull() || !v.IsKnown() {
		return nil
	}
	switch t := v.Type(); {
	case t == cty.String:
		*budget -= len(v.AsString())
	case t == cty.Number:
		return reasonable(v)
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			k, e := it.Element()
			if k.Type() == cty.String {
				*budget -= len(k.AsString())
			}
			if err := within(e, budget); err != nil {
				return err
			}
		}
	}
	return nil
}

// reasonable rejects numbers that take very long to print: 1e10000000 takes 26 s.
func reasonable(v cty.Value) error {
	f := v.AsBigFloat()
	if exp := f.MantExp(nil); f.IsInf() || exp > maxBinaryExponent || exp < -maxBinaryExponent {
		return fmt.Errorf("a number here is larger than %s or too close to 0",
			new(big.Float).SetMantExp(big.NewFloat(1), maxBinaryExponent).Text('g', 3))
	}
	return nil
}

// metered counts each evaluation of the expression that it wraps.
type metered struct {
	hclsyntax.Expression
	m        *meter
	collects bool // each evaluation adds the value to a larger one
	each     bool // it is evaluated for each element of a splat
}

// Value implements hclsyntax.Expression.
func (e metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	e.m.step(1)
	v, diags := e.Expression.Value(ctx)
	if diags.HasErrors() && e.each { // later, HCL has forgotten the element
		for _, d := range diags {
			explain(d, ctx)
		}
	}
	if bare, _ := v.Unmark(); bare.IsKnown() && !bare.IsNull() {
		switch bare.Type() {
		case cty.String:
			e.m.step(len(bare.AsString()))
		case cty.Number:
			if err := reasonable(bare); err != nil {
				e.m.stop(err)
			}
		default:
			if e.collects && bare.CanIterateElements() {
				e.m.step(bare.LengthInt())
			}
		}
	}
	return v, diags
}

// UnwrapExpression returns the wrapped expression for HCL's static analysis, such as type constraints.
func (e metered) UnwrapExpression() hcl.Expression {
	if p, is := e.Expression.(*hclsyntax.ParenthesesExpr); is {
		return p.Expression // see inParentheses
	}
	return e.Expression
}

// argument is an argument of a function. It converts long tuples of one type into lists, because cty's
// own conversion compares the types of all pairs of elements (convert.sortTypes).
type argument struct{ metered }

// Value implements hclsyntax.Expression.
func (e argument) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	v, diags := e.metered.Value(ctx)
	bare, marks := v.Unmark()
	if !bare.Type().IsTupleType() || !bare.IsKnown() || bare.IsNull() {
		return v, diags
	}
	types := bare.Type().TupleElementTypes()
	if len(types) < 256 {
		return v, diags
	}
	for _, t := range types {
		if t == cty.DynamicPseudoType || !t.Equals(types[0]) {
			return v, diags
		}
	}
	return cty.ListVal(bare.AsValueSlice()).WithMarks(marks), diags
}

// visit calls f for each node below a node, and the node itself, as they were before measure.
func visit(n hclsyntax.Node, f func(hclsyntax.Node)) {
	_ = hclsyntax.VisitAll(n, func(n hclsyntax.Node) hcl.Diagnostics {
		if e, is := n.(hclsyntax.Expression); is {
			n, _ = hcl.UnwrapExpression(e).(hclsyntax.Node)
		}
		f(n)
		return nil
	})
}

// measure inserts the meter into all expressions of a body.
func (m *meter) measure(n hclsyntax.Node) { _ = hclsyntax.Walk(n, measurer{m}) }

type measurer struct{ m *meter }

// Enter implements hclsyntax.Walker.
func (measurer) Enter(hclsyntax.Node) hcl.Diagnostics { return nil }

// Exit implements hclsyntax.Walker. It wraps children after the walk has visited them.
func (w measurer) Exit(n hclsyntax.Node) hcl.Diagnostics {
	wrapAll := func(list []hclsyntax.Expression) {
		for i, e := range list {
			if _, literal := e.(*hclsyntax.LiteralValueExpr); !literal {
				list[i] = w.m.wrap(e)
			}
		}
	}
	switch e := n.(type) {
	case *hclsyntax.ForExpr:
		e.KeyExpr, e.ValExpr, e.CondExpr = w.m.wrap(e.KeyExpr), w.m.collect(e.ValExpr), w.m.wrap(e.CondExpr)
	case *hclsyntax.TemplateExpr:
		wrapAll(e.Parts)
	case *hclsyntax.TemplateWrapExpr:
		e.Wrapped = w.m.wrap(e.Wrapped)
	case *hclsyntax.BinaryOpExpr:
		e.LHS, e.RHS = w.m.wrap(e.LHS), w.m.wrap(e.RHS)
	case *hclsyntax.TupleConsExpr:
		wrapAll(e.Exprs)
	case *hclsyntax.ObjectConsExpr:
		for i := range e.Items {
			e.Items[i].ValueExpr = w.m.wrap(e.Items[i].ValueExpr)
		}
	case *hclsyntax.FunctionCallExpr:
		for i, a := range e.Args {
			if _, done := a.(argument); !done && (!e.ExpandFinal || i < len(e.Args)-1) {
				e.Args[i] = argument{metered{Expression: inParentheses(a), m: w.m}}
			}
		}
	case *hclsyntax.SplatExpr:
		e.Each = w.m.wrap(e.Each)
		if each, is := e.Each.(metered); is {
			each.each = true
			e.Each = each
		}
	}
	return nil
}

func (m *meter) wrap(e hclsyntax.Expression) hclsyntax.Expression {
	if _, done := e.(metered); done || e == nil {
		return e
	}
	return metered{Expression: inParentheses(e), m: m}
}

// collect wraps an expression whose values a loop collects.
func (m *meter) collect(e hclsyntax.Expression) hclsyntax.Expression {
	w, is := m.wrap(e).(metered)
	if !is {
		return e
	}
	w.collects = true
	return w
}

// inParentheses puts a reference into parentheses. HCL finds references by node type, so a wrapped reference
// must remain visible as a child.
func inParentheses(e hclsyntax.Expression) hclsyntax.Expression {
	if t, is := e.(*hclsyntax.ScopeTraversalExpr); is {
		return &hclsyntax.ParenthesesExpr{Expression: t, SrcRange: t.SrcRange}
	}
	return e
}
