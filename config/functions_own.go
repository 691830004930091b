package config

import (
	"errors"
	"fmt"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// ownFunctions are those of Terraform's that go-cty has not, or not with Terraform's meaning.
func ownFunctions() map[string]function.Function {
	anything := []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true}}
	return map[string]function.Function{
		"alltrue": function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}}, Type: function.StaticReturnType(cty.Bool), Impl: allTrue}),
		"anytrue": function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}}, Type: function.StaticReturnType(cty.Bool), Impl: anyTrue}),
		"length":  function.New(&function.Spec{Params: anything, Type: function.StaticReturnType(cty.Number), Impl: length}),
		"one":     function.New(&function.Spec{Params: anything, Type: oneType, Impl: one}),
		"range":   function.New(&function.Spec{VarParam: &function.Parameter{Name: "n", Type: cty.Number}, Type: function.StaticReturnType(cty.List(cty.Number)), Impl: rangeImpl}),
		"sum":     function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}}, Type: function.StaticReturnType(cty.Number), Impl: sum}),
		"sensitive": function.New(&function.Spec{Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowNull: true, AllowMarked: true}},
			Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0].Mark(secret{}), nil }}),
		"nonsensitive": function.New(&function.Spec{Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowUnknown: true, AllowNull: true, AllowMarked: true}},
			Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				bare, marks := args[0].Unmark()
				delete(marks, secret{})
				return bare.WithMarks(marks), nil
			}}),
	}
}

func allTrue(args []cty.Value, _ cty.Type) (cty.Value, error) {
	for it := args[0].ElementIterator(); it.Next(); {
		if _, v := it.Element(); v.IsNull() || v.False() {
			return cty.False, nil
		}
	}
	return cty.True, nil
}

func anyTrue(args []cty.Value, _ cty.Type) (cty.Value, error) {
	for it := args[0].ElementIterator(); it.Next(); {
		if _, v := it.Element(); !v.IsNull() && v.True() {
			return cty.True, nil
		}
	}
	return cty.False, nil
}

// length counts a string's characters, as Terraform does, or elements.
func length(args []cty.Value, _ cty.Type) (cty.Value, error) {
	if args[0].Type() == cty.String {
		return stdlib.Strlen(args[0])
	}
	return stdlib.Length(args[0])
}

func oneType(args []cty.Value) (cty.Type, error) {
	switch t := args[0].Type(); {
	case t.IsListType() || t.IsSetType():
		return t.ElementType(), nil
	case t.IsTupleType() && t.Length() == 1:
		return t.TupleElementType(0), nil
	case t.IsTupleType() && t.Length() == 0:
		return cty.DynamicPseudoType, nil
	}
	return cty.NilType, function.NewArgErrorf(0, "a list or set of at most one element is needed")
}

func one(args []cty.Value, t cty.Type) (cty.Value, error) {
	switch args[0].LengthInt() {
	case 0:
		return cty.NullVal(t), nil
	case 1:
		it := args[0].ElementIterator()
		it.Next()
		_, v := it.Element()
		return v, nil
	}
	return cty.NilVal, function.NewArgErrorf(0, "it has %d elements, and one is allowed", args[0].LengthInt())
}

func sum(args []cty.Value, _ cty.Type) (cty.Value, error) {
	if args[0].LengthInt() == 0 {
		return cty.NilVal, errors.New("the sum of an empty list is not defined")
	}
	total := cty.Zero
	for it := args[0].ElementIterator(); it.Next(); {
		_, v := it.Element()
		if v.IsNull() {
			return cty.NilVal, fmt.Errorf("an element is null")
		}
		total = total.Add(v)
	}
	return total, nil
}

// rangeImpl is Terraform's range with a higher limit: fabrics have more than 1,024 ports.
func rangeImpl(args []cty.Value, _ cty.Type) (cty.Value, error) {
	start, step := cty.NumberIntVal(0), cty.NumberIntVal(1)
	var end cty.Value
	switch len(args) {
	case 1:
		end = args[0]
	case 2, 3:
		start, end = args[0], args[1]
		if len(args) == 3 {
			step = args[2]
		} else if end.LessThan(start).True() {
			step = cty.NumberIntVal(-1)
		}
	default:
		return cty.NilVal, fmt.Errorf("range takes one to three numbers")
	}
	if step.RawEquals(cty.NumberIntVal(0)) {
		return cty.NilVal, fmt.Errorf("the step must not be 0")
	}
	down := step.LessThan(cty.NumberIntVal(0)).True()
	var out []cty.Value
	for v := start; ; v = v.Add(step) {
		if down && !v.GreaterThan(end).True() || !down && !v.LessThan(end).True() {
			break
		}
		if len(out) >= maxInstances {
			return cty.NilVal, fmt.Errorf("range makes more than %d numbers", maxInstances)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return cty.ListValEmpty(cty.Number), nil
	}
	return cty.ListVal(out), nil
}
