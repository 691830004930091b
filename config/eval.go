package config

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

const maxValue = 1 << 22 // bytes and elements of one value

// loader is the state of one Load.
type loader struct {
	o      Options
	dir    string
	files  map[string]*hcl.File
	diags  hcl.Diagnostics
	ranges map[fabric.Pos]hcl.Range
	fns    map[string]function.Function

	blocks   map[string][]*hclsyntax.Block
	vars     map[string]cty.Value
	locals   map[string]*hclsyntax.Attribute
	localVal map[string]cty.Value
	busy     map[string]bool
	hostVal  cty.Value // NilVal before the hosts are known
	keyed    map[string]bool
	off      map[fabric.NICRef]bool
	insts    []*hostInstance
	f        *fabric.Fabric
}

func newLoader(path string, o Options) *loader {
	dir := path
	if st, err := os.Stat(path); err == nil && !st.IsDir() {
		dir = filepath.Dir(path)
	}
	return &loader{o: o, dir: dir, files: map[string]*hcl.File{}, ranges: map[fabric.Pos]hcl.Range{}, fns: functions(dir),
		blocks: map[string][]*hclsyntax.Block{}, vars: map[string]cty.Value{}, locals: map[string]*hclsyntax.Attribute{},
		localVal: map[string]cty.Value{}, busy: map[string]bool{}, keyed: map[string]bool{}, off: map[fabric.NICRef]bool{},
		f: &fabric.Fabric{Name: "default"}}
}

func (l *loader) errorf(r hcl.Range, summary, detail string, args ...any) {
	l.diags = append(l.diags, fail(r, summary, fmt.Sprintf(detail, args...))...)
}

func (l *loader) pos(r hcl.Range) fabric.Pos {
	p := fabric.Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
	l.ranges[p] = r
	return p
}

// scope is what an expression may see beside variables and locals.
type scope map[string]cty.Value

func (s scope) with(name string, v cty.Value) scope {
	out := scope{name: v}
	for k, old := range s {
		if k != name {
			out[k] = old
		}
	}
	return out
}

// eval evaluates an expression; ok is false after a reported problem.
func (l *loader) eval(e hcl.Expression, s scope) (cty.Value, bool) {
	ctx := &hcl.EvalContext{Functions: l.fns, Variables: map[string]cty.Value{"var": cty.ObjectVal(l.vars)}}
	for k, v := range s {
		ctx.Variables[k] = v
	}
	if l.hostVal != cty.NilVal {
		ctx.Variables["host"] = l.hostVal
	}
	locals := map[string]cty.Value{}
	for _, t := range e.Variables() {
		if !l.checkRoot(t, ctx) {
			return cty.DynamicVal, false
		}
		if t.RootName() == "local" && len(t) > 1 {
			if a, is := t[1].(hcl.TraverseAttr); is {
				v, ok := l.local(a.Name, a.SrcRange)
				if !ok {
					return cty.DynamicVal, false
				}
				locals[a.Name] = v
			}
		}
	}
	ctx.Variables["local"] = cty.ObjectVal(locals)
	if !l.checkSplats(e) {
		return cty.DynamicVal, false
	}
	v, d := e.Value(ctx)
	l.diags = append(l.diags, d...)
	if d.HasErrors() {
		return v, false
	}
	v, _ = v.UnmarkDeep()
	budget := maxValue
	if !within(v, &budget) {
		l.errorf(e.Range(), "Value too large", "This expression makes more than 4 MiB of data. Check for values that double.")
		return cty.DynamicVal, false
	}
	return v, true
}

func within(v cty.Value, budget *int) bool {
	*budget--
	if *budget < 0 || v.IsNull() || !v.IsKnown() {
		return *budget >= 0
	}
	switch t := v.Type(); {
	case t == cty.String:
		*budget -= len(v.AsString())
	case v.CanIterateElements():
		for it := v.ElementIterator(); it.Next(); {
			if _, e := it.Element(); !within(e, budget) {
				return false
			}
		}
	}
	return *budget >= 0
}

// checkRoot answers references to names that do not exist, or not yet, better than HCL does.
func (l *loader) checkRoot(t hcl.Traversal, ctx *hcl.EvalContext) bool {
	root := t.RootName()
	r := t.SourceRange()
	if _, known := ctx.Variables[root]; !known && root != "local" {
		if root == "host" || root == "nic" || root == "each" || root == "self" {
			l.errorf(r, "Not known here", "%q cannot be used at this place: %s.", root, map[string]string{
				"host": "hosts, their for_each and their NICs are settled before host references are. Use var or local values",
				"nic":  "nic names the host's own NICs inside a host's policy_route and nccl blocks only",
				"each": "the block has no for_each", "self": "self is the host instance, inside host blocks only"}[root])
			return false
		}
		l.errorf(r, "Unknown reference", "There is no %q.%s", root, suggest(root, []string{"var", "local", "host", "nic", "each", "self"}))
		return false
	}
	if len(t) < 2 {
		return true
	}
	a, is := t[1].(hcl.TraverseAttr)
	if !is {
		return true
	}
	if obj := ctx.Variables[root]; root != "local" && root != "each" && obj.Type().IsObjectType() && !obj.Type().HasAttribute(a.Name) {
		l.errorf(r, "Unknown "+root, "No %s %q is declared.%s", root, a.Name, suggest(a.Name, attrNames(obj)))
		return false
	}
	if root == "host" && l.keyed[a.Name] && len(t) > 2 {
		if step, is := t[2].(hcl.TraverseAttr); is && !l.hostVal.GetAttr(a.Name).Type().HasAttribute(step.Name) {
			l.errorf(r, "Host has several instances", "host %q has for_each: name one as host.%s[\"key\"], or use values(host.%s) for all.", a.Name, a.Name, a.Name)
			return false
		}
	}
	return true
}

func (l *loader) checkSplats(e hcl.Expression) bool {
	node, is := e.(hclsyntax.Node)
	if !is {
		return true
	}
	ok := true
	_ = hclsyntax.VisitAll(node, func(n hclsyntax.Node) hcl.Diagnostics {
		sp, is := n.(*hclsyntax.SplatExpr)
		if !is {
			return nil
		}
		src, is := sp.Source.(*hclsyntax.ScopeTraversalExpr)
		if is && len(src.Traversal) == 2 && src.Traversal.RootName() == "host" {
			if a, is := src.Traversal[1].(hcl.TraverseAttr); is && l.keyed[a.Name] {
				l.errorf(sp.Range(), "Splat over a host with for_each", "host.%s is a map of instances, which [*] does not walk. Write values(host.%s)[*].", a.Name, a.Name)
				ok = false
			}
		}
		return nil
	})
	return ok
}

func (l *loader) local(name string, r hcl.Range) (cty.Value, bool) {
	if v, done := l.localVal[name]; done {
		return v, v != cty.NilVal
	}
	a := l.locals[name]
	if a == nil {
		var names []string
		for n := range l.locals {
			names = append(names, n)
		}
		l.errorf(r, "Unknown local", "No local %q is declared.%s", name, suggest(name, names))
		return cty.NilVal, false
	}
	if l.busy[name] {
		l.errorf(a.SrcRange, "Locals in a circle", "local.%s needs its own value. Break the circle.", name)
		l.localVal[name] = cty.NilVal
		return cty.NilVal, false
	}
	l.busy[name] = true
	v, ok := l.eval(a.Expr, scope{})
	delete(l.busy, name)
	if !ok {
		v = cty.NilVal
	}
	l.localVal[name] = v
	return v, ok
}

// forgetHostLocals drops what was computed from hosts, so that the next stratum sees more.
func (l *loader) forgetHostLocals() {
	for n, v := range l.localVal {
		if v != cty.NilVal && !v.IsWhollyKnown() {
			delete(l.localVal, n)
		}
	}
}

func attrNames(v cty.Value) []string {
	var names []string
	for n := range v.Type().AttributeTypes() {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// suggest is " Did you mean …?" for the nearest name, or nothing.
func suggest(name string, names []string) string {
	sort.Strings(names)
	best, at := "", 3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at && d < len(name) {
			best, at = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" Did you mean %q?", best)
}

func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 99
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diag := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diag, row[j+1] = row[j+1], min(diag+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
