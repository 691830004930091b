package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// declaredVariable is a decoded variable block.
type declaredVariable struct {
	block    *hclsyntax.Block
	spec     variable
	typ      cty.Type
	defaults *typeexpr.Defaults
}

// givenValue is the value of a variable and its source.
type givenValue struct {
	value  cty.Value
	source string     // for messages
	at     *hcl.Range // its position in a value file; nil otherwise
}

func (l *loader) variables() {
	vars := map[string]*declaredVariable{}
	var order []string
	for _, k := range l.blocks["variable"] {
		if len(k.Labels) != 1 {
			continue // reported by names
		}
		name := k.Labels[0]
		if !hclsyntax.ValidIdentifier(name) {
			l.errorf(k.LabelRanges[0], "Name not allowed",
				"The name of a variable begins with a letter and has only letters, digits, '_' and '-', as in var.NAME.")
			continue
		}
		if vars[name] != nil {
			l.unnamed["variable"] = true
			l.duplicate(k.DefRange(), "Duplicate variable", "variable %q is also declared at %s:%d. Rename one.",
				name, vars[name].block.TypeRange.Filename, vars[name].block.TypeRange.Start.Line)
			continue
		}
		vars[name] = l.declare(k)
		order = append(order, name)
	}
	given := l.collectValues(vars)
	values := map[string]cty.Value{}
	for _, name := range order {
		values[name] = l.resolve(name, vars[name], given)
	}
	l.vars = cty.ObjectVal(values)
	for _, name := range order {
		l.validate(name, vars[name], values[name])
	}
}

func (l *loader) declare(k *hclsyntax.Block) *declaredVariable {
	d := &declaredVariable{block: k, typ: cty.DynamicPseudoType}
	l.attributes(language().block("variable"), k.Body, scope{}, value(&d.spec), nil)
	if a := k.Body.Attributes["type"]; a != nil {
		t, def, diags := typeexpr.TypeConstraintWithDefaults(a.Expr)
		for _, wrong := range diags {
			wrong.Detail += typeCure(a.Expr)
		}
		l.diags = append(l.diags, diags...)
		if !diags.HasErrors() {
			d.typ, d.defaults = t, def
		}
	}
	if d.spec.Sensitive {
		l.f.Sensitive = append(l.f.Sensitive, k.Labels[0])
		if a := k.Body.Attributes["default"]; a != nil {
			l.hideRange(a.Expr.Range())
		}
	}
	return d
}

// otherTypes are words of other languages for types.
var otherTypes = map[string]string{"int": "number", "integer": "number", "float": "number", "str": "string", "text": "string", "boolean": "bool",
	"list": "list(string)", "array": "list(string)", "set": "set(string)", "map": "map(string)", "dict": "map(string)", "object": "object({ name = string })"}

// typeCure says how to write the type of a variable.
func typeCure(e hcl.Expression) string {
	said := hcl.ExprAsKeyword(e)
	if v, diags := e.Value(nil); !diags.HasErrors() {
		said, _ = plainString(v)
	}
	switch {
	case said == "string" || said == "number" || said == "bool" || said == "any":
		return fmt.Sprintf(" Write type = %s, without quotes.", said)
	case otherTypes[said] != "":
		return fmt.Sprintf(" Write type = %s.", otherTypes[said])
	}
	return " Types are string, number, bool, any, list(…), set(…), map(…) and object({ … })."
}

// resolve returns the variable's value: given or default, converted to its type.
func (l *loader) resolve(name string, d *declaredVariable, given map[string]givenValue) cty.Value {
	bad := cty.DynamicVal.Mark(failed{})
	g, ok := given[name]
	place := d.block.DefRange()
	if !ok {
		a := d.block.Body.Attributes["default"]
		if a == nil && (l.options.Editing || l.mistaken[d.block.Body]) {
			return bad
		}
		if a == nil {
			l.errorf(place, "Variable has no value", "Set it with -var %s=…, in %s, FABRICFORM_VAR_%s or a default.", name, valuesFile, name)
			return bad
		}
		if len(a.Expr.Variables()) > 0 {
			l.errorf(a.Expr.Range(), "Reference in a default", "The default of a variable has no references. Put the expression into a local.")
			return bad
		}
		v, ok := l.eval(a.Expr, scope{})
		if !ok {
			return bad
		}
		g, place = givenValue{v, "its default", nil}, a.Expr.Range()
	}
	if g.at != nil {
		place = *g.at
	}
	v := g.value
	if v.ContainsMarked() {
		return bad
	}
	if d.spec.Sensitive {
		l.hide(v)
	}
	if d.defaults != nil && !v.IsNull() {
		v = d.defaults.Apply(v)
	}
	c, err := convert.Convert(v, d.typ)
	if err != nil {
		l.errorf(place, "Wrong type", "The value of variable %q from %s does not fit its type: %s.", name, g.source, err)
		return bad
	}
	if d.spec.Sensitive {
		l.hide(c)
		c = c.Mark(secret{})
	}
	return c
}

func (l *loader) validate(name string, d *declaredVariable, v cty.Value) {
	if _, marks := v.UnmarkDeep(); marks != nil {
		if _, bad := marks[failed{}]; bad {
			return
		}
	}
	for _, k := range sub(d.block.Body, "validation") {
		condition, message := k.Body.Attributes["condition"], k.Body.Attributes["error_message"]
		if (condition == nil || message == nil) && l.mistaken[k.Body] {
			continue
		}
		if condition == nil || message == nil {
			l.errorf(k.DefRange(), "Missing attribute", "A validation needs condition and error_message.")
			continue
		}
		c, ok := l.eval(condition.Expr, scope{})
		if !ok {
			continue
		}
		b, err := convert.Convert(c, cty.Bool)
		if err != nil || b.IsNull() {
			l.errorf(condition.Expr.Range(), "Wrong type", "condition must be true or false.")
			continue
		}
		if b.True() {
			continue
		}
		detail := "The value does not meet the condition."
		if m, ok := l.eval(message.Expr, scope{}); ok && !m.IsNull() {
			if s, ok := text(m); ok {
				detail = s
			}
		}
		l.errorf(condition.Expr.Range(), "Invalid value", "variable %q: %s", name, detail)
	}
}

// collectValues collects the values of variables in Terraform's order of precedence; later ones override.
func (l *loader) collectValues(vars map[string]*declaredVariable) map[string]givenValue {
	out := map[string]givenValue{}
	l.environment(vars, out)
	for _, f := range l.autoFiles() {
		l.valueFile(Input{File: f}, vars, out)
	}
	for _, in := range l.options.Inputs {
		if in.File != "" {
			l.valueFile(in, vars, out)
			continue
		}
		n, s, ok := strings.Cut(in.Var, "=")
		switch n = strings.TrimSpace(n); {
		case !ok:
			l.outside("Invalid value", "Write -var name=value.")
		case vars[n] == nil:
			cure, _ := nearestOrList(n, slices.Sorted(maps.Keys(vars)))
			l.outside("Unknown variable", fmt.Sprintf("-var %s: no variable block declares %q.%s", n, n, cure))
		case in.Again && !vars[n].spec.Sensitive:
			l.outside("Value is in the saved plan", fmt.Sprintf("-var %s: %s", n, again(n)))
		default:
			out[n] = l.fromText(s, "-var", vars[n])
		}
	}
	return out
}

// environmentPrefix begins the names of environment variables that set variables.
const environmentPrefix = "FABRICFORM_VAR_"

// environment collects the values of the environment. Names match without regard to case, because Windows and some CI systems have
// only upper-case names; a name that matches exactly wins.
func (l *loader) environment(vars map[string]*declaredVariable, out map[string]givenValue) {
	given := map[string]string{}
	for _, e := range l.options.Env {
		if name, v, ok := strings.Cut(e, "="); ok && strings.HasPrefix(name, environmentPrefix) {
			given[strings.TrimPrefix(name, environmentPrefix)] = v
		}
	}
	known := slices.Sorted(maps.Keys(vars))
	from := map[string]string{} // by variable: the name that set it, although it is not the exact one
	for _, name := range slices.Sorted(maps.Keys(given)) {
		full := environmentPrefix + name
		if vars[name] != nil {
			out[name] = l.fromText(given[name], full, vars[name])
			continue
		}
		like := slices.DeleteFunc(slices.Clone(known), func(v string) bool { return !strings.EqualFold(v, name) })
		if len(like) == 0 {
			cure, _ := nearestOrList(name, slices.Clone(known))
			l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: "Unknown variable in the environment",
				Detail: fmt.Sprintf("%s sets nothing: no variable block declares %q.%s", full, name, cure)})
			continue
		}
		like = slices.DeleteFunc(like, func(v string) bool { _, exact := given[v]; return exact })
		switch {
		case len(like) == 0: // every one is given by its exact name
		case len(like) > 1:
			l.outside("Ambiguous variable in the environment", fmt.Sprintf("%s may mean %s. Use the exact name.", full, strings.Join(like, " or ")))
		case from[like[0]] != "":
			l.outside("Ambiguous variable in the environment", fmt.Sprintf("%s and %s both set %s. Keep one, or use the exact name: %s.",
				from[like[0]], full, like[0], environmentPrefix+like[0]))
		default:
			from[like[0]] = full
			out[like[0]] = l.fromText(given[name], full, vars[like[0]])
		}
	}
}

// outside reports a problem that has no place in a file.
func (l *loader) outside(summary, detail string) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail})
}

// valuesFile is read without being named, before all *.auto.fabricvars, as Terraform reads terraform.tfvars.
const valuesFile = "fabricform.fabricvars"

func (l *loader) autoFiles() []string {
	entries, err := os.ReadDir(l.dir)
	if err != nil {
		return nil // Files has just read this directory without an error
	}
	var out []string
	var first []string
	for _, e := range entries { // sorted by name
		switch n := e.Name(); {
		case n == valuesFile || n == valuesFile+".json":
			first = append(first, filepath.Join(l.dir, n))
		case strings.HasSuffix(n, ".auto.fabricvars") || strings.HasSuffix(n, ".auto.fabricvars.json"):
			out = append(out, filepath.Join(l.dir, n))
		}
	}
	return append(first, out...)
}

func (l *loader) valueFile(in Input, vars map[string]*declaredVariable, out map[string]givenValue) {
	total, name := 0, in.File
	body := l.parse(name, &block{name: "value file", free: true}, &total)
	if body == nil {
		if len(l.f.Sensitive) > 0 { // the values of the file are unknown
			delete(l.files, name)
		}
		return
	}
	for _, k := range body.Blocks {
		l.errorf(k.TypeRange, "Block in a value file", "A value file has only lines such as name = value.")
	}
	for _, a := range sortedAttributes(body) {
		// a misspelt name may be the one of a sensitive variable
		if slices.Contains(l.f.Sensitive, a.Name) || vars[a.Name] == nil && len(l.f.Sensitive) > 0 {
			l.hideRange(a.Expr.Range())
		}
		if vars[a.Name] == nil {
			cure, near := nearestOrList(a.Name, slices.Sorted(maps.Keys(vars)))
			l.errorf(a.NameRange, "Unknown variable", "No variable block declares %q.%s", a.Name, cure)
			l.suggested(a.NameRange, near)
			continue
		}
		if in.Again && !vars[a.Name].spec.Sensitive {
			l.errorf(a.NameRange, "Value is in the saved plan", "%s", again(a.Name))
			continue
		}
		if len(a.Expr.Variables()) > 0 {
			l.errorf(a.Expr.Range(), "Reference in a value file", "A value file has only values. Put expressions into locals.")
			continue
		}
		v, ok := l.eval(a.Expr, scope{})
		if !ok {
			v = cty.DynamicVal.Mark(failed{})
		}
		out[a.Name] = givenValue{v, filepath.Base(name), a.Expr.Range().Ptr()}
	}
}

// again says why a value cannot be given to a saved plan.
func again(variable string) string {
	return fmt.Sprintf("A saved plan has the value of %s; only values of sensitive variables can be given again. "+
		"If the plan was made with this value, leave it out here: the plan remembers its -var and -var-file. Otherwise plan again.",
		variable)
}

// fromText parses a value from the command line or the environment. It is taken literally if the
// variable has a primitive type or none, and otherwise parsed as an expression without references.
func (l *loader) fromText(s, source string, d *declaredVariable) givenValue {
	if d.typ == cty.DynamicPseudoType || d.typ.IsPrimitiveType() {
		return givenValue{cty.StringVal(s), source, nil}
	}
	bad := givenValue{cty.DynamicVal.Mark(failed{}), source, nil}
	diags := guard([]byte(s), source)
	if !diags.HasErrors() {
		var e hclsyntax.Expression
		if e, diags = hclsyntax.ParseExpression([]byte(s), source, hcl.InitialPos); !diags.HasErrors() {
			l.meter.measure(e)
			var v cty.Value
			if v, diags = l.meter.value(e, &hcl.EvalContext{Functions: l.functions}); !diags.HasErrors() {
				return givenValue{v, source, nil}
			}
		}
	}
	if d.spec.Sensitive {
		diags[0].Detail = "it is not a value."
	}
	l.outside("Invalid value", fmt.Sprintf("%s %s: %s Write the value as in a value file, such as '[\"a\", \"b\"]'.",
		source, d.block.Labels[0], diags[0].Detail))
	return bad
}
