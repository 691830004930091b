package config

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	ctyyaml "github.com/zclconf/go-cty-yaml"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions returns the functions that expressions may call, under Terraform's names. None depends on
// time or randomness, so that a plan can be repeated. Relative file names are relative to dir.
func functions(dir string, m *meter) map[string]function.Function {
	all := map[string]function.Function{
		"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "floor": stdlib.FloorFunc, "log": stdlib.LogFunc, "max": stdlib.MaxFunc,
		"min": stdlib.MinFunc, "parseint": stdlib.ParseIntFunc, "pow": stdlib.PowFunc, "signum": stdlib.SignumFunc,

		"chomp": stdlib.ChompFunc, "format": stdlib.FormatFunc, "formatlist": stdlib.FormatListFunc, "indent": stdlib.IndentFunc,
		"join": stdlib.JoinFunc, "lower": stdlib.LowerFunc, "regex": stdlib.RegexFunc, "regexall": stdlib.RegexAllFunc,
		"split": stdlib.SplitFunc, "strrev": stdlib.ReverseFunc, "substr": stdlib.SubstrFunc, "title": stdlib.TitleFunc,
		"trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
		"trimsuffix": stdlib.TrimSuffixFunc,
		"upper":      stdlib.UpperFunc,

		"chunklist": stdlib.ChunklistFunc, "coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc,
		"concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc, "distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc,
		"flatten": stdlib.FlattenFunc, "keys": stdlib.KeysFunc,
		"merge": stdlib.MergeFunc, "reverse": stdlib.ReverseListFunc, "setintersection": stdlib.SetIntersectionFunc,
		"setproduct": stdlib.SetProductFunc, "setsubtract": stdlib.SetSubtractFunc,
		"setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "values": stdlib.ValuesFunc,
		"zipmap": stdlib.ZipmapFunc,

		"csvdecode": stdlib.CSVDecodeFunc, "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
		"yamldecode": ctyyaml.YAMLDecodeFunc, "yamlencode": ctyyaml.YAMLEncodeFunc,

		"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
		"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
		"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	}
	maps.Copy(all, ownFunctions())
	maps.Copy(all, textFunctions())
	maps.Copy(all, addressFunctions())
	maps.Copy(all, fileFunctions(dir))
	all["hostlist"] = hostlistFunc
	for name, f := range all {
		all[name] = m.limitFunction(name, f)
	}
	// try and can take their arguments unevaluated; the meter is inside those expressions.
	all["try"], all["can"] = tryfunc.TryFunc, tryfunc.CanFunc
	inner := maps.Clone(all)
	all["templatefile"] = renderFunction(m, inner, func(path string) (name, text string, err error) {
		src, err := ReadFile(inside(dir, path))
		return inside(dir, path), string(src), err
	})
	all["templatestring"] = renderFunction(m, inner, func(text string) (string, string, error) { return "template", text, nil })
	return all
}

// textFunctions returns the functions from strings to a string or bool that go-cty does not have.
func textFunctions() map[string]function.Function {
	sum := func(f func([]byte) []byte) function.Function {
		return stringFunc(1, func(a []string) (string, error) { return hex.EncodeToString(f([]byte(a[0]))), nil })
	}
	return map[string]function.Function{
		"basename":     stringFunc(1, func(a []string) (string, error) { return filepath.Base(a[0]), nil }),
		"dirname":      stringFunc(1, func(a []string) (string, error) { return filepath.Dir(a[0]), nil }),
		"urlencode":    stringFunc(1, func(a []string) (string, error) { return url.QueryEscape(a[0]), nil }),
		"base64encode": stringFunc(1, func(a []string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(a[0])), nil }),
		"base64decode": stringFunc(1, func(a []string) (string, error) {
			b, err := base64.StdEncoding.DecodeString(a[0])
			if err != nil {
				return "", fmt.Errorf("not base64: %w", err)
			}
			return string(b), nil
		}),
		"md5":    sum(func(b []byte) []byte { s := md5.Sum(b); return s[:] }),
		"sha1":   sum(func(b []byte) []byte { s := sha1.Sum(b); return s[:] }),
		"sha256": sum(func(b []byte) []byte { s := sha256.Sum256(b); return s[:] }),
		"sha512": sum(func(b []byte) []byte { s := sha512.Sum512(b); return s[:] }),
		"replace": stringFunc(3, func(a []string) (string, error) {
			if len(a[1]) > 1 && strings.HasPrefix(a[1], "/") && strings.HasSuffix(a[1], "/") {
				re, err := regexp.Compile(a[1][1 : len(a[1])-1])
				if err != nil {
					return "", fmt.Errorf("not a regular expression: %w", err)
				}
				return re.ReplaceAllString(a[0], a[2]), nil
			}
			return strings.ReplaceAll(a[0], a[1], a[2]), nil
		}),
		"startswith":  predicate(strings.HasPrefix),
		"endswith":    predicate(strings.HasSuffix),
		"strcontains": predicate(strings.Contains),
	}
}

func fileFunctions(dir string) map[string]function.Function {
	return map[string]function.Function{
		"file": stringFunc(1, func(a []string) (string, error) {
			b, err := ReadFile(inside(dir, a[0]))
			return string(b), err
		}),
		"fileexists": function.New(&function.Spec{Params: []function.Parameter{{Name: "path", Type: cty.String}},
			Type: function.StaticReturnType(cty.Bool),
			Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
				st, err := os.Stat(inside(dir, args[0].AsString()))
				return cty.BoolVal(err == nil && st.Mode().IsRegular()), nil
			}}),
	}
}

func inside(dir, name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(dir, name)
}

// renderFunction returns a function that renders the template that read returns. The template sees only
// the variables in the function's second argument.
func renderFunction(m *meter, inner map[string]function.Function, read func(string) (name, text string, err error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "template", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			name, text, err := read(args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			if t := args[1].Type(); !t.IsObjectType() && !t.IsMapType() {
				return cty.NilVal, function.NewArgErrorf(1, "the variables must be an object, such as { name = \"x\" }")
			}
			if d := guard([]byte("x = \""+text+"\""), name); d.HasErrors() {
				return cty.NilVal, d
			}
			e, d := hclsyntax.ParseTemplate([]byte(text), name, hcl.InitialPos)
			if d.HasErrors() {
				return cty.NilVal, d
			}
			m.measure(e)
			v, d := e.Value(&hcl.EvalContext{Variables: args[1].AsValueMap(), Functions: inner})
			if d.HasErrors() {
				return cty.NilVal, d
			}
			return convert.Convert(v, cty.String)
		},
	})
}

// stringFunc wraps f as a function from n strings to one string.
func stringFunc(n int, f func([]string) (string, error)) function.Function {
	return function.New(&function.Spec{Params: stringParams(n), Type: function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			var in []string
			for _, a := range args {
				in = append(in, a.AsString())
			}
			s, err := f(in)
			return cty.StringVal(s), err
		}})
}

func predicate(f func(string, string) bool) function.Function {
	return function.New(&function.Spec{Params: stringParams(2), Type: function.StaticReturnType(cty.Bool),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			return cty.BoolVal(f(args[0].AsString(), args[1].AsString())), nil
		}})
}

func stringParams(n int) []function.Parameter {
	params := make([]function.Parameter, n)
	for i := range params {
		params[i] = function.Parameter{Name: "text", Type: cty.String}
	}
	return params
}

var (
	verbs   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[^%a-zA-Z]*`) })
	numbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[0-9]+`) })
)

var wideVerb = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[^%a-zA-Z]*[0-9]{5,}`) })

// limitFunction counts what a function produces, and rejects arguments that would keep it busy for minutes:
// go-cty's functions have no limits.
func (m *meter) limitFunction(name string, f function.Function) function.Function {
	spec := &function.Spec{Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			t, err := f.ReturnTypeForValues(args)
			return t, describePanic(err)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			if err := m.arguments(name, args); err != nil {
				return cty.NilVal, err
			}
			v, err := f.Call(args)
			if bare, _ := v.Unmark(); err == nil && bare.IsKnown() && !bare.IsNull() {
				switch t := bare.Type(); {
				case t == cty.String:
					m.step(1 + len(bare.AsString()))
				case t == cty.Number:
					return v, reasonable(bare)
				case bare.CanIterateElements():
					m.step(1 + bare.LengthInt())
				}
			}
			return v, describePanic(err)
		}}
	return function.New(spec)
}

// describePanic returns an error without a stack trace for a function that panics: go-cty's do for values such as log(-1, 2).
func describePanic(err error) error {
	var panicked function.PanicError
	if errors.As(err, &panicked) {
		return errors.New("it is not defined for these values")
	}
	return err
}

// replacements returns an upper bound of the number of replacements. A pattern between slashes is a
// regular expression.
func replacements(text, pattern string) int {
	if len(pattern) > 1 && strings.HasPrefix(pattern, "/") && strings.HasSuffix(pattern, "/") {
		return len(text) + 1
	}
	return strings.Count(text, pattern)
}

// formatted returns an upper bound of the result's length: each verb may expand to the longest
// argument plus its width, once for each element of the longest list.
func formatted(args []cty.Value) int {
	format, _ := args[0].Unmark()
	if format.IsNull() || !format.IsKnown() || format.Type() != cty.String {
		return 0
	}
	longest, lists := 0, 1
	for _, a := range args[1:] {
		a, _ := a.Unmark()
		if a.IsNull() || !a.IsKnown() {
			continue
		}
		longest = max(longest, textLength(a))
		if a.CanIterateElements() {
			lists = max(lists, a.LengthInt())
			for it := a.ElementIterator(); it.Next(); {
				_, e := it.Element()
				longest = max(longest, textLength(e))
			}
		}
	}
	length := 0
	for _, verb := range verbs().FindAllString(format.AsString(), -1) {
		width := 0
		for _, digits := range numbers().FindAllString(verb, -1) {
			n, _ := strconv.Atoi(digits) // at most four digits: see wideVerb
			width = max(width, n)
		}
		length += longest + width
	}
	return length * lists
}

func textLength(v cty.Value) int {
	v, _ = v.Unmark()
	if v.IsKnown() && !v.IsNull() && v.Type() == cty.String {
		return len(v.AsString())
	}
	return 0
}

// arguments checks and counts the arguments of the function before it runs.
func (m *meter) arguments(name string, args []cty.Value) error {
	length, elements := 0, 1
	for _, a := range args {
		a, _ = a.Unmark()
		if a.IsNull() || !a.IsKnown() {
			continue
		}
		switch t := a.Type(); {
		case t == cty.String:
			length += len(a.AsString())
			if hugeNumber(a.AsString()) && (name == "tonumber" || name == "parseint") {
				return fmt.Errorf("the number is too large or too precise for any setting of a fabric")
			}
			if (name == "format" || name == "formatlist") && wideVerb().MatchString(a.AsString()) {
				return fmt.Errorf("the width may have at most four digits")
			}
		case t == cty.Number:
			if err := reasonable(a); err != nil {
				return err
			}
			if n, _ := a.AsBigFloat().Int64(); name == "indent" && n > 1000 {
				return fmt.Errorf("at most 1000 spaces are allowed")
			}
		case a.CanIterateElements():
			elements = min(elements*max(1, a.LengthInt()), 1<<31) // four long lists would overflow
		}
	}
	switch name {
	case "setproduct":
		m.step(elements)
	case "replace":
		m.step(replacements(args[0].AsString(), args[1].AsString()) * len(args[2].AsString()))
	case "yamldecode":
		// An alias may expand to a value that contains aliases, so the result can grow exponentially.
		if strings.Count(args[0].AsString(), "*") > 16 {
			return fmt.Errorf("YAML may have at most 16 asterisks, because nested aliases grow exponentially")
		}
	case "indent":
		n, _ := args[0].AsBigFloat().Int64()
		m.step(strings.Count(args[1].AsString(), "\n") * int(n))
	case "format", "formatlist":
		m.step(formatted(args))
	case "join":
		m.step(elements * len(args[0].AsString()))
	}
	return nil
}
