package config

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/nccl/env"
)

// loader holds the state of one Load.
type loader struct {
	options Options
	dir     string
	files   map[string]*hcl.File
	diags   hcl.Diagnostics
	ranges  map[fabric.Pos]hcl.Range // for problems that package fabric reports by Pos
	places  map[*hclsyntax.Body]map[string]fabric.Pos

	meter     *meter
	functions map[string]function.Function
	statics   map[hcl.Expression]bool // checked once, even if many instances evaluate it

	mistaken   map[*hclsyntax.Body]bool // has a name that the language does not have: what seems to be missing may be that
	unrepeated map[*hclsyntax.Body]bool // that name stands for for_each
	lost       map[string]bool          // names that would be declared if no name were mistaken
	unnamed    map[string]bool          // kinds of which a block has no name, or that of another: what seems to be missing may be that block
	silent     bool                     // static found a name that may be one of these

	blocks   map[string][]*hclsyntax.Block
	vars     cty.Value
	locals   map[string]*hclsyntax.Attribute
	localVal map[string]cty.Value
	hidden   fabric.Secrets // strings of sensitive values, by themselves
	busy     []string       // locals that are being evaluated
	hostVal  cty.Value      // the value of "host" at this stratum
	qosVal   cty.Value      // the value of "qos" at this stratum
	// the value of "workload" at this stratum
	workloadVal cty.Value

	placeholders map[string]string // of sensitive values in the model

	hostBlocks map[string]*hostBlock
	insts      []*hostInstance
	nics       map[fabric.NICRef]*fabric.NIC // both enabled and disabled
	off        map[fabric.NICRef]bool        // disabled, or on a disabled host
	f          *fabric.Fabric
}

func newLoader(path string, o Options) *loader {
	dir := path
	st, err := os.Stat(path)
	if _, text := o.Overlay[path]; text || err == nil && !st.IsDir() {
		dir = filepath.Dir(path)
	}
	l := &loader{
		options: o, dir: dir, files: map[string]*hcl.File{}, ranges: map[fabric.Pos]hcl.Range{},
		places: map[*hclsyntax.Body]map[string]fabric.Pos{}, mistaken: map[*hclsyntax.Body]bool{},
		unrepeated: map[*hclsyntax.Body]bool{}, lost: map[string]bool{}, unnamed: map[string]bool{},
		meter: newMeter(), statics: map[hcl.Expression]bool{}, blocks: map[string][]*hclsyntax.Block{}, vars: cty.EmptyObjectVal,
		locals: map[string]*hclsyntax.Attribute{}, localVal: map[string]cty.Value{}, hidden: fabric.Secrets{},
		placeholders: map[string]string{}, hostVal: cty.DynamicVal.Mark(early{"hosts"}),
		qosVal:      cty.DynamicVal.Mark(early{"qos blocks"}),
		workloadVal: cty.DynamicVal.Mark(early{"workload blocks"}),
		hostBlocks:  map[string]*hostBlock{}, nics: map[fabric.NICRef]*fabric.NIC{}, off: map[fabric.NICRef]bool{},
		f: &fabric.Fabric{Name: "default", Secrets: fabric.Secrets{}},
	}
	l.functions = functions(dir, l.meter)
	return l
}

func (l *loader) errorf(r hcl.Range, summary, detail string, args ...any) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: fmt.Sprintf(detail, args...), Subject: &r})
}

// Duplicate is the Extra of a diagnostic about a name that is declared twice.
type Duplicate struct{}

func (l *loader) duplicate(r hcl.Range, summary, detail string, args ...any) {
	l.errorf(r, summary, detail, args...)
	l.diags[len(l.diags)-1].Extra = Duplicate{}
}

func (l *loader) warnf(r hcl.Range, summary, detail string, args ...any) {
	l.diags = append(l.diags, &hcl.Diagnostic{Severity: hcl.DiagWarning, Summary: summary,
		Detail: fmt.Sprintf(detail, args...), Subject: &r})
}

// say reports a problem with an expression's value, and shows the values that led to it.
func (l *loader) say(e hcl.Expression, s scope, summary, detail string) {
	d := &hcl.Diagnostic{Severity: hcl.DiagError, Summary: summary, Detail: detail, Subject: e.Range().Ptr(),
		Expression: e, EvalContext: &hcl.EvalContext{Variables: s}}
	brief(d)
	l.diags = append(l.diags, d)
}

func (l *loader) pos(r hcl.Range) fabric.Pos {
	p := fabric.Pos{File: r.Filename, Line: r.Start.Line, Column: r.Start.Column}
	l.ranges[p] = r
	return p
}

// place returns the positions of a block and its attributes. Instances share the map.
func (l *loader) place(k *hclsyntax.Block) fabric.Block {
	m := l.places[k.Body]
	if m == nil {
		m = map[string]fabric.Pos{}
		for n, a := range k.Body.Attributes {
			m[n] = l.pos(a.Expr.Range())
			if n == "env" || n == "sysctl" {
				l.keyPlaces(m, n, a.Expr)
			}
		}
		l.places[k.Body] = m
	}
	return fabric.Block{Pos: l.pos(k.DefRange()), AttrPos: m}
}

// keyPlaces adds the positions of the keys that a map has in the file. Keys that an expression computes have none.
func (l *loader) keyPlaces(m map[string]fabric.Pos, attr string, e hclsyntax.Expression) {
	visit(e, func(n hclsyntax.Node) {
		if written, is := n.(*hclsyntax.ObjectConsExpr); is {
			for _, item := range written.Items {
				if name, ok := writtenKey(item.KeyExpr); ok {
					m[attr+"."+name] = l.pos(hcl.RangeBetween(item.KeyExpr.Range(), item.ValueExpr.Range()))
				}
			}
		}
	})
}

// writtenKey returns a key of an object that needs no evaluation.
func writtenKey(e hclsyntax.Expression) (string, bool) {
	if len(e.Variables()) > 0 {
		return "", false
	}
	v, diags := e.Value(nil)
	if diags.HasErrors() {
		return "", false
	}
	return plainString(v)
}

// keyRange returns the position of a key of a map, or of the map.
func (l *loader) keyRange(b fabric.Block, attr, key string) hcl.Range {
	if at, ok := b.AttrPos[attr+"."+key]; ok {
		return l.ranges[at]
	}
	return l.ranges[b.At(attr)]
}

// names checks the names of attributes and blocks in a block against its kind, recursively.
func (l *loader) names(spec *block, b *hclsyntax.Body) {
	if spec.free {
		for _, k := range b.Blocks {
			l.errorf(k.TypeRange, "Unknown name", "%s takes only attributes.", spec.name)
		}
		return
	}
	where := article(spec.name) + " block"
	if spec.name == "" {
		where = "a fabric"
	}
	for _, a := range sortedAttributes(b) {
		switch {
		case spec.attr(a.Name) != nil, spec.repeat && (a.Name == "for_each" || a.Name == "enabled"):
		case spec.block(a.Name) != nil:
			l.mistaken[b], l.unnamed[a.Name] = true, true
			l.errorf(a.NameRange, "Block written as an attribute", "%s is a block: write %s without the equals sign.",
				a.Name, blockForm(spec.block(a.Name)))
		default:
			l.unknownName(spec, b, a.Name, a.NameRange, where)
		}
	}
	seen := map[string]bool{}
	for _, k := range b.Blocks {
		kind := spec.block(k.Type)
		switch {
		case kind == nil && spec.attr(k.Type) != nil:
			l.mistaken[b] = true
			form := "…"
			if t := spec.attr(k.Type).typeName(); t == typeMap || t == typeObject {
				form = "{ … }"
			}
			l.errorf(k.TypeRange, "Attribute written as a block", "%s is an attribute: write %s = %s", k.Type, k.Type, form)
			continue
		case kind == nil:
			l.unknownName(spec, b, k.Type, k.TypeRange, where)
			l.lose(k)
			if _, near := instead(k.Type, spec); len(k.Labels) == 0 && spec.block(near) != nil && spec.block(near).label != "" {
				l.unnamed[near] = true // of which lose does not know the name
			}
			continue
		case kind.label == "" && len(k.Labels) > 0:
			l.errorf(k.LabelRanges[0], "Block without a name", "%s blocks have no name: write %s.", k.Type, blockForm(kind))
		case kind.label != "" && len(k.Labels) > 1:
			l.unnamed[k.Type] = true
			l.errorf(k.DefRange(), "Several names", "%s block has one name: write %s.", title(article(k.Type)), blockForm(kind))
		case kind.label != "" && len(k.Labels) == 0:
			l.unnamed[k.Type] = true
			l.errorf(k.DefRange(), "Name missing", "Write %s.", blockForm(kind))
		case kind.label != "" && !fabric.IsName(k.Labels[0]):
			l.unnamed[k.Type] = true // its instances are refused
		case !kind.many && seen[k.Type]:
			l.duplicate(k.DefRange(), "Duplicate block", "%s has at most one %s block. Merge them.", title(where), k.Type)
		}
		seen[k.Type] = true
		l.names(kind, k.Body)
	}
}

// unknownName reports a name that a block does not have. What is missing in that block is not reported: it may be meant by the name.
func (l *loader) unknownName(spec *block, b *hclsyntax.Body, name string, r hcl.Range, where string) {
	cure, near := instead(name, spec)
	if a := b.Attributes[name]; a != nil {
		cure = l.withOwnValue(cure, name, spec, a.Expr)
	}
	l.errorf(r, "Unknown name", "There is no %q in %s.%s", name, where, cure)
	l.suggested(r, near)
	l.mistaken[b] = spec.name != "nccl" // nothing has to be there
	l.unrepeated[b] = l.unrepeated[b] || near == "for_each" || strings.Contains(cure, " for_each = ")
}

// lose remembers what an unknown block would declare.
func (l *loader) lose(k *hclsyntax.Block) {
	for _, name := range append(slices.Collect(maps.Keys(k.Body.Attributes)), k.Labels...) {
		l.lost[name] = true
	}
	if k.Type == "dynamic" && len(k.Labels) == 1 { // the label is the kind
		l.unnamed[k.Labels[0]] = true
	}
	for _, in := range k.Body.Blocks {
		l.lose(in)
	}
}

func title(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

func blockForm(b *block) string {
	if b.label != "" {
		return fmt.Sprintf("%s %q { … }", b.name, strings.ToLower(b.label))
	}
	return b.name + " { … }"
}

// instead says what to write in the place of a name that the block does not have, and returns the name that it suggests, if any.
func instead(name string, in *block) (cure, near string) {
	if cure := borrowed(name, in); cure != "" {
		return cure, ""
	}
	if name == "for_each" && in.many {
		return " It cannot be repeated: write a block for each.", ""
	}
	if near := cmp.Or(env.Nearest(name, in.names()), inPart(name, in.names())); near != "" {
		return didYouMean(near), near
	}
	if variable := "NCCL_" + strings.ToUpper(name); in.attr("env") != nil && env.Lookup(variable) != nil {
		return fmt.Sprintf(" It is one of NCCL's variables: write env = { %s = … }.", variable), ""
	}
	return elsewhere(name, in), ""
}

// inPart returns the only one of the names that has more words than a name, or fewer, at one end: distance_km for distance, hca for ib_hca.
func inPart(name string, names []string) string {
	longer := func(a, b string) bool { return strings.HasPrefix(a, b+"_") || strings.HasSuffix(a, "_"+b) }
	fits := slices.DeleteFunc(slices.Clone(names), func(n string) bool { return !longer(n, name) && !longer(name, n) })
	if len(fits) != 1 {
		return ""
	}
	return fits[0]
}

// elsewhere names the blocks that have the attribute, for an attribute in the wrong block, or else what the block has.
func elsewhere(name string, here *block) string {
	var in []string
	var walk func(b *block, path string)
	walk = func(b *block, path string) {
		if b != here && b.name != "" && (b.attr(name) != nil || b.block(name) != nil) {
			in = append(in, path)
		}
		for _, k := range b.blocks {
			if b.name == "validate" { // its blocks have names of others
				walk(k, "validate "+k.name)
			} else {
				walk(k, k.name)
			}
		}
	}
	walk(language(), "")
	if len(in) == 0 {
		names := here.names()
		slices.Sort(names)
		return fmt.Sprintf(" It has %s.", strings.Join(names, ", "))
	}
	slices.Sort(in)
	return fmt.Sprintf(" It belongs in %s.", strings.Join(slices.Compact(in), ", "))
}

func sortedAttributes(b *hclsyntax.Body) []*hclsyntax.Attribute {
	return slices.SortedFunc(maps.Values(b.Attributes),
		func(x, y *hclsyntax.Attribute) int { return x.NameRange.Start.Byte - y.NameRange.Start.Byte })
}

// sub returns the nested blocks of one type.
func sub(b *hclsyntax.Body, name string) []*hclsyntax.Block {
	var out []*hclsyntax.Block
	for _, k := range b.Blocks {
		if k.Type == name {
			out = append(out, k)
		}
	}
	return out
}
