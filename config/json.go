package config

import (
	"fmt"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
)

// parseJSON parses HCL's JSON syntax (hcl/json/spec.md) and converts it into the native syntax tree,
// so that all later code deals with one form.
func (l *loader) parseJSON(src []byte, name string, spec *block) *hclsyntax.Body {
	if d := guardJSON(src, name); d.HasErrors() {
		l.diags = append(l.diags, d...)
		return nil
	}
	f, d := json.Parse(src, name)
	if d.HasErrors() {
		l.diags = append(l.diags, d...)
		return nil
	}
	l.files[name] = f
	body, d := nativeBody(f.Body, spec)
	l.diags = append(l.diags, d...)
	if d.HasErrors() {
		return nil
	}
	l.meter.measure(body)
	return body
}

func nativeBody(in hcl.Body, spec *block) (*hclsyntax.Body, hcl.Diagnostics) {
	out := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}, SrcRange: in.MissingItemRange(), EndRange: in.MissingItemRange()}
	var attrs hcl.Attributes
	var diags hcl.Diagnostics
	if spec.free {
		attrs, diags = in.JustAttributes()
	} else {
		var content *hcl.BodyContent
		content, diags = in.Content(spec.schema())
		attrs = content.Attributes
		for _, k := range content.Blocks {
			inner, d := nativeBody(k.Body, spec.block(k.Type))
			diags = append(diags, d...)
			out.Blocks = append(out.Blocks, &hclsyntax.Block{Type: k.Type, Labels: k.Labels, Body: inner,
				TypeRange: k.TypeRange, LabelRanges: k.LabelRanges, OpenBraceRange: k.DefRange, CloseBraceRange: k.DefRange})
		}
	}
	for n, a := range attrs {
		read := nativeExpression
		if spec.name == "variable" && n == "type" {
			read = nativeType
		}
		e, d := read(a.Expr)
		diags = append(diags, d...)
		out.Attributes[n] = &hclsyntax.Attribute{Name: n, Expr: e, SrcRange: a.Range, NameRange: a.NameRange, EqualsRange: a.NameRange}
	}
	return out, diags
}

func (b *block) schema() *hcl.BodySchema {
	s := &hcl.BodySchema{}
	for _, a := range b.attrs {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: a.name})
	}
	if b.repeat {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: "for_each"}, hcl.AttributeSchema{Name: "enabled"})
	}
	for _, k := range b.blocks {
		h := hcl.BlockHeaderSchema{Type: k.name}
		if k.label != "" {
			h.LabelNames = []string{"name"}
		}
		s.Blocks = append(s.Blocks, h)
	}
	return s
}

// nativeExpression converts a JSON value into a native expression. Strings are templates.
func nativeExpression(e hcl.Expression) (hclsyntax.Expression, hcl.Diagnostics) {
	r := e.Range()
	if pairs, d := hcl.ExprMap(e); !d.HasErrors() {
		out := &hclsyntax.ObjectConsExpr{SrcRange: r, OpenRange: e.StartRange()}
		var diags hcl.Diagnostics
		for _, p := range pairs {
			key, d := nativeExpression(p.Key)
			diags = append(diags, d...)
			value, d := nativeExpression(p.Value)
			diags = append(diags, d...)
			out.Items = append(out.Items,
				hclsyntax.ObjectConsItem{KeyExpr: &hclsyntax.ObjectConsKeyExpr{Wrapped: key, ForceNonLiteral: true}, ValueExpr: value})
		}
		return out, diags
	}
	if list, d := hcl.ExprList(e); !d.HasErrors() {
		out := &hclsyntax.TupleConsExpr{SrcRange: r, OpenRange: e.StartRange()}
		var diags hcl.Diagnostics
		for _, x := range list {
			n, d := nativeExpression(x)
			diags = append(diags, d...)
			out.Exprs = append(out.Exprs, n)
		}
		return out, diags
	}
	v, diags := e.Value(nil) // without a context, HCL returns strings literally
	if diags.HasErrors() || v.IsNull() || v.Type() != cty.String {
		return &hclsyntax.LiteralValueExpr{Val: v, SrcRange: r}, diags
	}
	return parseText(v.AsString(), "x = \""+v.AsString()+"\"", r, hclsyntax.ParseTemplate)
}

// nativeType parses a type constraint, which is a string in JSON: "map(string)" is not a template.
func nativeType(e hcl.Expression) (hclsyntax.Expression, hcl.Diagnostics) {
	v, _ := e.Value(nil)
	if v.IsNull() || !v.IsKnown() || v.Type() != cty.String {
		return nativeExpression(e) // typeexpr reports the mistake when it reads the variable block
	}
	return parseText(v.AsString(), v.AsString(), e.Range(), hclsyntax.ParseExpression)
}

// parseText parses the text of a JSON string, which is at the range. guarded is the same text as native source, for guard.
func parseText(text, guarded string, r hcl.Range,
	parse func([]byte, string, hcl.Pos) (hclsyntax.Expression, hcl.Diagnostics)) (hclsyntax.Expression, hcl.Diagnostics) {
	if d := guard([]byte(guarded), r.Filename); d.HasErrors() {
		d[0].Subject = &r
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: r}, d
	}
	out, diags := parse([]byte(text), r.Filename, insideQuote(r))
	if diags.HasErrors() {
		return &hclsyntax.LiteralValueExpr{Val: cty.DynamicVal, SrcRange: r}, diags
	}
	return out, diags
}

// insideQuote returns the position of the first character of a JSON string, after its quote.
func insideQuote(r hcl.Range) hcl.Pos {
	return hcl.Pos{Line: r.Start.Line, Column: r.Start.Column + 1, Byte: r.Start.Byte + 1}
}

// guardJSON rejects sources that would overflow the parser's stack or contain huge numbers.
func guardJSON(src []byte, filename string) hcl.Diagnostics {
	depth, line, start := 0, 1, 0
	at := func(i int) hcl.Range {
		p := hcl.Pos{Line: line, Column: i - start + 1, Byte: i}
		return hcl.Range{Filename: filename, Start: p, End: hcl.Pos{Line: line, Column: p.Column + 1, Byte: i + 1}}
	}
	for i := 0; i < len(src); i++ {
		switch c := src[i]; {
		case c == '\n':
			line, start = line+1, i+1
		case c == '"':
			for i++; i < len(src) && src[i] != '"'; i++ {
				if src[i] == '\\' {
					i++
				}
			}
		case c == '[' || c == '{':
			if depth++; depth > maxDepth {
				return fail(at(i), "Nested too deeply", fmt.Sprintf("Brackets are nested more than %d levels deep.", maxDepth))
			}
		case c == ']' || c == '}':
			depth--
		case c >= '0' && c <= '9' || c == '-':
			from := i
			for i+1 < len(src) && numberByte(src[i+1]) {
				i++
			}
			if hugeNumber(string(src[from : i+1])) {
				return fail(at(from), "Number too large",
					"No setting of a fabric needs a number this large or precise. Write a smaller one.")
			}
		}
	}
	return nil
}

func numberByte(c byte) bool {
	return c >= '0' && c <= '9' || c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-'
}
