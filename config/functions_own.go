package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// ownFunctions returns the Terraform functions that go-cty lacks, or defines differently.
func ownFunctions() map[string]function.Function {
	anything := []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowDynamicType: true}}
	anyList := []function.Parameter{{Name: "list", Type: cty.List(cty.DynamicPseudoType)}}
	return map[string]function.Function{
		"coalesce": function.New(&function.Spec{VarParam: &function.Parameter{Name: "values", Type: cty.DynamicPseudoType, AllowNull: true,
			AllowUnknown: true, AllowDynamicType: true}, Type: coalesceType, Impl: coalesce}),
		"index": function.New(&function.Spec{Params: append(slices.Clone(anything), anything...),
			Type: function.StaticReturnType(cty.Number), Impl: index}),
		"lookup": function.New(&function.Spec{Params: append(slices.Clone(anything), function.Parameter{Name: "key", Type: cty.String}),
			VarParam: &function.Parameter{Name: "default", Type: cty.DynamicPseudoType, AllowNull: true, AllowDynamicType: true},
			Type:     lookupType, Impl: lookup}),
		"matchkeys": function.New(&function.Spec{Params: append(append(slices.Clone(anyList), anyList...), anyList...),
			Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil }, Impl: matchKeys}),
		"transpose": function.New(&function.Spec{Params: []function.Parameter{{Name: "map", Type: cty.Map(cty.List(cty.String))}},
			Type: function.StaticReturnType(cty.Map(cty.List(cty.String))), Impl: transpose}),
		"alltrue": function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
			Type: function.StaticReturnType(cty.Bool), Impl: allTrue}),
		"anytrue": function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Bool)}},
			Type: function.StaticReturnType(cty.Bool), Impl: anyTrue}),
		"length": function.New(&function.Spec{Params: anything, Type: function.StaticReturnType(cty.Number), Impl: length}),
		"one":    function.New(&function.Spec{Params: anything, Type: oneType, Impl: one}),
		"range": function.New(&function.Spec{VarParam: &function.Parameter{Name: "n", Type: cty.Number},
			Type: function.StaticReturnType(cty.List(cty.Number)), Impl: rangeImpl}),
		"sum": function.New(&function.Spec{Params: []function.Parameter{{Name: "list", Type: cty.List(cty.Number)}},
			Type: function.StaticReturnType(cty.Number), Impl: sum}),
		"sensitive": function.New(&function.Spec{Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true}},
			Type: func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0].Mark(secret{}), nil }}),
		"nonsensitive": function.New(&function.Spec{Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType,
			AllowUnknown: true, AllowNull: true, AllowMarked: true}},
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

// length counts the characters of a string, as Terraform does, or the elements of a collection.
func length(args []cty.Value, _ cty.Type) (cty.Value, error) {
	if args[0].Type() == cty.String {
		return stdlib.Strlen(args[0])
	}
	if args[0].Type().IsObjectType() {
		return cty.NumberIntVal(int64(len(args[0].Type().AttributeTypes()))), nil
	}
	return stdlib.Length(args[0])
}

func coalesceType(args []cty.Value) (cty.Type, error) {
	types := make([]cty.Type, len(args))
	for i, v := range args {
		types[i] = v.Type()
	}
	t, _ := convert.UnifyUnsafe(types)
	if t == cty.NilType {
		return t, errors.New("all values must have the same type")
	}
	return t, nil
}

// coalesce returns the first value that is neither null nor, as in Terraform, an empty string.
func coalesce(args []cty.Value, t cty.Type) (cty.Value, error) {
	for _, v := range args {
		c, err := convert.Convert(v, t)
		if err != nil {
			return cty.NilVal, err
		}
		if !c.IsKnown() {
			return cty.UnknownVal(t), nil
		}
		if c.IsNull() || t == cty.String && c.AsString() == "" {
			continue
		}
		return c, nil
	}
	return cty.NilVal, errors.New("every value is null or empty")
}

// index returns the position of a value in a list, as in Terraform. go-cty's function of that name
// indexes into a collection.
func index(args []cty.Value, _ cty.Type) (cty.Value, error) {
	if t := args[0].Type(); !t.IsListType() && !t.IsTupleType() {
		return cty.NilVal, function.NewArgErrorf(0, "must be a list")
	}
	for it := args[0].ElementIterator(); it.Next(); {
		i, v := it.Element()
		if eq, err := stdlib.Equal(v, args[1]); err == nil && eq.IsKnown() && eq.True() {
			return i, nil
		}
	}
	return cty.NilVal, function.NewArgErrorf(1, "the list has no such value")
}

func lookupType(args []cty.Value) (cty.Type, error) {
	t := args[0].Type()
	switch {
	case len(args) > 3:
		return cty.NilType, fmt.Errorf("lookup takes a map, a key and a default")
	case t.IsMapType():
		return t.ElementType(), nil
	case t.IsObjectType():
		if args[1].IsKnown() && t.HasAttribute(args[1].AsString()) {
			return t.AttributeType(args[1].AsString()), nil
		}
		if len(args) == 3 {
			return args[2].Type(), nil
		}
		return cty.DynamicPseudoType, nil
	}
	return cty.NilType, function.NewArgErrorf(0, "must be a map")
}

func lookup(args []cty.Value, t cty.Type) (cty.Value, error) {
	key := args[1].AsString()
	if v, ok := args[0].AsValueMap()[key]; ok {
		return v, nil
	}
	if len(args) == 3 {
		return convert.Convert(args[2], t)
	}
	return cty.NilVal, fmt.Errorf("the map has no key %q, and there is no default", key)
}

// matchKeys returns the values whose keys are in the search list.
func matchKeys(args []cty.Value, t cty.Type) (cty.Value, error) {
	if args[0].LengthInt() != args[1].LengthInt() {
		return cty.NilVal, fmt.Errorf("values and keys must have the same length")
	}
	var out []cty.Value
	keyList := args[1].AsValueSlice()
	for i, v := range args[0].AsValueSlice() {
		for _, want := range args[2].AsValueSlice() {
			if eq, err := stdlib.Equal(keyList[i], want); err == nil && eq.IsKnown() && eq.True() {
				out = append(out, v)
				break
			}
		}
	}
	if len(out) == 0 {
		return cty.ListValEmpty(t.ElementType()), nil
	}
	return cty.ListVal(out), nil
}

// transpose swaps keys and values of a map of lists.
func transpose(args []cty.Value, _ cty.Type) (cty.Value, error) {
	in := args[0].AsValueMap()
	lists := map[string][]cty.Value{}
	for _, k := range slices.Sorted(maps.Keys(in)) {
		for _, v := range in[k].AsValueSlice() {
			if v.IsNull() {
				return cty.NilVal, fmt.Errorf("an element is null")
			}
			lists[v.AsString()] = append(lists[v.AsString()], cty.StringVal(k))
		}
	}
	if len(lists) == 0 {
		return cty.MapValEmpty(cty.List(cty.String)), nil
	}
	out := map[string]cty.Value{}
	for k, list := range lists {
		out[k] = cty.ListVal(list)
	}
	return cty.MapVal(out), nil
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
	return cty.NilType, function.NewArgErrorf(0, "must be a list or set of at most one element")
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
	return cty.NilVal, function.NewArgErrorf(0, "it has %d elements, but at most one is allowed", args[0].LengthInt())
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
	if end.Subtract(start).Divide(step).GreaterThan(cty.NumberIntVal(maxInstances)).True() {
		return cty.NilVal, fmt.Errorf("range makes more than %d numbers", maxInstances)
	}
	down := step.LessThan(cty.NumberIntVal(0)).True()
	var out []cty.Value
	for v := start; ; v = v.Add(step) {
		if down && !v.GreaterThan(end).True() || !down && !v.LessThan(end).True() {
			break
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		return cty.ListValEmpty(cty.Number), nil
	}
	return cty.ListVal(out), nil
}
