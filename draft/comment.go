package draft

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// clean makes one line of a text for a comment.
func clean(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !fabric.Prints(r) }), " ")
}

// CommentOut turns the innermost block that has the line into a comment, with the reason above it: of a host's blocks the nested one,
// never the host itself, and for a NIC the link or network that names it. It returns nil if there is no such block. key is that of
// Input.Left for a link, a network, a NIC that none of them names, a class of traffic, or a variable of NCCL; "" for others.
func CommentOut(src []byte, line int, why string) (text []byte, key string) {
	f, diags := hclsyntax.ParseConfig(src, "", hcl.InitialPos)
	if diags.HasErrors() {
		return nil, ""
	}
	body, is := f.Body.(*hclsyntax.Body)
	if !is {
		return nil, ""
	}
	var found *hclsyntax.Block
	for _, b := range body.Blocks {
		within := b.Range().Start.Line <= line && line <= b.CloseBraceRange.End.Line
		switch {
		case !within:
		case b.Type == "nccl" && variable(b, line) != "":
			return nil, "env ." + variable(b, line)
		case b.Type == "link" || b.Type == "network" || b.Type == "nccl":
			found = b
		case b.Type == "host":
			for _, in := range b.Body.Blocks {
				switch inside := in.Range().Start.Line <= line && line <= in.CloseBraceRange.End.Line; {
				case inside && slices.Contains([]string{"nic", "bond", "vlan"}, in.Type) && class(in, line) != "":
					return nil, "qos " + class(in, line)
				case inside && slices.Contains([]string{"nic", "bond", "vlan"}, in.Type):
					if found = over(src, body, b.Labels, in); found == nil {
						key = "nic " + strings.Join(slices.Concat(b.Labels, in.Labels), ".")
					}
				case inside && in.Type == "nccl" && variable(in, line) != "":
					return nil, "env " + b.Labels[0] + "." + variable(in, line)
				case inside && in.Type != "ssh":
					found = in
				}
			}
		}
	}
	if found == nil {
		return nil, key
	}
	if found.Type == "link" || found.Type == "network" {
		key = found.Type + " " + strings.Join(found.Labels, " ")
	}
	return commented(src, found, why), key
}

// class returns the class of traffic to which a block refers in that line; "" if there is none.
func class(b *hclsyntax.Block, line int) string {
	attr := b.Body.Attributes["qos"]
	if attr == nil || attr.Range().Start.Line != line {
		return ""
	}
	path, diags := hcl.AbsTraversalForExpr(attr.Expr)
	if diags.HasErrors() || len(path) != 2 {
		return ""
	}
	name, _ := path[1].(hcl.TraverseAttr)
	return name.Name
}

// variable returns the variable of NCCL in that line of a nccl block; "" if there is none.
func variable(nccl *hclsyntax.Block, line int) string {
	attr := nccl.Body.Attributes["env"]
	if attr == nil {
		return ""
	}
	m, is := attr.Expr.(*hclsyntax.ObjectConsExpr)
	if !is {
		return ""
	}
	for _, item := range m.Items {
		name, diags := item.KeyExpr.Value(nil)
		if item.KeyExpr.Range().Start.Line <= line && line <= item.ValueExpr.Range().End.Line && !diags.HasErrors() && name.Type() == cty.String {
			return name.AsString()
		}
	}
	return ""
}

// over returns the link or network that names the NIC.
func over(src []byte, body *hclsyntax.Body, host []string, nic *hclsyntax.Block) (found *hclsyntax.Block) {
	for _, b := range body.Blocks {
		if b.Type != "link" && b.Type != "network" || len(host)+len(nic.Labels) != 2 {
			continue
		}
		named := regexp.MustCompile(regexp.QuoteMeta("host"+member(host[0])+"."+nic.Type+member(nic.Labels[0])) + `[^\w-]`)
		if named.Match(hcl.RangeBetween(b.Range(), b.CloseBraceRange).SliceBytes(src)) {
			found = b
		}
	}
	return found
}

func commented(src []byte, found *hclsyntax.Block, why string) []byte {
	lines := strings.SplitAfter(string(src), "\n")
	var b strings.Builder
	indent := strings.Repeat(" ", found.Range().Start.Column-1)
	for i, l := range lines {
		n := i + 1
		if n == found.Range().Start.Line {
			b.WriteString(indent + "# Left out: " + clean(why) + "\n")
		}
		if n >= found.Range().Start.Line && n <= found.CloseBraceRange.End.Line {
			l = indent + "# " + strings.TrimPrefix(l, indent)
		}
		b.WriteString(l)
	}
	return []byte(b.String())
}
