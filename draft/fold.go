package draft

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// local is a map that blocks take for their for_each, and that blocks with the same keys share.
type local struct {
	name   string
	keys   []string
	fields []string
	values map[string][]string // by field, in the order of keys
	short  map[string]string   // the name of each field, unless another one has that, too
}

// shown is the name of a field in the files.
func (l *local) shown(field string) string {
	for other, name := range l.short {
		if other != field && (name == l.short[field] || other == l.short[field]) {
			return field
		}
	}
	return l.short[field]
}

// forEach is the value of for_each.
func (l *local) forEach() string {
	if len(l.fields) > 0 {
		return "local." + l.name
	}
	var keys []string
	for _, k := range l.keys {
		keys = append(keys, string(quoted(k)))
	}
	return "toset([" + strings.Join(keys, ", ") + "])"
}

// String is the field in an expression.
func (f field) String() string {
	out := "each.value"
	if f.ofHost {
		out = "self.value"
	}
	if len(f.of.fields) > 1 {
		out += "." + f.of.shown(f.name)
	}
	return out
}

// add returns the field with these values. short is its name if no other field has it; further is the field's own, which may get a number.
func (l *local) add(short, further string, values []string) string {
	for _, field := range l.fields {
		if slices.Equal(l.values[field], values) {
			return field
		}
	}
	field := further
	for n := 2; l.values[field] != nil; n++ {
		field = fmt.Sprintf("%s_%d", further, n)
	}
	l.fields, l.values[field], l.short[field] = append(l.fields, field), values, short
	return field
}

// lines writes the map.
func (l *local) write(b *strings.Builder) {
	if s, ok := l.sequence(); ok {
		fmt.Fprintf(b, "  %s = %s\n", l.name, s)
		return
	}
	fmt.Fprintf(b, "  %s = {\n", l.name)
	for i, key := range l.keys {
		var parts []string
		for _, name := range l.fields {
			parts = append(parts, l.shown(name)+" = "+l.values[name][i])
		}
		value := "{ " + strings.Join(parts, ", ") + " }"
		if len(l.fields) == 1 {
			value = l.values[l.fields[0]][i]
		}
		name := key
		if member(key) != "."+key || key == "for" { // { for … } is another expression
			name = string(quoted(key))
		}
		fmt.Fprintf(b, "    %s = %s\n", name, value)
	}
	fmt.Fprintln(b, "  }")
}

// folder folds blocks that differ only in values into one block with for_each.
type folder struct {
	flat    bool // nothing is folded
	locals  []*local
	printer *printer
	at      string // the host whose blocks are folded; "": none
}

// inFamily reports whether the NIC is one of a nic block with for_each.
func (f *folder) inFamily(r ref) bool {
	return r.kind == "" && slices.Contains(f.printer.family[cmp.Or(r.Host, f.at)].nics, r.NIC)
}

// shape is what blocks must have in common to be folded: their own shape, and how references name a NIC.
func (f *folder) shape(b *block) string {
	s := b.shape()
	for _, a := range b.attrs {
		of, _ := a.value.(refs)
		if one, is := a.value.(ref); is {
			of = refs{one}
		}
		for _, r := range of {
			s += fmt.Sprintf(" %s:%s %v", a.name, r.kind, f.inFamily(r))
		}
	}
	return s
}

// local returns the map with these keys, which it makes if there is none.
func (f *folder) local(name string, keys []string) *local {
	for _, l := range f.locals {
		if slices.Equal(l.keys, keys) {
			return l
		}
	}
	unique := name
	for n := 2; slices.ContainsFunc(f.locals, func(l *local) bool { return l.name == unique }); n++ {
		unique = fmt.Sprintf("%s%d", name, n)
	}
	l := &local{name: unique, keys: keys, values: map[string][]string{}, short: map[string]string{}}
	f.locals = append(f.locals, l)
	return l
}

// drop removes maps that no block takes.
func (f *folder) used(blocks []*block) (out []*local) {
	taken := map[*local]bool{}
	var walk func([]*block)
	walk = func(bs []*block) {
		for _, b := range bs {
			taken[b.each] = true
			walk(b.blocks)
		}
	}
	walk(blocks)
	return slices.DeleteFunc(slices.Clone(f.locals), func(l *local) bool { return !taken[l] || len(l.fields) == 0 })
}

// hosts folds the hosts of one shape.
func (f *folder) hosts(blocks []*block) []*block {
	out := f.fold(blocks, "host", true, func(label string, hosts []*block) {
		for _, h := range hosts {
			f.printer.group[h.label] = label
		}
	})
	for _, b := range out {
		if b.kind != "host" {
			continue
		}
		members := []string{b.label}
		if b.each != nil {
			members = b.each.keys
		}
		b.blocks = f.fold(b.blocks, "nic", false, func(label string, nics []*block) {
			var names []string
			for _, n := range nics {
				names = append(names, n.label)
			}
			for _, m := range members {
				f.printer.family[m] = family{label, names}
			}
		})
		f.at = members[0]
		b.blocks = f.fold(f.fold(b.blocks, "route", false, nil), "policy_route", false, nil)
		f.at = ""
	}
	return out
}

// fold folds the largest set of blocks of a kind that have one shape, if that takes fewer lines. folded is called for it, with the label of
// the block and the blocks that it replaces.
func (f *folder) fold(blocks []*block, kind string, ofHost bool, folded func(label string, from []*block)) []*block {
	byShape := map[string][]*block{}
	for _, b := range blocks {
		if b.kind == kind && b.each == nil && b.left == "" && !f.flat {
			shape := f.shape(b)
			byShape[shape] = append(byShape[shape], b)
		}
	}
	var best []*block
	for _, shape := range slices.Sorted(maps.Keys(byShape)) {
		if set := byShape[shape]; len(set) > len(best) {
			best = set
		}
	}
	if len(best) < 2 || len(best)*best[0].lines() <= best[0].lines()+len(best)+4 {
		return blocks
	}
	var keys []string
	for _, b := range best {
		keys = append(keys, b.label)
	}
	if !slices.IsSorted(keys) { // values() and the order of the files would differ
		slices.SortFunc(best, func(a, b *block) int { return strings.Compare(a.label, b.label) })
		slices.Sort(keys)
	}
	label := prefix(keys)
	if label == "" {
		label = map[bool]string{true: "node", false: "item"}[kind == "host"]
	}
	for slices.ContainsFunc(blocks, func(b *block) bool { return b.kind == kind && b.label == label && !slices.Contains(best, b) }) {
		label += "s"
	}
	l := f.local(plural(label, kind), keys)
	fields := len(l.fields)
	one := f.merge(best, l, ofHost, "", keys)
	if one == nil {
		for _, name := range l.fields[fields:] {
			delete(l.values, name)
			delete(l.short, name)
		}
		l.fields = l.fields[:fields]
		return blocks
	}
	one.label, one.each = label, l
	if folded != nil {
		folded(label, best)
	}
	var out []*block
	for _, b := range blocks {
		switch {
		case !slices.Contains(best, b):
			out = append(out, b)
		case !slices.Contains(out, one): // in the place of the first of them
			out = append(out, one)
		}
	}
	return out
}

// merge makes one block of several of one shape; nil if their values cannot be fields. keys are those of the blocks that hold them.
func (f *folder) merge(from []*block, l *local, ofHost bool, path string, keys []string) *block {
	out := &block{kind: from[0].kind, label: from[0].label, each: from[0].each, comments: comments(from, keys)}
	for i, a := range from[0].attrs {
		values := make([]expr, 0, len(from))
		for _, b := range from {
			values = append(values, b.attrs[i].value)
		}
		v, ok := f.value(values, l, ofHost, path != "", a.name, strings.Trim(path+"_"+a.name, "_"))
		if !ok {
			return nil
		}
		out.set(a.name, v)
	}
	for i, in := range from[0].blocks {
		nested := make([]*block, 0, len(from))
		for _, b := range from {
			nested = append(nested, b.blocks[i])
		}
		one := f.merge(nested, l, ofHost, strings.Trim(path+"_"+word(in.label), "_"), keys)
		if one == nil {
			return nil
		}
		out.blocks = append(out.blocks, one)
	}
	return out
}

// value is one expression for several.
func (f *folder) value(values []expr, l *local, ofHost, nested bool, name, further string) (expr, bool) {
	if same(values) {
		return values[0], true
	}
	if byKey, ok := keyed(values, l.keys); ok && !ofHost {
		return byKey, true
	}
	texts := make([]string, 0, len(values))
	for _, v := range values {
		t, is := v.(text)
		if !is {
			return nil, false
		}
		texts = append(texts, string(t))
	}
	return field{of: l, name: l.add(name, word(further), texts), ofHost: ofHost && nested}, true
}

func same(values []expr) bool {
	first := fmt.Sprintf("%#v", values[0])
	return !slices.ContainsFunc(values, func(v expr) bool { return fmt.Sprintf("%#v", v) != first })
}

// keyed replaces references to the NICs that are named as the keys. Blocks of one shape refer to one kind of NIC.
func keyed(values []expr, keys []string) (expr, bool) {
	switch first := values[0].(type) {
	case ref:
		for i, v := range values {
			r, is := v.(ref)
			if !is || r.NIC != keys[i] || r.Host != first.Host || r.attr != first.attr {
				return nil, false
			}
		}
		first.byKey = true
		return first, true
	case refs:
		out := slices.Clone(first)
		for i, v := range values {
			all, is := v.(refs)
			if !is || len(all) != len(first) {
				return nil, false
			}
			for j, r := range all {
				if r.NIC != keys[i] || r.Host != first[j].Host {
					return nil, false
				}
				out[j].byKey = true
			}
		}
		return out, true
	}
	return nil, false
}

// maxComments is how many different comments a folded block keeps.
const maxComments = 4

// comments joins the comments of several blocks: those that not all have with the keys of the blocks that have them.
func comments(from []*block, keys []string) (out []string) {
	have := map[string][]string{}
	var order []string
	for i, b := range from {
		for _, c := range b.comments {
			if have[c] == nil {
				order = append(order, c)
			}
			have[c] = append(have[c], keys[i])
		}
	}
	for _, c := range order {
		if len(have[c]) < len(from) {
			c = names(have[c]) + ": " + c
		}
		out = append(out, c)
	}
	if len(out) > maxComments {
		out = append(out[:maxComments], fmt.Sprintf("… and %d more of this kind", len(out)-maxComments))
	}
	return out
}

// prefix is what names have in common, without a trailing number or mark.
func prefix(names []string) string {
	out := names[0]
	for _, n := range names[1:] {
		for !strings.HasPrefix(n, out) {
			out = out[:len(out)-1]
		}
	}
	return strings.TrimRight(out, "0123456789-_.")
}

func plural(label, kind string) string {
	if kind == "host" {
		return "hosts"
	}
	return word(label) + "s"
}

// word makes a name of an expression: no other marks than underscores.
func word(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s)
	if s == "" || s[0] >= '0' && s[0] <= '9' {
		s = "n" + s
	}
	return s
}
