package config

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/zclconf/go-cty/cty"
	ctyjson "github.com/zclconf/go-cty/cty/json"

	"github.com/fabricform/fabricform/fabric"
)

const schemaGolden = "testdata/fabric.schema.json"

// compiled is the schema, which its own meta-schema has accepted.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("fabric.json", decoded(t, text)); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("fabric.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decoded(t *testing.T, text []byte) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestSchemaGolden(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaGolden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(schemaGolden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Fatalf("run `make golden` and read the diff\n%s", d)
	}
}

// TestSchemaTakesTheExamples converts each example to JSON: the schema must take it, and it must
// mean what the native text means.
func TestSchemaTakesTheExamples(t *testing.T) {
	s := compiled(t)
	files, err := filepath.Glob("../examples/*.hcl")
	if err != nil || len(files) < 6 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		native, _, d := Load(file, Options{})
		if d.HasErrors() {
			t.Fatal(d)
		}
		text := toJSON(t, file)
		if err := s.Validate(decoded(t, text)); err != nil {
			t.Errorf("%s: %v\n%s", file, err, text)
		}
		same := good(t, "f.hcl.json", string(text), Options{})
		if d := cmp.Diff(native, same, cmpopts.IgnoreTypes(fabric.Block{}), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); d != "" {
			t.Errorf("%s: %s", file, d)
		}
	}
}

// TestSchemaAgreesWithLoad: both accept the valid files, and both refuse the invalid ones.
func TestSchemaAgreesWithLoad(t *testing.T) {
	s := compiled(t)
	host := func(inside string) string { return `{"host": {"a": ` + inside + `}}` }
	nic := func(inside string) string { return host(`{"nic": {"r": {"netdev": "e", ` + inside + `}}}`) }
	for text, want := range map[string]bool{
		`{}`: true, `[]`: true, `[{"locals": {"a": 1}}, {"//": 1, "locals": [{"b": null}]}]`: true, `7`: false,
		`{"hosts": {}}`: false, `{"host": {}}`: false, `{"ssh": null}`: true, `{"ssh": [{}, {}]}`: false, `{"fabric": {"a": {}, "b": {}}}`: false,
		host(`{}`): true, host(`[{"//": "x"}]`): true, host(`7`): false, host(`{"addr": "a"}`): false,
		host(`{"memlock": 1, "sysctl": {"net.core.rmem_max": 1}, "labels": "${{a = 1}}"}`): true, host(`{"labels": ["a"]}`): false, host(`{"network_manager": "nm"}`): false,
		host(`{"enabled": "${true}", "for_each": {}}`): true, host(`{"enabled": "yes"}`): false,
		nic(`"mtu": 9000`): true, nic(`"mtu": "9000"`): true, nic(`"mtu": "${4500 * 2}"`): true, nic(`"mtu": null`): true, nic(`"mtu": 67`): false, nic(`"mtu": true`): false, nic(`"mtu": 9000.5`): false,
		nic(`"up": "true"`): true, nic(`"up": 1`): false, nic(`"ipv6_link_local": "${"none"}"`): true, nic(`"ipv6_link_local": "no"`): false,
		nic(`"gid": {"version": 2, "${"index"}": 3}`): true, nic(`"gid": {"versions": 2}`): false, nic(`"gid": {"version": 3}`): false,
		nic(`"addresses": ["10.0.0.1/24"]`): true, nic(`"addresses": "10.0.0.1/24"`): false, nic(`"addresses": "${["10.0.0.1/24"]}"`): true,
		`{"nccl": {"gid_index": "auto", "transport": "auto", "hca": "auto"}}`: true, `{"nccl": {"transport": "tcp"}}`: false,
		`{"link": {"l": {}}}`: false, `{"link": {"l": {"endpoints": null}}}`: false, `{"output": {"o": {"value": {"a": [1, null]}}}}`: true,
		`{"validate": {"verbs": {"tests": ["send_bw"]}}}`: true, `{"validate": {"verbs": {"tests": ["send"]}}}`: false, `{"validate": {"ping": {"count": 5}, "tcp": [{"duration": "5s"}]}}`: true,
	} {
		text = inner(text)
		if err := s.Validate(decoded(t, []byte(text))); (err == nil) != want {
			t.Errorf("schema: %s: %v", text, err)
		}
		if _, _, d := Load(write(t, "f.hcl.json", text), Options{}); d.HasErrors() == want {
			t.Errorf("load: %s: %v", text, d)
		}
	}
}

// inner escapes the quotes in templates, which the cases leave out to be readable.
func inner(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		in, after, _ := strings.Cut(rest, "}\"")
		b.WriteString("${" + strings.ReplaceAll(in, `"`, `\"`) + "}\"")
		text = after
	}
}

// toJSON writes a file in HCL's JSON syntax: literals, lists and objects as themselves, whatever
// else as a template.
func toJSON(t *testing.T, file string) []byte {
	t.Helper()
	src, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, d := hclsyntax.ParseConfig(src, file, hcl.InitialPos)
	if d.HasErrors() {
		t.Fatal(d)
	}
	out, err := json.MarshalIndent(bodyJSON(t, src, f.Body.(*hclsyntax.Body)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func bodyJSON(t *testing.T, src []byte, b *hclsyntax.Body) map[string]any {
	out := map[string]any{}
	for n, a := range b.Attributes {
		out[n] = expressionJSON(t, src, a.Expr)
	}
	for _, k := range b.Blocks {
		inside := bodyJSON(t, src, k.Body)
		if len(k.Labels) == 1 {
			inside = map[string]any{k.Labels[0]: inside}
		}
		list, _ := out[k.Type].([]any)
		out[k.Type] = append(list, inside)
	}
	return out
}

func expressionJSON(t *testing.T, src []byte, e hclsyntax.Expression) any {
	switch x := e.(type) {
	case *hclsyntax.TupleConsExpr:
		out := []any{}
		for _, v := range x.Exprs {
			out = append(out, expressionJSON(t, src, v))
		}
		return out
	case *hclsyntax.TemplateExpr:
		return string(src[e.Range().Start.Byte+1 : e.Range().End.Byte-1])
	case *hclsyntax.LiteralValueExpr:
		text, err := ctyjson.Marshal(x.Val, cty.DynamicPseudoType)
		if err != nil {
			t.Fatal(err)
		}
		var v struct{ Value any }
		if err := json.Unmarshal(text, &v); err != nil {
			t.Fatal(err)
		}
		return v.Value
	}
	return "${" + string(e.Range().SliceBytes(src)) + "}"
}
