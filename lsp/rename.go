package lsp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"

	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
)

// prepareRename returns the name at the position, or nil if the files do not declare it.
func (s *server) prepareRename(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	name, here, ok := declarationAt(s.docs.fabric(d), d.file(), d.file().text.offset(p.Position))
	if !ok {
		return nil, nil
	}
	return renameable{d.file().text.textRange(here), name.name}, nil
}

// rename renames a name in all files of the fabric. It refuses a change after which the fabric would have more errors or would
// mean something else: an expression can also reach a name by a key or a text, which no search finds.
func (s *server) rename(p documentParams) (any, *callError) {
	d, fault := s.native(p)
	if d == nil {
		return nil, fault
	}
	files := s.docs.fabric(d)
	name, _, ok := declarationAt(files, d.file(), d.file().text.offset(p.Position))
	if !ok {
		return nil, &callError{codeInvalidParams, "This is not a name that the files of the fabric declare."}
	}
	if why := name.refuses(p.NewName); why != "" {
		return nil, &callError{codeInvalidParams, why}
	}
	changes := map[string][]textEdit{}
	before, after := map[string][]byte{}, map[string][]byte{}
	all := uses(files, name)
	for _, f := range files {
		edits := editsOf(all, f, p.NewName)
		before[f.key()], after[f.key()] = f.text.src, f.text.src
		if len(edits) == 0 {
			continue
		}
		after[f.key()] = apply(f.text.src, edits)
		for _, e := range edits {
			changes[f.uri] = append(changes[f.uri], textEdit{f.text.textRange(e.at), e.new})
		}
	}
	path := files[0].key()
	if d.isFabric() && !s.docs.alone[filepath.Dir(d.path)] {
		path = filepath.Dir(d.path)
	}
	if why := s.compare(path, before, after, name.name, p.NewName); why != "" {
		return nil, &callError{codeRequestFailed, why}
	}
	return workspaceEdit{changes}, nil
}

// key is the name of the file for package config.
func (f *file) key() string {
	if f.path == "" {
		return f.uri
	}
	return f.path
}

// refuses says why the declaration cannot have a name; "" if it can.
func (d declaration) refuses(name string) string {
	unquoted := d.at.start == 0 || d.file.text.src[d.at.start-1] != '"'
	switch {
	case d.kind == "fabric":
		return "Each host records under the name of the fabric what fabricform set, so a fabric with another name would not own it. Destroy it first, then rename it by hand."
	case (unquoted || d.kind == "variable") && !hclsyntax.ValidIdentifier(name):
		return fmt.Sprintf("%q is not a name for a %s: use letters, digits, _ and -, and begin with a letter.", name, d.kind)
	case d.kind != "local" && !fabric.IsName(name):
		return fmt.Sprintf("%q is not a name for a block: use letters, digits, '.', '_' and '-', and begin with a letter or digit.", name)
	}
	return ""
}

// editsOf returns what the new name changes in a file, in the order of the text.
func editsOf(all []use, f *file, name string) (out []fix) {
	for _, u := range all {
		e := fix{at: u.at, new: name}
		switch {
		case u.file != f:
			continue
		case u.form == "step" && !hclsyntax.ValidIdentifier(name):
			e.at, e.new = span{u.from, u.end}, `["`+name+`"]`
		}
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].at.start < out[j].at.start })
	return out
}

func apply(src []byte, edits []fix) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.at.start]...), e.new...)
		at = e.at.end
	}
	return append(out, src[at:]...)
}

// compare says why the fabric is not the same with the new texts apart from the name; "" if it is. If it cannot be read before,
// only new errors count.
func (s *server) compare(path string, before, after map[string][]byte, old, new string) string {
	var was, is *fabric.Fabric
	var had, has hcl.Diagnostics
	atOnce(func() { was, had = s.loadTexts(path, before) }, func() { is, has = s.loadTexts(path, after) })
	if errorsIn(has) > errorsIn(had) {
		for _, d := range has {
			if !slices.ContainsFunc(had, func(h *hcl.Diagnostic) bool { return h.Detail == d.Detail }) {
				at := ""
				if d.Subject != nil {
					at = fmt.Sprintf("%s:%d: ", filepath.Base(d.Subject.Filename), d.Subject.Start.Line)
				}
				return fmt.Sprintf("With the name %s, the fabric would have an error. %s%s Correct this place first, or rename by hand.", new, at, d.Detail)
			}
		}
		return fmt.Sprintf("With the name %s, the fabric would have more errors. Rename by hand.", new)
	}
	if was == nil || is == nil {
		return ""
	}
	if what := difference(was, is, old, new); what != "" {
		return fmt.Sprintf("The name is also used as a text: with the name %s, the fabric would differ in %s. Rename by hand.", new, what)
	}
	return ""
}

// loadTexts loads a fabric with these texts in place of its files.
func (s *server) loadTexts(path string, texts map[string][]byte) (*fabric.Fabric, hcl.Diagnostics) {
	o := s.options
	o.Editing, o.Overlay = true, texts
	f, _, diags := config.Load(path, o)
	return f, diags
}

// atOnce runs both on two processors: thousands of hosts take seconds.
func atOnce(a, b func()) {
	var done sync.WaitGroup
	done.Go(a)
	b()
	done.Wait()
}

// difference returns a value in which two fabrics differ, where the two names count as one; "" if there is none. Lists may be in
// another order, because hosts are sorted by their names.
func difference(a, b *fabric.Fabric, old, new string) string {
	of := func(f *fabric.Fabric) []string {
		var lines []string
		flatten("", decoded(f), func(s string) string {
			switch {
			case s == old || s == new:
				return new
			case strings.HasPrefix(s, old+`["`):
				return new + s[len(old):] // an instance of a route
			case fabric.IsSensitive(s):
				return "sensitive" // placeholders have a salt
			}
			return s
		}, &lines)
		slices.Sort(lines)
		return lines
	}
	var x, y []string
	atOnce(func() { x = of(a) }, func() { y = of(b) })
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			what, _, _ := strings.Cut(x[i], "=")
			return strings.TrimPrefix(what, ".")
		}
	}
	if len(x) != len(y) {
		return "the number of its values"
	}
	return ""
}

// decoded returns the fabric as JSON's values, the outputs by name.
func decoded(f *fabric.Fabric) any {
	outputs := map[string]any{}
	for _, o := range f.Outputs {
		var v any
		_ = json.Unmarshal(o.JSON, &v) // config wrote it
		outputs[o.Name] = map[string]any{"Value": v, "Description": o.Description, "Sensitive": o.Sensitive}
	}
	bare := *f
	bare.Outputs = nil
	text, err := json.Marshal(bare)
	var model any
	if err != nil || json.Unmarshal(text, &model) != nil {
		panic(fmt.Sprintf("the model is not JSON: %v", err)) // a mistake in our own types; every test would see it
	}
	return map[string]any{"Fabric": model, "Outputs": outputs}
}

// flatten writes a line for each value. Places in the files are left out.
func flatten(path string, v any, name func(string) string, out *[]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, in := range v {
			if k != "Pos" {
				flatten(path+"."+name(k), in, name, out)
			}
		}
	case []any:
		for _, in := range v {
			at := path + "[]"
			if m, is := in.(map[string]any); is {
				if n, is := m["Name"].(string); is {
					at = path + "[" + name(n) + "]"
				}
			}
			flatten(at, in, name, out)
		}
	case string:
		*out = append(*out, path+"="+name(v))
	default:
		*out = append(*out, fmt.Sprintf("%s=%v", path, v))
	}
}
