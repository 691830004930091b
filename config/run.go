package config

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/fabricform/fabricform/fabric"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// run evaluates the strata in order and checks the result.
func (l *loader) run(bodies []*hclsyntax.Body) *fabric.Fabric {
	for _, b := range bodies {
		l.known(b, "fabric variable locals ssh host link nccl validate", "network output")
		for _, k := range b.Blocks {
			l.blocks[k.Type] = append(l.blocks[k.Type], k)
		}
	}
	for _, t := range []string{"fabric", "ssh", "nccl", "validate"} {
		if ks := l.blocks[t]; len(ks) > 1 {
			l.errorf(ks[1].DefRange(), "Block stands twice", "A fabric has one %s block. Merge them.", t)
		}
	}
	l.variables()
	for _, k := range l.blocks["locals"] {
		for n, a := range k.Body.Attributes {
			if l.locals[n] != nil {
				l.errorf(a.NameRange, "Local stands twice", "local.%s is declared elsewhere too. Rename one.", n)
			}
			l.locals[n] = a
		}
	}
	l.header()
	l.f.Validate = defaultValidate()
	for _, k := range l.blocks["validate"] {
		l.validate(k.Body, scope{}, &l.f.Validate)
	}
	l.hosts()
	if l.diags.HasErrors() {
		return nil
	}
	l.hostVal = l.hostsValue(false)
	l.links()
	l.hostVal = l.hostsValue(true)
	l.forgetHostLocals()
	l.hostRest()
	for _, k := range l.blocks["nccl"] {
		l.f.NCCL = l.nccl(k, scope{})
	}
	for n, a := range l.locals {
		l.local(n, a.NameRange)
	}
	sort.Slice(l.f.Hosts, func(i, j int) bool { return l.f.Hosts[i].Name < l.f.Hosts[j].Name })
	sort.Slice(l.f.Links, func(i, j int) bool { return l.f.Links[i].Name < l.f.Links[j].Name })
	if l.diags.HasErrors() {
		return nil
	}
	for _, p := range fabric.Check(l.f) {
		d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: p.Summary, Detail: p.Detail}
		if p.Severity == fabric.Warning {
			d.Severity = hcl.DiagWarning
		}
		if r, ok := l.ranges[p.Pos]; ok {
			d.Subject = &r
		}
		l.diags = append(l.diags, d)
	}
	return l.f
}

func (l *loader) header() {
	for _, k := range l.blocks["fabric"] {
		if len(k.Labels) != 1 || !nameShape.MatchString(k.Labels[0]) {
			l.errorf(k.DefRange(), "Fabric needs a name", "Write fabric \"name\" { … } with letters, digits, '.', '_' and '-'.")
			continue
		}
		l.known(k.Body, "description required_version", "")
		b := body{l, k.Body, scope{}}
		l.f.Name, l.f.Description = k.Labels[0], b.str("description")
		want := b.str("required_version")
		if ok, err := satisfies(l.o.Version, want); err != nil {
			l.errorf(b.rng("required_version"), "Not a version constraint", "%s. Write one such as \">= 0.1.0\".", err)
		} else if !ok {
			l.errorf(b.rng("required_version"), "Wrong version", "This is fabricform %s, but the fabric wants %s.", l.o.Version, want)
		}
	}
}

func satisfies(version, want string) (bool, error) {
	if want == "" {
		return true, nil
	}
	all := true
	for _, c := range strings.Split(want, ",") {
		c = strings.TrimSpace(c)
		op := strings.TrimSpace(c[:len(c)-len(strings.TrimLeft(c, "<>=!~ "))])
		w, err := parseVersion(strings.TrimLeft(c, "<>=!~ "))
		if err != nil {
			return false, err
		}
		v, err := parseVersion(version)
		if err != nil {
			continue // a development build satisfies everything
		}
		cmp := 0
		for i := 2; i >= 0; i-- {
			if v[i] != w[i] {
				cmp = v[i] - w[i]
			}
		}
		switch op {
		case "", "=":
			all = all && cmp == 0
		case "!=":
			all = all && cmp != 0
		case ">=":
			all = all && cmp >= 0
		case ">":
			all = all && cmp > 0
		case "<=":
			all = all && cmp <= 0
		case "<":
			all = all && cmp < 0
		case "~>":
			all = all && cmp >= 0 && v[0] == w[0] && (strings.Count(c, ".") < 2 || v[1] == w[1])
		default:
			return false, fmt.Errorf("%q is no operator", op)
		}
	}
	return all, nil
}

func parseVersion(s string) (v [3]int, err error) {
	s, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimSpace(s), "v"), "-")
	for i, p := range strings.SplitN(s, ".", 3) {
		if _, err = fmt.Sscanf(p, "%d", &v[i]); err != nil {
			return v, fmt.Errorf("%q is no version", s)
		}
	}
	return v, nil
}

func (l *loader) variables() {
	given := l.given()
	for _, k := range l.blocks["variable"] {
		if len(k.Labels) != 1 {
			l.errorf(k.DefRange(), "One name needed", "Write variable \"name\" { … }.")
			continue
		}
		n := k.Labels[0]
		l.known(k.Body, "type default description sensitive validation", "")
		t := cty.DynamicPseudoType
		if a := k.Body.Attributes["type"]; a != nil {
			tt, d := typeexpr.TypeConstraint(a.Expr)
			l.diags = append(l.diags, d...)
			t = tt
		}
		v, ok := given[n]
		delete(given, n)
		if a := k.Body.Attributes["default"]; !ok && a != nil {
			v, ok = l.eval(a.Expr, scope{})
		}
		if !ok {
			l.errorf(k.DefRange(), "Variable has no value", "Give one: -var %s=…, a *.auto.fabricvars file, FABRICFORM_VAR_%s, or a default.", n, n)
			v = cty.DynamicVal
		}
		c, err := convert.Convert(v, t)
		if err != nil {
			l.errorf(k.DefRange(), "Wrong type", "The value of variable %s does not fit its type: %s.", n, err)
			c = cty.DynamicVal
		}
		l.vars[n] = c
	}
	for n := range given {
		l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Unknown variable", Detail: fmt.Sprintf("A value is given for %q, which no variable block declares.", n)})
	}
	for _, k := range l.blocks["variable"] {
		for _, vb := range k.Body.Blocks {
			b := body{l, vb.Body, scope{}}
			if !b.boolean("condition", true) {
				l.errorf(b.rng("condition"), "Value not accepted", "%s", b.str("error_message"))
			}
		}
	}
}

// given collects values in Terraform's precedence, the last winning.
func (l *loader) given() map[string]cty.Value {
	out := map[string]cty.Value{}
	declared := map[string]*hclsyntax.Block{}
	for _, k := range l.blocks["variable"] {
		if len(k.Labels) == 1 {
			declared[k.Labels[0]] = k
		}
	}
	set := func(n, s string) {
		out[n] = cty.StringVal(s)
		if k := declared[n]; k != nil && k.Body.Attributes["type"] != nil {
			if t, _ := typeexpr.TypeConstraint(k.Body.Attributes["type"].Expr); !t.IsPrimitiveType() && guard([]byte(s), n) == nil {
				if e, d := hclsyntax.ParseExpression([]byte(s), "value of "+n, hcl.InitialPos); !d.HasErrors() {
					if v, ok := l.eval(e, scope{}); ok {
						out[n] = v
					}
				}
			}
		}
	}
	for _, e := range l.o.Env {
		if n, v, ok := strings.Cut(strings.TrimPrefix(e, "FABRICFORM_VAR_"), "="); ok && strings.HasPrefix(e, "FABRICFORM_VAR_") && declared[n] != nil {
			set(n, v)
		}
	}
	auto, _ := filepath.Glob(filepath.Join(l.dir, "*.auto.fabricvars"))
	sort.Strings(auto)
	for _, f := range append(auto, l.o.VarFiles...) {
		if _, err := os.Stat(f); err != nil {
			l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: "Cannot read a value file", Detail: err.Error() + "."})
			continue
		}
		total := 0
		if b := l.parse(f, &total); b != nil {
			for n, a := range b.Attributes {
				if v, ok := l.eval(a.Expr, scope{}); ok {
					out[n] = v
				}
			}
		}
	}
	for _, v := range l.o.Vars {
		n, s, _ := strings.Cut(v, "=")
		set(n, s)
	}
	return out
}
