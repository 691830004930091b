package config

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"

	"github.com/fabricform/fabricform/fabric"
)

// TestMembersAreWhatExpressionsSee holds what editors offer to what evaluation knows.
func TestMembersAreWhatExpressionsSee(t *testing.T) {
	l := newLoader(".", Options{})
	l.hostBlocks["a"] = &hostBlock{name: "a"}
	l.insts = []*hostInstance{{h: &fabric.Host{Name: "a", BlockName: "a"}}}
	each := cty.ObjectVal(map[string]cty.Value{"key": cty.StringVal("k"), "value": cty.True})
	for of, v := range map[string]cty.Value{
		"host": l.hostsValue(true).GetAttr("a"),
		"nic":  nicValue(&fabric.NIC{}, true),
		"self": self(instance{s: scope{"each": each}}, cty.NullVal(cty.String), cty.EmptyObjectVal),
		"each": each,
	} {
		have := propertyNames(of)
		slices.Sort(have)
		if want := attributeNames(v); !slices.Equal(have, want) {
			t.Errorf("%s: %v, want %v", of, have, want)
		}
	}
}

func TestLanguageHelp(t *testing.T) {
	nic := Language().Block("host").Block("nic")
	if nic.Header != `nic "NAME"` || !nic.Many || nic.Attribute("for_each") == nil || nic.Attribute("nothing") != nil || nic.Block("nothing") != nil {
		t.Fatalf("%+v", nic)
	}
	if a := nic.Attribute("gid").Part("family"); !slices.Equal(a.Values, []string{`"ipv4"`, `"ipv6"`}) || a.Doc == "" {
		t.Fatalf("%+v", a)
	}
	if a := Language().Block("nccl").Attribute("transport"); !slices.Equal(a.Values, []string{`"ib"`, `"socket"`, `"auto"`}) || a.Default != "derived" {
		t.Fatalf("%+v", a)
	}
	at := slices.IndexFunc(Functions(), func(f Function) bool { return f.Name == "cidrhost" })
	if Functions()[at].Signature() != "cidrhost(prefix, n)" {
		t.Fatalf("%+v", Functions()[at])
	}
}

// TestFunctionsAreDocumented: every function, with its parameters and an example whose result is true.
func TestFunctionsAreDocumented(t *testing.T) {
	all := functions(".", newMeter())
	for name, f := range all {
		h, there := functionDocs[name]
		names := strings.Fields(h.params)
		open := len(names) > 0 && strings.HasSuffix(names[len(names)-1], "…")
		switch fixed := len(f.Params()); {
		case !there:
			t.Errorf("%s is not documented", name)
		case open != (f.VarParam() != nil) || len(names) < fixed || len(names) > fixed+1 || !open && len(names) != fixed:
			t.Errorf("%s: parameters %v, but the function has %d", name, names, fixed)
		case h.result == "" && !strings.Contains(name, "file"):
			t.Errorf("%s: the example has no result", name)
		case h.result != "":
			e, diags := hclsyntax.ParseExpression([]byte("jsonencode("+h.example+") == jsonencode("+h.result+")"), name, hcl.InitialPos)
			if diags.HasErrors() {
				t.Fatal(name, diags)
			}
			v, diags := e.Value(&hcl.EvalContext{Functions: all})
			if diags.HasErrors() || v.False() || !strings.Contains(h.example, name+"(") {
				t.Errorf("%s is not %s: %v", h.example, h.result, diags)
			}
		}
	}
	for name := range functionDocs {
		if _, there := all[name]; !there {
			t.Errorf("function %s does not exist", name)
		}
	}
}

// TestOverlay: unsaved text wins over a file's, and a file that is not saved yet counts.
func TestOverlay(t *testing.T) {
	saved := write(t, "a.hcl", `host "a" {}`)
	dir := filepath.Dir(saved)
	unsaved := filepath.Join(dir, "b.hcl")
	o := Options{Overlay: map[string][]byte{saved: []byte("variable \"v\" {}\nhost \"a\" {\n  address = var.v\n}\n"), unsaved: []byte(`host "b" {}`)}}
	if _, files, d := Load(dir, o); len(files) != 2 || len(d) != 1 || d[0].Summary != "Variable has no value" {
		t.Fatal(files, d)
	}
	o.Editing = true
	if f, _, d := Load(dir, o); len(d) != 0 || len(f.Hosts) != 2 {
		t.Fatal(d)
	}
	if f, _, d := Load(unsaved, o); len(d) != 0 || len(f.Hosts) != 1 {
		t.Fatal(d)
	}
	if f, _, d := Load(t.TempDir(), o); f != nil || len(d) != 1 {
		t.Fatal(d)
	}
	o.Overlay[unsaved] = []byte("# " + strings.Repeat("x", maxFileBytes))
	if _, _, d := Load(dir, o); len(d) != 1 || !strings.Contains(d[0].Detail, "larger than 4 MiB") {
		t.Fatal(d)
	}
}
