package lsp

import (
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
)

// maxShapes limits the expressions that one request looks at: locals that name each other many times would have
// exponentially many members.
const maxShapes = 5_000

// maxUnion limits the elements of a collection whose members are offered for an element that is not known.
const maxUnion = 100

// shapeOf returns what the text of an expression says about its value: its members, keys and elements. Nothing is evaluated,
// because the files of an editor rarely have values for all variables. It returns nil if the text does not say it.
func (s scope) shapeOf(e hclsyntax.Expression) *entry {
	if *s.budget--; *s.budget < 0 {
		return nil
	}
	switch e := e.(type) {
	case *hclsyntax.ScopeTraversalExpr:
		return s.find(steps(e.Traversal))
	case *hclsyntax.RelativeTraversalExpr:
		return s.shapeOf(e.Source).walk(steps(e.Traversal))
	case *hclsyntax.IndexExpr:
		return s.shapeOf(e.Collection).walk([]step{{index: true}})
	case *hclsyntax.SplatExpr:
		each := s.shapeOf(e.Source).any()
		return list(func() *entry { return s.with("*", each).shapeOf(e.Each) })
	case *hclsyntax.AnonSymbolExpr:
		return s.find([]step{{name: "*"}})
	case *hclsyntax.ObjectConsExpr:
		return s.object(e)
	case *hclsyntax.TupleConsExpr:
		return s.tuple(e)
	case *hclsyntax.ForExpr:
		return list(func() *entry {
			in := s.shapeOf(e.CollExpr).any()
			return s.with(e.KeyVar, nil).with(e.ValVar, in).shapeOf(e.ValExpr)
		})
	case *hclsyntax.FunctionCallExpr:
		return s.call(e)
	case *hclsyntax.ConditionalExpr:
		return s.shapeOf(e.TrueResult)
	case *hclsyntax.ParenthesesExpr:
		return s.shapeOf(e.Expression)
	case *hclsyntax.TemplateWrapExpr:
		return s.shapeOf(e.Wrapped)
	}
	return nil
}

// list is a value of which only the elements are known, which are all alike.
func list(element func() *entry) *entry { return &entry{kind: itemField, element: element} }

// any returns an element of a collection, or nil.
func (e *entry) any() *entry { return e.walk([]step{{index: true}}) }

// with adds a name that only one expression has, such as the variable of a for.
func (s scope) with(name string, is *entry) scope {
	e := entry{kind: itemVariable}
	if is != nil {
		e = *is
	}
	e.name, e.named = name, false
	s.vars = append(slices.Clone(s.vars), e)
	return s
}

func (s scope) object(e *hclsyntax.ObjectConsExpr) *entry {
	out := &entry{kind: itemField}
	out.members = func() (all []entry) {
		*s.budget -= len(e.Items) / 100
		for _, item := range e.Items {
			if name, at := s.key(item.KeyExpr); name != "" {
				m := entry{name: name, kind: itemField, detail: name + " = " + s.file.brief(bytesOf(item.ValueExpr.Range())), file: s.file, at: at}
				m.become(func() *entry { return s.shapeOf(item.ValueExpr) })
				all = append(all, m)
			}
		}
		return all
	}
	out.element = func() *entry {
		var values []func() *entry
		for _, item := range e.Items[:min(len(e.Items), maxUnion)] {
			values = append(values, func() *entry { return s.shapeOf(item.ValueExpr) })
		}
		return union(values)
	}
	return out
}

// key returns the key of an object's item if it is literal, and its place without quotes.
func (s scope) key(e hclsyntax.Expression) (name string, at span) {
	if k, is := e.(*hclsyntax.ObjectConsKeyExpr); is {
		if name := hcl.ExprAsKeyword(k.Wrapped); name != "" && !k.ForceNonLiteral {
			return name, bytesOf(k.Range())
		}
		e = k.Wrapped
	}
	return s.text(e)
}

// text returns a literal string and its place without quotes; "" if the expression is something else.
func (s scope) text(e hclsyntax.Expression) (string, span) {
	if t, is := e.(*hclsyntax.TemplateExpr); is && t.IsStringLiteral() {
		if in := bytesOf(t.Parts[0].Range()); in.start < in.end {
			return s.file.source(in), in
		}
	}
	return "", span{}
}

func (s scope) tuple(e *hclsyntax.TupleConsExpr) *entry {
	out := list(func() *entry { return union(s.shapesOf(e.Exprs)) })
	out.texts = func() (all []entry) {
		for _, in := range e.Exprs {
			if name, at := s.text(in); name != "" {
				all = append(all, entry{name: name, kind: itemEnum, file: s.file, at: at})
			}
		}
		return all
	}
	return out
}

func (s scope) shapesOf(all []hclsyntax.Expression) (out []func() *entry) {
	for _, e := range all[:min(len(all), maxUnion)] {
		out = append(out, func() *entry { return s.shapeOf(e) })
	}
	return out
}

// union is a value that may be any of the given ones: it has the members of all of them.
func union(values []func() *entry) *entry {
	if len(values) == 1 {
		return values[0]()
	}
	return &entry{kind: itemField,
		members: func() (all []entry) {
			seen := map[string]bool{}
			for _, value := range values {
				for _, m := range value().list() {
					if !seen[m.name] {
						seen[m.name] = true
						all = append(all, m)
					}
				}
			}
			return all
		},
		element: func() *entry {
			var elements []func() *entry
			for _, value := range values {
				elements = append(elements, func() *entry { return value().any() })
			}
			return union(elements)
		}}
}

// call returns the shape of what a function returns, for the functions that keep the shape of an argument.
func (s scope) call(e *hclsyntax.FunctionCallExpr) *entry {
	if len(e.Args) == 0 {
		return nil
	}
	switch e.Name {
	case "values":
		in := e.Args[0]
		return list(func() *entry { return s.shapeOf(in).any() })
	case "merge":
		return union(s.shapesOf(e.Args))
	case "toset", "tolist", "tomap", "try", "coalesce", "reverse", "slice", "distinct", "sensitive", "nonsensitive", "element", "one":
		of := s.shapeOf(e.Args[0])
		if e.Name == "element" || e.Name == "one" {
			return of.any()
		}
		return of
	}
	return nil
}

// typed returns the shape of a value of a type constraint, such as map(object({ mgmt = string })).
func (s scope) typed(e hclsyntax.Expression) *entry {
	if *s.budget--; *s.budget < 0 {
		return nil
	}
	call, is := e.(*hclsyntax.FunctionCallExpr)
	if !is || len(call.Args) == 0 {
		return nil
	}
	object, is := call.Args[0].(*hclsyntax.ObjectConsExpr)
	switch {
	case call.Name == "object" && is:
		return &entry{kind: itemField, members: func() (all []entry) {
			for _, item := range object.Items {
				if name, at := s.key(item.KeyExpr); name != "" {
					m := entry{name: name, kind: itemField, detail: name + ": " + s.file.brief(bytesOf(item.ValueExpr.Range())), file: s.file, at: at}
					m.become(func() *entry { return s.typed(item.ValueExpr) })
					all = append(all, m)
				}
			}
			return all
		}}
	case call.Name == "optional":
		return s.typed(call.Args[0])
	case call.Name == "map" || call.Name == "list" || call.Name == "set":
		return list(func() *entry { return s.typed(call.Args[0]) })
	}
	return nil
}

// attributeShape returns the shape of an attribute's value.
func (s scope) attributeShape(a *attribute) *entry {
	if e := s.file.parse(a.value); e != nil {
		return s.shapeOf(e)
	}
	return nil
}

// parse parses a part of the file as an expression, once. It returns nil if it is none.
func (f *file) parse(of span) hclsyntax.Expression {
	e, done := f.parsed[of]
	if !done {
		e = config.ParseExpression(f.text.src[of.start:of.end], of.start)
		f.parsed[of] = e
	}
	return e
}

func bytesOf(r hcl.Range) span { return span{r.Start.Byte, r.End.Byte} }

// steps converts a reference. An index that is not a literal has no name.
func steps(t hcl.Traversal) (out []step) {
	for _, part := range t {
		switch p := part.(type) {
		case hcl.TraverseRoot:
			out = append(out, step{name: p.Name})
		case hcl.TraverseAttr:
			out = append(out, step{name: p.Name})
		case hcl.TraverseIndex:
			st := step{index: true}
			if p.Key.Type().FriendlyName() == "string" {
				st.name = p.Key.AsString()
			}
			out = append(out, st)
		}
	}
	return out
}
