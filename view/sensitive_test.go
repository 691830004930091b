package view

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestNoHashOfASensitiveValueIsShown: a hash with its salt tells whether a guess is right.
func TestNoHashOfASensitiveValueIsShown(t *testing.T) {
	spec, err := json.Marshal([]string{fabric.Secrets{}.Hide("hunter2", strings.Repeat("1", 32)), "plain"})
	if err != nil {
		t.Fatal(err)
	}
	p := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "a", Actions: []planner.Action{{Resource: resource.Resource{Spec: spec}, Changes: []resource.Change{{Attribute: "x", To: "y"}, {Attribute: "file", To: "sha256:1111111111111111,0644", Salted: true}}}}}}}
	var lines bytes.Buffer
	New(&lines).JSON().Plan(p, nil)
	report, err := (&ReportFile{Report: apply.Report{Plan: p}}).Bytes("r.json")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	New(&text).Plan(p, nil)
	for _, text := range []string{lines.String(), string(report), text.String(), PlanMarkdown(p, nil)} {
		if strings.Contains(text, "1111") || !strings.Contains(text, `(sensitive),0644`) {
			t.Error(text)
		}
	}
}

func TestOnlyJSONAndRawPrintASensitiveOutput(t *testing.T) {
	all := []fabric.Output{{Name: "list", JSON: []byte(`["a"]`)}, {Name: "token", Sensitive: true, JSON: []byte(`"hunter2"`)}}
	for _, c := range []struct {
		name string
		form OutputForm
		want string
	}{
		{"", OutputText, "list = [\"a\"]\ntoken = (sensitive)\n"}, {"token", OutputText, "(sensitive)\n"}, {"token", OutputRaw, "hunter2\n"}, {"token", OutputJSON, "\"hunter2\"\n"},
		{"", OutputJSON, "{\n  \"list\": [\n    \"a\"\n  ],\n  \"token\": \"hunter2\"\n}\n"}, {"list", OutputRaw, "[\n  \"a\"\n]\n"}, {"", OutputRaw, "-raw prints one output: name it"},
	} {
		var out bytes.Buffer
		if err := New(&out).Outputs(all, c.name, c.form); err != nil {
			out.WriteString(err.Error())
		}
		if out.String() != c.want {
			t.Errorf("%q in form %d: %q", c.name, c.form, out.String())
		}
	}
}
