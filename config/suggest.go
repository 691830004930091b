package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/nccl/env"
)

// Suggestion is the Extra of a diagnostic that suggests what to write: replacing the range by the text does that.
type Suggestion struct {
	Range hcl.Range
	Text  string
}

// suggested adds a suggestion to the last diagnostic, if there is one.
func (l *loader) suggested(r hcl.Range, text string) {
	if text != "" {
		l.diags[len(l.diags)-1].Extra = Suggestion{r, text}
	}
}

// didYouMean returns " Did you mean …?", or "" for an empty name.
func didYouMean(near string) string {
	if near == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", near)
}

// nearestOrList returns the nearest name and the sentence that suggests it, or a sentence with the names that exist.
func nearestOrList(name string, names []string) (sentence, near string) {
	if near = env.Nearest(name, names); near != "" {
		return didYouMean(near), near
	}
	return listOf(names), ""
}

// listOf returns a sentence with the names that exist.
func listOf(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf(" The only one is %s.", names[0])
	}
	return fmt.Sprintf(" Known names: %s.", listed(names))
}

// listed joins names, or the first of many.
func listed(names []string) string {
	slices.Sort(names)
	if len(names) > 9 { // never "and 1 more"
		return fmt.Sprintf("%s and %d more", strings.Join(names[:8], ", "), len(names)-8)
	}
	return strings.Join(names, ", ")
}

// inStep returns a name as it is written at a step of a reference; "" for no name.
func inStep(step hcl.Traverser, name string) string {
	_, attribute := step.(hcl.TraverseAttr)
	switch {
	case name == "":
		return ""
	case attribute && hclsyntax.ValidIdentifier(name):
		return "." + name
	}
	return "[" + inQuotes(name) + "]"
}

func inQuotes(text string) string {
	return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes())
}

// suggestValue suggests another text for one that stands in an expression, as a literal or as the key of an object. A text that
// comes from somewhere else gets no suggestion.
func (l *loader) suggestValue(e hcl.Expression, cure *replacement) {
	node, is := e.(hclsyntax.Node)
	if !is || cure == nil || cure.near == "" {
		return
	}
	visit(node, func(n hclsyntax.Node) {
		switch n := n.(type) {
		case *hclsyntax.TemplateExpr:
			if v, diags := n.Value(nil); !diags.HasErrors() && v.RawEquals(cty.StringVal(cure.said)) {
				l.suggested(n.Range(), inQuotes(cure.near))
			}
		case *hclsyntax.ObjectConsKeyExpr:
			if hcl.ExprAsKeyword(n) == cure.said && hclsyntax.ValidIdentifier(cure.near) {
				l.suggested(n.Range(), cure.near)
			}
		}
	})
}
