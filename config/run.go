package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/widearea"
)

// value returns the struct that p points to, for decoding into it.
func value(p any) reflect.Value { return reflect.ValueOf(p).Elem() }

// run evaluates the strata in order and checks the result. One mistake does not hide another: a failed
// value is marked, and only what depends on it is skipped.
func (l *loader) run(bodies []*hclsyntax.Body) {
	whole := &hclsyntax.Body{Attributes: hclsyntax.Attributes{}}
	for _, b := range bodies {
		maps.Copy(whole.Attributes, b.Attributes)
		whole.Blocks = append(whole.Blocks, b.Blocks...)
	}
	l.names(language(), whole)
	for _, k := range whole.Blocks {
		if kind := language().block(k.Type); kind != nil && (kind.label == "" || len(k.Labels) == 1) {
			l.blocks[k.Type] = append(l.blocks[k.Type], k)
		}
	}
	language().block("validate").defaults(value(&l.f.Validate))
	l.declareLocals()
	l.declareHosts()

	l.variables()
	l.header()
	l.classes()
	l.workloads()
	l.hosts()

	l.nextStratum(l.hostsValue(false))
	l.thresholds(l.blocks["validate"], scope{}, &l.f.Validate)
	l.readNamed("link", l.link)
	l.readNamed("network", l.network)
	l.readNamed("login_mesh", l.loginMesh)
	l.giveMTU()

	l.nextStratum(l.hostsValue(true))
	l.hostRest()
	l.giveClasses()
	for _, k := range l.blocks["nccl"] {
		l.nccl(k, scope{}, &l.f.NCCL)
	}
	for _, n := range slices.Sorted(maps.Keys(l.locals)) {
		l.local(n)
	}
	l.outputs()
	l.check()
}

func (l *loader) declareLocals() {
	for _, k := range l.blocks["locals"] {
		for _, a := range sortedAttributes(k.Body) {
			if o := l.locals[a.Name]; o != nil {
				l.unnamed["local"] = true
				l.duplicate(a.NameRange, "Duplicate local", "local.%s is also declared at %s:%d. Rename one.",
					a.Name, o.NameRange.Filename, o.NameRange.Start.Line)
				continue
			}
			l.locals[a.Name] = a
		}
	}
}

func (l *loader) header() {
	for _, k := range l.blocks["fabric"] {
		if !fabric.IsName(k.Labels[0]) {
			l.errorf(k.LabelRanges[0], "Name not allowed",
				"The name of a fabric begins with a letter or digit and has only letters, digits, '.', '_' and '-'.")
			continue
		}
		var h header
		l.attributes(language().block("fabric"), k.Body, scope{}, value(&h), nil)
		l.f.Name, l.f.Description = k.Labels[0], h.Description
		if h.RequiredVersion != "" {
			l.requireVersion(h.RequiredVersion, k.Body.Attributes["required_version"].Expr.Range())
		}
	}
}

// development matches the versions that Go and the Makefile give to builds between releases: the time of the commit and its
// hash, with or without the release before, and a tree with changes.
var development = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[-.][0-9]{14}-[0-9a-f]{12}|\+dirty$`) })

func (l *loader) requireVersion(want string, r hcl.Range) {
	constraint, err := version.NewConstraint(want)
	if err != nil {
		l.errorf(r, "Not a version constraint", "%q: write a constraint such as \">= 0.1.0\" or \">= 0.1.0, < 2.0.0\".", want)
		return
	}
	have, err := version.NewVersion(l.options.Version)
	if err == nil && !development().MatchString(l.options.Version) && !constraint.Check(have.Core()) {
		l.errorf(r, "Wrong version", "This is fabricform %s, but the fabric requires %s. Use another release, or change required_version.",
			l.options.Version, want)
	}
}

func (l *loader) outputs() {
	seen := map[string]bool{}
	for _, k := range l.blocks["output"] {
		name := k.Labels[0]
		if seen[name] {
			l.duplicate(k.DefRange(), "Duplicate output", "Another output is named %q. Rename one.", name)
		}
		seen[name] = true
		var o output
		l.attributes(language().block("output"), k.Body, scope{}, value(&o), nil)
		a := k.Body.Attributes["value"]
		if a == nil && !l.mistaken[k.Body] {
			l.errorf(k.Body.MissingItemRange(), "Missing attribute", "An output needs a value.")
		}
		if a == nil {
			continue
		}
		v, ok := l.evalMarked(a.Expr, scope{})
		if !ok {
			continue
		}
		bare, marks := v.UnmarkDeep()
		if _, hidden := marks[secret{}]; hidden && !o.Sensitive {
			l.errorf(a.Expr.Range(), "Output shows a sensitive value", "Output %q uses a sensitive variable. Add sensitive = true.", name)
			continue
		}
		if !bare.IsWhollyKnown() {
			l.notYet(a.Expr, scope{}, marks)
			continue
		}
		text, err := ctyjson.Marshal(bare, bare.Type())
		if err != nil {
			l.say(a.Expr, scope{}, "Wrong type", "This value cannot be written as JSON: "+err.Error()+".")
			continue
		}
		l.f.Outputs = append(l.f.Outputs, fabric.Output{Name: name, Description: o.Description, Sensitive: o.Sensitive, JSON: text})
	}
	slices.SortFunc(l.f.Outputs, func(x, y fabric.Output) int { return strings.Compare(x.Name, y.Name) })
}

// check adds the problems that package fabric finds in the whole model.
func (l *loader) check() {
	slices.SortFunc(l.f.Hosts, func(a, b *fabric.Host) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.f.Links, func(a, b *fabric.Link) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.f.LoginMeshes, func(a, b *fabric.LoginMesh) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.f.Classes, func(a, b *fabric.QoS) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.f.Workloads, func(a, b *fabric.Workload) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.f.Networks, func(a, b *fabric.Network) int { return strings.Compare(a.Name, b.Name) })
	wrong := l.diags.HasErrors()
	for _, p := range slices.Concat(fabric.Check(l.f), widearea.Check(l.f)) {
		if p.Absence && wrong {
			continue
		}
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: p.Summary, Detail: p.Detail}
		if p.Severity == fabric.Warning {
			d.Severity = hcl.DiagWarning
		}
		if r, ok := l.ranges[p.Pos]; ok {
			d.Subject = &r
		}
		l.diags = append(l.diags, d)
	}
	l.environments()
	if l.options.Validating {
		if len(l.f.Hosts) == 0 && !l.diags.HasErrors() { // otherwise a mistake in a host may be the reason
			l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "No hosts",
				Detail: "The files declare no host, so no command can compare or change anything. " +
					"Add a host block, or name the files that have them."})
		}
		l.bundles()
	}
}

// bundles looks for the bundles, which only an installation reads.
func (l *loader) bundles() {
	for _, h := range l.f.Hosts {
		if h.OFED == nil || h.OFED.Bundle == "" {
			continue
		}
		info, err := os.Stat(h.OFED.Bundle)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("not a file")
		}
		var at *hcl.Range
		if r, ok := l.ranges[h.OFED.At("bundle")]; ok {
			at = &r
		}
		if err != nil {
			l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Bundle not found", Subject: at,
				Detail: fmt.Sprintf("Hosts that lack this stack get it from this file, which cannot be read: %v. "+
					"Correct the path, or put the file there.", err)})
		}
	}
}

// object makes a cty object. cty.ObjectVal does not accept an empty map.
func object(m map[string]cty.Value) cty.Value {
	if len(m) == 0 {
		return cty.EmptyObjectVal
	}
	return cty.ObjectVal(m)
}
