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
	maxKept           = 1 << 24 // of all values
	maxSteps          = 1 << 21 // bytes and elements that one expression makes on its way
	maxBinaryExponent = 1024    // of a number, to the base of 2
	deadline          = 20 * time.Second
	patience          = deadline + 5*time.Second // for what the meter cannot stop
)

// meter bounds what evaluation takes. HCL cannot be interrupted, so that the meter stands inside
// the expressions: it replaces the parts that are evaluated many times, or make large things, by
// ones that count (measure), and leaves by a panic that value catches.
type meter struct {
	began time.Time
	steps int   // of the current expression
	over  error // what the current expression exceeds; functions of cty catch panics
	kept  int
	spent error                     // set for good once time or the total is used up
	now   atomic.Pointer[hcl.Range] // of the expression that is evaluated
}

// stuck is what to say of an evaluation that was left behind.
func (m *meter) stuck() *hcl.Diagnostic {
	return &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Expression takes too much", Subject: m.now.Load(),
		Detail: fmt.Sprintf("The fabric is not evaluated within %s, and got as far as this: look for functions of very long lists or texts.", patience)}
}

// exceeded is what stop panics with.
type exceeded struct{}

func newMeter() *meter { return &meter{began: time.Now()} }

// value evaluates an expression within the limits.
func (m *meter) value(e hcl.Expression, ctx *hcl.EvalContext) (v cty.Value, diags hcl.Diagnostics) {
	if m.spent != nil {
		return cty.DynamicVal.Mark(failed{}), nil // said before
	}
	m.steps, m.over = 0, nil
	m.now.Store(e.Range().Ptr())
	defer func() {
		p := recover()
		if _, ours := p.(exceeded); p != nil && !ours {
			panic(p)
		}
		if m.over != nil {
			v, diags = cty.DynamicVal, hcl.Diagnostics{{Severity: hcl.DiagError, Summary: "Expression takes too much", Subject: e.Range().Ptr(),
				Detail: title(m.over.Error()) + "."}}
		}
	}()
	v, diags = e.Value(ctx)
	budget := maxValue
	if err := within(v, &budget); err != nil {
		m.stop(err)
	}
	if m.kept += maxValue - budget; m.kept > maxKept {
		m.spent = errors.New("all values of this fabric together are larger than 16 MiB")
		m.stop(m.spent)
	}
	return v, diags
}

// stop leaves the current expression.
func (m *meter) stop(why error) {
	m.over = why
	panic(exceeded{})
}

// step counts n bytes or elements.
func (m *meter) step(n int) {
	if m.steps += n; m.steps > maxSteps {
		m.stop(fmt.Errorf("this makes more than %d elements or bytes on its way: look for nested for expressions that multiply", maxSteps))
	}
	if time.Since(m.began) > deadline {
		m.spent = fmt.Errorf("the fabric is not evaluated within %s, and got as far as this: look for nested for expressions that multiply", deadline)
		m.stop(m.spent)
	}
}

// within walks a value while its size fits into the budget.
func within(v cty.Value, budget *int) error {
	if *budget--; *budget < 0 {
		return fmt.Errorf("this makes more than %d elements or bytes: look for values that double", maxValue)
	}
	v, _ = v.Unmark() // of this level only: a value may hold another a million times
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

// reasonable refuses numbers that take minutes to write down: 1e10000000 is 26 s.
func reasonable(v cty.Value) error {
	f := v.AsBigFloat()
	if exp := f.MantExp(nil); f.IsInf() || exp > maxBinaryExponent || exp < -maxBinaryExponent {
		return fmt.Errorf("a number here is beyond %s", new(big.Float).SetMantExp(big.NewFloat(1), maxBinaryExponent).Text('g', 3))
	}
	return nil
}

// metered counts each evaluation of the expression in it.
type metered struct {
	hclsyntax.Expression
	m    *meter
	kept bool // the value becomes part of a larger one as often as it is evaluated
}

// Value implements hclsyntax.Expression.
func (e metered) Value(ctx *hcl.EvalContext) (cty.Value, hcl.Diagnostics) {
	e.m.step(1)
	v, diags := e.Expression.Value(ctx)
	if bare, _ := v.Unmark(); bare.IsKnown() && !bare.IsNull() {
		switch bare.Type() {
		case cty.String:
			e.m.step(len(bare.AsString()))
		case cty.Number:
			if err := reasonable(bare); err != nil {
				e.m.stop(err)
			}
		default:
			if e.kept && bare.CanIterateElements() {
				e.m.step(bare.LengthInt())
			}
		}
	}
	return v, diags
}

// UnwrapExpression lets HCL's static readers, such as those of type constraints, see the inside.
func (e metered) UnwrapExpression() hcl.Expression {
	if p, is := e.Expression.(*hclsyntax.ParenthesesExpr); is {
		return p.Expression // see wrap
	}
	return e.Expression
}

// argument is what a function is called with. Long tuples of one type become lists here: cty's own
// conversion compares every element's type with every other's (convert.sortTypes).
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

// measure puts the meter into all expressions of a body.
func (m *meter) measure(n hclsyntax.Node) { _ = hclsyntax.Walk(n, measurer{m}) }

type measurer struct{ m *meter }

// Enter implements hclsyntax.Walker.
func (measurer) Enter(hclsyntax.Node) hcl.Diagnostics { return nil }

// Exit implements hclsyntax.Walker. Children are wrapped on the way out, when they have been walked.
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
		e.KeyExpr, e.ValExpr, e.CondExpr = w.m.wrap(e.KeyExpr), w.m.keep(e.ValExpr), w.m.wrap(e.CondExpr)
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
				e.Args[i] = argument{metered{Expression: bared(a), m: w.m}}
			}
		}
	case *hclsyntax.SplatExpr:
		e.Each = w.m.wrap(e.Each)
	}
	return nil
}

func (m *meter) wrap(e hclsyntax.Expression) hclsyntax.Expression {
	if _, done := e.(metered); done || e == nil {
		return e
	}
	return metered{Expression: bared(e), m: m}
}

// keep is wrap for a value that a loop collects.
func (m *meter) keep(e hclsyntax.Expression) hclsyntax.Expression {
	w, is := m.wrap(e).(metered)
	if !is {
		return e
	}
	w.kept = true
	return w
}

// bared puts a reference into parentheses: HCL looks for references by node type, so that they must
// stay visible as children.
func bared(e hclsyntax.Expression) hclsyntax.Expression {
	if t, is := e.(*hclsyntax.ScopeTraversalExpr); is {
		return &hclsyntax.ParenthesesExpr{Expression: t, SrcRange: t.SrcRange}
	}
	return e
}
