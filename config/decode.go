package config

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// shape is the form of a text, with an example.
type shape struct {
	re      *regexp.Regexp
	example string
	exact   bool   // case-sensitive; other values are lowered first
	has     string // what the text may have; "": the example says enough
}

var shapes = sync.OnceValue(func() map[string]shape {
	return map[string]shape{
		"mac":     {regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`), `"aa:bb:cc:dd:ee:ff"`, false, ""},
		"pci":     {regexp.MustCompile(`^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`), `"0000:27:00.0"`, false, ""},
		"sha256":  {regexp.MustCompile(`^[0-9a-f]{64}$`), "the 64 digits that sha256sum prints", false, ""},
		"device":  {regexp.MustCompile(`^[a-z0-9_][a-z0-9_.-]{0,62}$`), `"rocep39s0f0"`, false, ""},
		"folder":  {regexp.MustCompile(`^/[A-Za-z0-9_./+-]*[A-Za-z0-9_.+-]$`), `"/opt/nccl-tests/build"`, true, ""},
		"user":    {regexp.MustCompile(`^[a-z_][a-z0-9_.-]{0,31}$`), `"anna"`, true, "lower-case letters, digits, '_', '.' and '-'"},
		"program": {regexp.MustCompile(`^/[A-Za-z0-9_./+-]*[A-Za-z0-9_.+-]$`), `"/opt/venv/bin/python3"`, true, ""},
	}
})

// wrong says why an attribute does not accept a value, and what to write instead.
type wrong struct {
	summary, detail string
	cure            *replacement // what detail suggests; nil: nothing
}

// replacement is a text that is wrong, and the one to write in its place; "": none is known.
type replacement struct{ said, near string }

// typeWrong reports a value of the wrong type, with an example of the right one.
func typeWrong(a *attribute, v cty.Value) *wrong {
	hint := a.hint()
	if s, _ := plainString(v); a.typeName() == typeNumber {
		hint = cmp.Or(withoutUnit(a.name, s), hint)
	}
	if s, _ := plainString(v); quotedReference().MatchString(s) {
		hint = " Remove the quotes: " + s + " is a reference."
	}
	if v := bare(v); (a.name == "on" || a.name == "nics") && instances(v, isNIC) {
		hint = fmt.Sprintf(" Its block has for_each: write …[%q] for one.", attributeNames(v)[0])
	}
	return &wrong{"Wrong type", fmt.Sprintf("%s must be %s; this is %s.%s", a.name, a.typeName(), described(v), hint), nil}
}

// quotedReference matches a text that was meant as a reference.
var quotedReference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(var|local|host|each|self|nic|bond|vlan|workload)\.[A-Za-z_][^ ]*$`)
})

// notText says why a text is not what it seems to be; nil: it is a text. Nobody means var.mtu or {{ mtu }} literally.
func notText(a *attribute, v cty.Value) *wrong {
	s, is := plainString(v)
	switch {
	case !is || a.name == "description":
	case strings.Contains(s, "{{") && strings.Contains(s, "}}"):
		return &wrong{"Template not expanded", a.name + `: fabricform does not expand {{ … }}. Write var.NAME, or "${var.NAME}" inside a text.`, nil}
	case quotedReference().MatchString(s) && !slices.Contains(append([]string{"local", "host"}, nicKinds...), strings.SplitN(s, ".", 2)[0]):
		return &wrong{"Reference in quotes", fmt.Sprintf("%s: %q is a text. Write %s without quotes for the value.", a.name, s, s), nil}
	}
	return nil
}

// numberWithUnit matches a number with a unit as other tools write it, such as 25G, 100Gbps, 80 km or 70B.
var numberWithUnit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?([A-Za-z/]+|%)$`) })

// unitPowers are exponents of ten by the first letter of a unit: the prefixes of SI, and the billion of a model's parameters.
var unitPowers = map[string]string{"k": "e3", "m": "e6", "g": "e9", "t": "e12", "b": "e9"}

// withoutUnit is the hint for a number that was written with a unit; "" if the unit is not one that the attribute would have.
func withoutUnit(attr, said string) string {
	m := numberWithUnit().FindStringSubmatch(said)
	if m == nil {
		return ""
	}
	number, unit := m[1], strings.ToLower(m[2])
	is := func(ending string, units ...string) bool {
		return strings.HasSuffix(attr, ending) && slices.Contains(units, unit)
	}
	switch {
	case strings.HasSuffix(attr, "_gbps") && unit[0] == 'g', is("_km", "km"), is("_seconds", "s", "sec", "seconds"):
		return " Write " + number + ": the unit is in the name."
	case is("loss", "%", "percent"), is("_percent", "%", "percent"):
		return " Write " + number + ": the value is in percent."
	case is("parameters", "m", "b", "t"):
		return " Write " + number + unitPowers[unit] + "."
	case is("_bytes", "b", "kb", "mb", "gb", "tb"):
		return " Write " + number + unitPowers[unit[:len(unit)-1]] + ": the unit is in the name."
	}
	return ""
}

// typeOf names the type of a value as the files write it: a tuple is a list whose elements differ.
func typeOf(v cty.Value) string {
	if v.Type().IsTupleType() {
		return "list"
	}
	return v.Type().FriendlyName()
}

// article puts a or an before the name of a block or type, as it is said: an ssh block.
func article(s string) string {
	if s != "" && strings.Contains("aeiou", s[:1]) || slices.Contains([]string{"ssh", "rxe", "nccl"}, s) {
		return "an " + s
	}
	return "a " + s
}

// attributes decodes the attributes of the body that want selects (nil: all) into the struct. It
// returns false if it reported a problem with any of them, or one with a name in the body is known.
func (l *loader) attributes(spec *block, body *hclsyntax.Body, s scope, into reflect.Value, want func(name string) bool) bool {
	good := true
	for _, a := range spec.attrs {
		if want != nil && !want(a.name) || a.typ == reflect.TypeFor[anything]() {
			continue
		}
		field := into.FieldByIndex(a.field)
		set := body.Attributes[a.name]
		if set == nil {
			if a.required && !l.mistaken[body] {
				l.errorf(body.MissingItemRange(), "Missing attribute", "%s needs %s: %s.%s",
					title(article(spec.name)), a.name, a.typeName(), a.hint())
			}
			good = good && !a.required
			continue
		}
		v, ok := l.attributeValue(a, set, s)
		if !ok {
			good = false
			continue
		}
		if v.IsNull() {
			if a.required {
				l.errorf(set.Expr.Range(), "Missing attribute", "%s is null, but %s needs it: %s.%s",
					a.name, article(spec.name), a.typeName(), a.hint())
				good = false
			}
			continue
		}
		if w := l.decode(a, v, field, set.Expr.Range()); w != nil {
			l.say(set.Expr, s, w.summary, w.detail)
			l.suggestValue(set.Expr, w.cure)
			good = false
		}
	}
	return good && !l.mistaken[body]
}

// attributeValue evaluates an attribute. A reference to a NIC may be used before the addresses of the
// NIC are known, because only its host and name matter.
func (l *loader) attributeValue(a *attribute, set *hclsyntax.Attribute, s scope) (cty.Value, bool) {
	marked, ok := l.evalMarked(set.Expr, s)
	if !ok {
		return cty.DynamicVal, false
	}
	if a.secret {
		marked = l.conceal(marked)
	}
	v, marks := marked.UnmarkDeep()
	if _, hidden := marks[secret{}]; hidden {
		l.reportExposed(set.Expr, s, a.name)
		return v, false
	}
	known := v.IsWhollyKnown()
	switch a.typ {
	case reflect.TypeFor[fabric.NICRef](), reflect.TypeFor[[]fabric.NICRef](), reflect.TypeFor[fabric.Netdev](),
		reflect.TypeFor[[]fabric.HostRef]():
		known = v.IsKnown()
		if known && !v.IsNull() && (v.Type().IsTupleType() || v.Type().IsListType()) { // hosts are not known yet where NICs are declared
			known = !slices.ContainsFunc(v.AsValueSlice(), func(e cty.Value) bool { return !e.IsKnown() })
		}
	}
	if !known {
		l.notYet(set.Expr, s, marks)
	}
	return v, known
}

// reportExposed reports a sensitive value where it would be shown.
func (l *loader) reportExposed(e hcl.Expression, s scope, name string) {
	l.say(e, s, "Sensitive value", name+" is shown, so it must not depend on a sensitive value. Only outputs and values of nccl.env may. "+
		"If this value may be shown, write nonsensitive(…).")
}

// conceal replaces the sensitive values of a map by placeholders. A map that is sensitive as a whole stays so, because
// its keys are shown.
func (l *loader) conceal(v cty.Value) cty.Value {
	if t := v.Type(); v.IsMarked() || !v.IsKnown() || v.IsNull() || !t.IsMapType() && !t.IsObjectType() {
		return v
	}
	out := map[string]cty.Value{}
	for it := v.ElementIterator(); it.Next(); {
		k, e := it.Element()
		bare, marks := e.UnmarkDeep()
		if _, hidden := marks[secret{}]; hidden {
			e = bare
			if s, ok := text(bare); ok && bare.IsKnown() && !bare.IsNull() {
				e = cty.StringVal(l.placeholder(s))
			}
		}
		out[k.AsString()] = e
	}
	return cty.ObjectVal(out)
}

// placeholder returns the placeholder of a sensitive value. All uses of one value have the same.
func (l *loader) placeholder(value string) string {
	p, done := l.placeholders[value]
	if !done {
		salt := make([]byte, 16)
		rand.Read(salt) // never fails
		p = l.f.Secrets.Hide(value, hex.EncodeToString(salt))
		l.placeholders[value] = p
	}
	return p
}

// defaults sets every field that has a default, in this block and in nested blocks.
func (b *block) defaults(into reflect.Value) {
	for _, a := range b.attrs {
		if a.initial == "" {
			continue
		}
		field := into.FieldByIndex(a.field)
		if field.Kind() == reflect.Pointer || !field.IsZero() {
			continue // a nil pointer means "not declared"; the code that reads the field supplies the default
		}
		var v cty.Value
		switch field.Kind() {
		case reflect.Bool:
			v = cty.BoolVal(a.initial == "true")
		case reflect.Slice:
			var list []cty.Value
			for s := range strings.FieldsSeq(a.initial) {
				list = append(list, cty.StringVal(s))
			}
			v = cty.ListVal(list)
		default:
			v = cty.StringVal(a.initial)
		}
		if w := (&loader{}).decode(a, v, field, hcl.Range{}); w != nil {
			panic(w.detail) // a mistake in our own tags; every test would see it
		}
	}
	for _, k := range b.blocks {
		if !k.many && into.FieldByIndex(k.field).Kind() == reflect.Struct {
			k.defaults(into.FieldByIndex(k.field))
		}
	}
}

// decode stores a known, non-null value in a field.
func (l *loader) decode(a *attribute, v cty.Value, into reflect.Value, r hcl.Range) *wrong {
	if a.auto && v.Type() == cty.String && v.AsString() == "auto" {
		return nil
	}
	if w := notText(a, v); w != nil {
		return w
	}
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		return l.decode(a, v, into.Elem(), r)
	}
	switch into.Interface().(type) {
	case fabric.NICRef:
		ref, ok := l.nicRef(v)
		if !ok {
			return typeWrong(a, v)
		}
		into.Set(reflect.ValueOf(ref))
		return nil
	case fabric.HostRef, fabric.QoSRef, fabric.WorkloadRef:
		find := l.hostRef
		switch into.Interface().(type) {
		case fabric.QoSRef:
			find = l.qosRef
		case fabric.WorkloadRef:
			find = l.workloadRef
		}
		name, ok := find(v)
		if !ok {
			return typeWrong(a, v)
		}
		into.SetString(name)
		return nil
	case map[int]int:
		return decodeNumbers(a, v, into)
	case fabric.Netdev:
		if ref, ok := l.nicRef(v); ok {
			into.SetString(ref.NIC)
			return nil
		}
		if s, is := plainString(v); is && strings.ContainsAny(s, "=^,") {
			return &wrong{"Not an interface name", fmt.Sprintf("%s: %q is a value of NCCL's variable. Write the whole name of one interface: fabricform adds the = of an exact match. "+
				"For a list or a ^ of NCCL, write env = { NCCL_SOCKET_IFNAME = %q }.", a.name, s, s), nil}
		}
	case time.Duration:
		return decodeDuration(a, v, into)
	case netip.Prefix, netip.Addr:
		return decodeAddress(a, v, into)
	}
	switch into.Kind() {
	case reflect.Bool:
		c, err := convert.Convert(v, cty.Bool)
		if err != nil {
			return typeWrong(a, v)
		}
		into.SetBool(c.True())
	case reflect.Int, reflect.Float64:
		return decodeNumber(a, v, into)
	case reflect.String:
		return decodeString(a, v, into, r)
	case reflect.Map:
		return decodeMap(a, v, into)
	case reflect.Slice:
		return l.decodeList(a, v, into, r)
	case reflect.Struct:
		return l.decodeObject(a, v, into, r)
	default:
		panic("no decoder for " + into.Type().String()) // a mistake in our own types; every test would see it
	}
	return nil
}

func decodeNumber(a *attribute, v cty.Value, into reflect.Value) *wrong {
	c, err := convert.Convert(v, cty.Number)
	if err != nil {
		return typeWrong(a, v)
	}
	f, _ := c.AsBigFloat().Float64()
	if w := trafficClass(a, f); w != nil {
		return w
	}
	if a.min != nil && f < *a.min || a.max != nil && f > *a.max || a.least != nil && f > 0 && f < *a.least || math.IsInf(f, 0) {
		return &wrong{"Number out of range", fmt.Sprintf("%s must be %s.", a.name, a.within("from ")), nil}
	}
	if into.Kind() == reflect.Float64 {
		into.SetFloat(f)
		return nil
	}
	if !c.AsBigFloat().IsInt() {
		return &wrong{"Number out of range", fmt.Sprintf("%s must be a whole number %s.", a.name, a.within("from ")), nil}
	}
	into.SetInt(int64(f))
	return nil
}

// within writes the allowed values of a number that has limits. from comes before the lower one.
func (a *attribute) within(from string) string {
	if a.least != nil {
		return fmt.Sprintf("0 or %s%s to %s", from, plain(*a.least), plain(*a.max))
	}
	return fmt.Sprintf("%s%s to %s", from, plain(*a.min), plain(*a.max))
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// text converts a value to a string. It rejects line breaks and NUL, because the text may become one
// line of a configuration file on a host.
func text(v cty.Value) (string, bool) {
	c, err := convert.Convert(v, cty.String)
	if err != nil || c.IsNull() {
		return "", false
	}
	return c.AsString(), !strings.ContainsAny(c.AsString(), "\n\r\x00")
}

func decodeString(a *attribute, v cty.Value, into reflect.Value, r hcl.Range) *wrong {
	if !v.Type().IsPrimitiveType() || v.Type() == cty.Bool {
		return typeWrong(a, v)
	}
	if a.name == "version" && v.Type() == cty.Number {
		return &wrong{"Wrong type", "version must be a string: a number loses its last zero, so 2.30 would be 2.3. " +
			`Write the whole version in quotes, such as "2.30.7".`, nil}
	}
	s, ok := text(v)
	if !ok {
		return &wrong{"Value not allowed", a.name + " must not contain line breaks or NUL.", nil}
	}
	if a.one != nil && !slices.Contains(a.one, s) {
		near := env.Nearest(s, a.one)
		if within := slices.DeleteFunc(slices.Clone(a.one), func(one string) bool { return !strings.Contains(one, strings.ToLower(s)) }); len(within) == 1 && len(s) > 3 {
			near = within[0] // networkd is systemd-networkd
		}
		return &wrong{"Unknown value", fmt.Sprintf("%s must be %s.%s%s", a.name, alternatives(a.one), a.hint(), didYouMean(near)), &replacement{s, near}}
	}
	if shape, has := shapes()[a.shape]; has {
		if !shape.exact {
			s = strings.ToLower(s)
		}
		if !shape.re.MatchString(s) {
			has := ""
			if shape.has != "" {
				has = ", with only " + shape.has
			}
			return &wrong{"Invalid format", fmt.Sprintf("%s must look like %s%s.", a.name, shape.example, has), nil}
		}
	}
	if a.path && s != "" && !filepath.IsAbs(s) && !strings.HasPrefix(s, "~") {
		s = filepath.Join(filepath.Dir(r.Filename), s)
	}
	into.SetString(s)
	return nil
}

func alternatives(values []string) string {
	var out []string
	for _, v := range values {
		out = append(out, strconv.Quote(v))
	}
	if len(out) == 1 {
		return out[0]
	}
	return strings.Join(out[:len(out)-1], ", ") + " or " + out[len(out)-1]
}

func decodeDuration(a *attribute, v cty.Value, into reflect.Value) *wrong {
	s, _ := text(v)
	d, err := time.ParseDuration(s)
	if err == nil && (d <= 0 || d > 24*time.Hour) {
		return &wrong{"Duration out of range", a.name + ` must be longer than "0s", and at most "24h".`, nil}
	}
	if err != nil {
		return &wrong{"Not a duration", fmt.Sprintf(`%s must be a number with a unit, such as "3s" or "200us".`, a.name), nil}
	}
	into.SetInt(int64(d))
	return nil
}

func decodeMap(a *attribute, v cty.Value, into reflect.Value) *wrong {
	if !v.Type().IsMapType() && !v.Type().IsObjectType() {
		return typeWrong(a, v)
	}
	m := map[string]string{}
	for it := v.ElementIterator(); it.Next(); {
		key, e := it.Element()
		if e.IsNull() {
			continue // null means absent
		}
		s, ok := text(e)
		k, keyOK := text(key)
		if !ok || !keyOK {
			return &wrong{"Value not allowed", fmt.Sprintf("%s[%q] must be a string or a number without line breaks.", a.name, k), nil}
		}
		m[k] = s
	}
	into.Set(reflect.ValueOf(m))
	return nil
}

// decodeList decodes a list. `subnet` also takes a single value, because most links have one family.
func (l *loader) decodeList(a *attribute, v cty.Value, into reflect.Value, r hcl.Range) *wrong {
	if a.name == "subnet" && v.Type() == cty.String {
		v = cty.TupleVal([]cty.Value{v})
	}
	if t := v.Type(); !t.IsListType() && !t.IsTupleType() && !t.IsSetType() {
		return typeWrong(a, v)
	}
	out := reflect.MakeSlice(into.Type(), 0, v.LengthInt())
	for it := v.ElementIterator(); it.Next(); {
		_, e := it.Element()
		if e.IsNull() {
			return &wrong{"Value not allowed", a.name + " has a null element.", nil}
		}
		field := reflect.New(into.Type().Elem()).Elem()
		if w := l.decode(a, e, field, r); w != nil {
			w.detail = strings.Replace(w.detail, "; this is ", "; an element is ", 1)
			return w
		}
		out = reflect.Append(out, field)
	}
	into.Set(out)
	return nil
}

// decodeObject decodes an attribute whose value is an object: match, gid.
func (l *loader) decodeObject(a *attribute, v cty.Value, into reflect.Value, r hcl.Range) *wrong {
	if !v.Type().IsMapType() && !v.Type().IsObjectType() {
		return typeWrong(a, v)
	}
	spec := &block{}
	spec.read(into.Type(), nil)
	m := v.AsValueMap()
	for _, k := range slices.Sorted(maps.Keys(m)) {
		part := spec.attr(k)
		if part == nil {
			near := env.Nearest(k, spec.names())
			cure := didYouMean(near)
			if other := borrowed(k, language().block("host").block("nic")); other != "" && a.name == "match" {
				cure, near = other, ""
			}
			return &wrong{"Unknown name", fmt.Sprintf("%s takes %s, not %q.%s",
				a.name, strings.Join(spec.names(), ", "), k, cure), &replacement{k, near}}
		}
		if m[k].IsNull() {
			continue
		}
		if w := l.decode(part, m[k], into.FieldByIndex(part.field), r); w != nil {
			w.detail = a.name + "." + w.detail
			return w
		}
	}
	return nil
}
