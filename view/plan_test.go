package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestWhatOthersChangedIsShownAndIsNoChange: with the value that somebody set. What has its earlier value already is not
// shown at all.
func TestWhatOthersChangedIsShownAndIsNoChange(t *testing.T) {
	undo := func(name string, kept ...resource.Change) planner.Action {
		return planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "sysctl", Name: name}}, Op: planner.Undo, Kept: kept, Forget: []resource.Atom{"sysctl x"}}
	}
	others, back, tidied := undo("net.others", resource.Change{Attribute: "value", From: "1", To: "7"}), undo("net.back"), undo("net.tidied")
	back.Changes = []resource.Change{{Attribute: "value", From: "1", To: "0"}}
	plan := &planner.Plan{Fabric: "f", Destroy: true, Hosts: []planner.HostPlan{{Name: "a", Actions: []planner.Action{others, back, tidied}}, {Name: "b", Actions: []planner.Action{tidied}}}}
	var text bytes.Buffer
	New(&text).Plan(plan, nil)
	for name, got := range map[string]string{"text": text.String(), "Markdown": PlanMarkdown(plan, nil)} {
		if !strings.Contains(got, "value was changed by someone else since (1 → 7), and is kept") || strings.Contains(got, "net.tidied") || !strings.Contains(got, "1 change on 1 ") {
			t.Errorf("%s:\n%s", name, got)
		}
	}
	if !strings.Contains(text.String(), "· sysctl.net.others  nothing to do\n") || strings.Contains(PlanMarkdown(plan, nil), "net.others [") {
		t.Errorf("a change that is not made is called live:\n%s\n%s", text.String(), PlanMarkdown(plan, nil))
	}
	if !strings.Contains(text.String(), "b as declared") {
		t.Errorf("host b needs nothing:\n%s", text.String())
	}
}

// TestWhatIsAdoptedIsShown: before the first apply, and when its block goes. Hosts that have it in common have one line, whatever their values.
func TestWhatIsAdoptedIsShown(t *testing.T) {
	adopts := func(kind, name string) planner.Adoption {
		return planner.Adoption{Addr: resource.Addr{Kind: kind, Name: name}, Values: map[resource.Atom]string{"x": "1"}}
	}
	var many []planner.Adoption
	for range 9 {
		many = append(many, adopts("nic", "n"))
	}
	first := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "a", Adopts: []planner.Adoption{adopts("nic", "rail0")}}, {Name: "b", Adopts: []planner.Adoption{adopts("nic", "rail0")}}, {Name: "c", Adopts: many}}}
	of := func(host, value string, changes ...resource.Change) planner.HostPlan {
		return planner.HostPlan{Name: host, Actions: []planner.Action{{Resource: resource.Resource{Addr: resource.Addr{Host: host, Kind: "nic", Name: "rail0"}}, Op: planner.Undo, Changes: changes,
			Adopted: []resource.Change{{Attribute: "address", From: value, To: value}, {Attribute: "mtu", From: "9000", To: "9000"}}}}}
	}
	last := &planner.Plan{Fabric: "f", Destroy: true, Hosts: []planner.HostPlan{of("a", "10.0.0.1/24"), of("b", "10.0.0.7/24"), of("c", "10.0.0.9/24", resource.Change{Attribute: "state", From: "up", To: "down"})}}
	for want, plan := range map[string]*planner.Plan{
		"a, b: adopted by the first apply, because they are as declared already: nic.rail0; destroy leaves them":                                   first,
		"c: adopted by the first apply, because they are as declared already: nic.n, nic.n, nic.n, nic.n, nic.n, nic.n and 3 more; destroy leaves": first,
		"· nic.rail0  address, mtu left: adopted, it was there before\n":                                                                           last,
		"      · address, mtu left: adopted, it was there before\n":                                                                                last,
	} {
		var text bytes.Buffer
		New(&text).Plan(plan, nil)
		if strings.Count(text.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, text.String())
		}
	}
	for want, plan := range map[string]*planner.Plan{"as declared already: nic.rail0": first, "address, mtu left: adopted, it was there before": last} {
		if got := PlanMarkdown(plan, nil); !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
}
