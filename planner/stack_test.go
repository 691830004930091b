package planner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// TestWhatAwaitsADriverIsNoProblemWhereOneComes, and is one where none does. The stack comes first.
func TestWhatAwaitsADriverIsNoProblemWhereOneComes(t *testing.T) {
	changes := []resource.Change{{Attribute: "package x", To: "1", Stage: resource.StageStack}}
	plan := func(of func() (resource.Difference, error)) func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
		return func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) { return of() }
	}
	table := resource.Kinds{
		{Name: "nic", Plan: plan(func() (resource.Difference, error) {
			return resource.Difference{Exists: true, Changes: []resource.Change{{Attribute: "mtu", From: "1", To: "2"}}}, nil
		})},
		{Name: "stack", Stage: resource.StageStack, Plan: plan(func() (resource.Difference, error) { return resource.Difference{Exists: true, Changes: changes}, nil })},
		{Name: "module", Plan: plan(func() (resource.Difference, error) {
			return resource.Difference{}, &resource.MissingDriver{Why: "no module"}
		})},
	}
	named := func(kind string) resource.Resource {
		return resource.Resource{Addr: resource.Addr{Host: "h", Kind: kind, Name: kind}}
	}
	in := HostInput{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{named("nic"), named("stack"), named("module")}}
	p := Make("f", table, []HostInput{in})
	if len(p.Problems()) != 0 || len(p.Notes()) != 1 || !strings.Contains(p.Notes()[0], "planned again once the driver stack is installed: no module") {
		t.Errorf("problems %v, notes %v", p.Problems(), p.Notes())
	}
	if a := p.Hosts[0].Actions; len(a) != 2 || a[0].Stage != resource.StageStack {
		t.Errorf("%+v", a)
	}
	if s, r := p.Only(resource.StageStack), p.Without(resource.StageStack); s.Changes() != 1 || !s.Has(resource.StageStack) || r.Changes() != 1 || r.Has(resource.StageStack) || p.Changes() != 2 {
		t.Errorf("%+v and %+v", s.Hosts, r.Hosts)
	}
	changes = nil
	if got := Make("f", table, []HostInput{in}).Problems(); len(got) != 1 || got[0].Message != "no module" {
		t.Error(got)
	}
}
