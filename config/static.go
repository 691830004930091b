package config

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/nccl/env"
)

// static checks the references of an expression, once per expression. It reports names that cannot
// exist at this place, and splats that do not do what they appear to do.
func (l *loader) static(e hcl.Expression, s scope) bool {
	if good, done := l.statics[e]; done {
		return good
	}
	before := len(l.diags)
	l.silent = false
	for _, t := range e.Variables() {
		l.reference(t, s)
	}
	l.literals(e)
	good := len(l.diags) == before && !l.silent
	l.statics[e] = good
	return good
}

var roots = map[string]string{
	"nic": "nic refers to the NICs of the enclosing host, in its bond, vlan, route, policy_route, rxe and nccl blocks; elsewhere write " +
		"host.NAME.nic.NAME, or [for h in values(host) : h.nic.NAME] for one NIC of each host",
	"bond": "the members of a bond are NICs; the blocks vlan, route, policy_route, rxe and nccl of the same host may use bond.NAME; " +
		"outside the host write host.NAME.bond.NAME",
	"vlan": "a VLAN is on a NIC or a bond, and the members of a bond are NICs; the blocks route, policy_route, rxe and nccl of the same host may use " +
		"vlan.NAME; outside the host write host.NAME.vlan.NAME",
	"each": "the block has no for_each",
	"self": "self refers to the enclosing host instance and is available only inside host blocks",

	"link":               "a link has no values of its own. Use those of its NICs, such as host.a.nic.rail0.ip",
	"network":            "a network has no values of its own. Use those of its NICs, such as host.a.nic.rail0.ip, or put the subnet into a local",
	"count":              "fabricform has no count. In a block with for_each, each.key is the name of the instance",
	"item":               "for_each repeats a block, and each.value is the value of the instance",
	"inventory_hostname": "self.name is the name of the host",
	"hostvars":           "host.NAME is another host, and local.NAME a value for all",
	"data":               `the function file reads a file, as in jsondecode(file("hosts.json"))`,
	"module":             "fabricform has no modules. Use a local for a value that several places need",
	"path":               "names of files are relative to the file that names them: leave path.module out",
	"terraform":          "fabricform has no workspaces. Use a variable for a value that differs between runs",
	"env":                "a variable reads the environment: declare variable \"NAME\" {}, and set FABRICFORM_VAR_NAME",
}

// otherRoots are words for the first part of a reference.
var otherRoots = map[string]string{"variable": "var", "variables": "var", "vars": "var", "locals": "local", "hosts": "host"}

// truth has the words for true and false in YAML, and in Python.
var truth = map[string]string{"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}

func (l *loader) reference(t hcl.Traversal, s scope) {
	root, r := t.RootName(), t.SourceRange()
	name, named := second(t)
	switch root {
	case "var":
		l.declared("variable", t, l.vars.Type().HasAttribute(name), maps.Keys(l.vars.Type().AttributeTypes()))
	case "local":
		l.declared("local", t, l.locals[name] != nil, maps.Keys(l.locals))
	case "host":
		if l.declared("host", t, l.hostBlocks[name] != nil, maps.Keys(l.hostBlocks)) && named {
			l.hostReference(t, l.hostBlocks[name])
		}
	case "qos":
		l.declared("qos", t, l.declares("qos", name), l.labels("qos"))
	case "workload":
		l.declared("workload", t, l.declares("workload", name), l.labels("workload"))
	default:
		if _, known := s[root]; known {
			return
		}
		if why := roots[root]; why != "" {
			l.errorf(r, "Unknown reference", "%q cannot be used here: %s.", root, why)
			return
		}
		names := []string{"var", "local", "host", "qos", "workload"}
		for n := range s {
			names = append(names, n)
		}
		if l.maybeLost("", root) {
			return
		}
		near := env.Nearest(root, names)
		if otherRoots[root] != "" {
			near = otherRoots[root]
		}
		cure := didYouMean(near)
		switch {
		case l.hostBlocks[root] != nil:
			near = "host." + root
			cure = fmt.Sprintf(" Did you mean %s?", near)
		case functionDocs[root].doc != "":
			near, cure = "", fmt.Sprintf(" %s is a function: write %s(…).", root, root)
		case slices.Contains(sysctlRoots, root):
			near, cure = "", fmt.Sprintf(" A key with dots needs quotes: %q.", written(t))
		case truth[strings.ToLower(root)] != "" && len(t) == 1:
			near = truth[strings.ToLower(root)]
			cure = fmt.Sprintf(" Did you mean %s?", near)
		case l.declares("qos", root), l.declares("workload", root):
			near = "qos." + root
			if !l.declares("qos", root) {
				near = "workload." + root
			}
			cure = fmt.Sprintf(" Did you mean %s?", near)
		case len(t) == 1: // a lone word is text more often than a mistyped reference
			near, cure = "", fmt.Sprintf(" If this is text, write \"%s\" in quotes.", root)
		}
		l.errorf(r, "Unknown reference", "There is no %q. References begin with var, local, host, nic, bond, vlan, qos, workload, each or self.%s", root, cure)
		l.suggested(t[0].SourceRange(), near)
	}
}

// labels returns the names of the blocks of a kind.
func (l *loader) labels(kind string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, k := range l.blocks[kind] {
			if !yield(k.Labels[0]) {
				return
			}
		}
	}
}

// declares reports whether a block of a kind has the name.
func (l *loader) declares(kind, name string) bool {
	for label := range l.labels(kind) {
		if label == name {
			return true
		}
	}
	return false
}

// declared checks the name after var, local or host. A bare host stands for all hosts. The names are listed only for a message,
// because a large fabric has many.
func (l *loader) declared(what string, t hcl.Traversal, known bool, names iter.Seq[string]) bool {
	name, named := second(t)
	if !named || known {
		return true
	}
	if l.maybeLost(what, name) {
		return false
	}
	cure, near := nearestOrList(name, slices.Collect(names))
	if cure == "" {
		cure = map[string]string{"variable": fmt.Sprintf(" Declare it: variable %q {}.", name),
			"local": fmt.Sprintf(" Declare it in a locals block: %s = ….", name), "host": fmt.Sprintf(" Declare it: host %q { … }.", name)}[what]
	}
	for host := range l.hostBlocks {
		if what == "host" && strings.HasPrefix(dotted(t[1:])+".", host+".") {
			cure, near = fmt.Sprintf(" A name with dots needs brackets: write host[%q].", host), ""
		}
	}
	l.errorf(t.SourceRange(), "Unknown "+what, "No %s %q is declared.%s", what, name, cure)
	l.suggested(t[1].SourceRange(), inStep(t[1], near))
	return false
}

// dotted joins the names of a reference up to the first index.
func dotted(t hcl.Traversal) string {
	var names []string
	for _, step := range t {
		a, is := step.(hcl.TraverseAttr)
		if !is {
			break
		}
		names = append(names, a.Name)
	}
	return strings.Join(names, ".")
}

// maybeLost reports whether a name that seems to be missing may be declared by a block whose own name or kind is mistaken: that is
// reported there.
func (l *loader) maybeLost(what, name string) bool {
	lost := l.lost[name] || l.unnamed[what]
	l.silent = l.silent || lost
	return lost
}

// hostReference checks host.NAME… against the blocks, before anything is evaluated.
func (l *loader) hostReference(t hcl.Traversal, h *hostBlock) {
	rest := t[2:]
	if len(rest) == 0 {
		return
	}
	if step, is := rest[0].(hcl.TraverseAttr); is && h.keyed && h.has(step.Name) {
		l.errorf(t.SourceRange(), "Host has several instances",
			"host %q has for_each. Refer to one instance as host.%s[\"key\"].%s, or to all as values(host.%s)[*].%s.",
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
		near := env.Nearest(step.Name, hostAttributes)
		cure, text := didYouMean(near), inStep(step, near)
		for _, kind := range nicKinds {
			if h.nicBlocks[kind][step.Name] {
				cure, text = fmt.Sprintf(" Did you mean %s.%s?", kind, step.Name), "."+kind+"."+step.Name
			}
		}
		l.errorf(t.SourceRange(), "Unknown attribute", "A host has no %q; it has %s.%s",
			step.Name, strings.Join(hostAttributes, ", "), cure)
		l.suggested(step.SourceRange(), text)
		return
	}
	if !slices.Contains(nicKinds, step.Name) || len(rest) < 2 {
		return
	}
	l.nicReference(t, step.Name, rest[1], h)
}

func (l *loader) nicReference(t hcl.Traversal, kind string, step hcl.Traverser, h *hostBlock) {
	nic, is := step.(hcl.TraverseAttr)
	if !is || h.nicBlocks[kind][nic.Name] || l.maybeLost(kind, nic.Name) {
		return
	}
	var names []string
	for n := range h.nicBlocks[kind] {
		names = append(names, n)
	}
	cure, near := nearestOrList(nic.Name, names)
	for _, other := range nicKinds {
		if h.nicBlocks[other][nic.Name] {
			l.errorf(t.SourceRange(), "Unknown NIC", "Host %q has no %s block %q. Write %s.%s.", h.name, kind, nic.Name, other, nic.Name)
			return
		}
	}
	l.errorf(t.SourceRange(), "Unknown NIC", "Host %q has no %s block %q.%s", h.name, kind, nic.Name, cure)
	l.suggested(step.SourceRange(), inStep(step, near))
}

// literals reports what HCL accepts silently: two equal keys in an object, of which only the last counts, and host.h[*] over a
// host with for_each, which makes a list with one map.
func (l *loader) literals(e hcl.Expression) {
	node, is := e.(hclsyntax.Node)
	if !is {
		return
	}
	visit(node, func(n hclsyntax.Node) {
		if o, is := n.(*hclsyntax.ObjectConsExpr); is {
			l.keys(o)
		}
		sp, is := n.(*hclsyntax.SplatExpr)
		if !is {
			return
		}
		src, is := sp.Source.(*hclsyntax.ScopeTraversalExpr)
		if !is || len(src.Traversal) > 2 || src.Traversal.RootName() != "host" {
			return
		}
		if len(src.Traversal) == 1 {
			l.errorf(sp.Range(), "Splat over all hosts", "host is a map of all hosts, and a splat does not iterate over a map. "+
				"Write values(host)[*], or [for h in values(host) : h.nic.rail0].")
			return
		}
		if name, ok := second(src.Traversal); ok && l.hostBlocks[name] != nil && l.hostBlocks[name].keyed {
			l.errorf(sp.Range(), "Splat over a host with for_each",
				"host.%s is a map of instances, and [*] does not iterate over a map. Write values(host.%s)[*].", name, name)
		}
	})
}

func (l *loader) keys(o *hclsyntax.ObjectConsExpr) {
	seen := map[string]bool{}
	for _, item := range o.Items {
		name, ok := writtenKey(item.KeyExpr)
		if ok && seen[name] {
			l.errorf(item.KeyExpr.Range(), "Duplicate key", "%q is already a key here, and only the last value would count. Rename or remove one.", name)
		}
		seen[name] = true
	}
}
