package config

import (
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

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
