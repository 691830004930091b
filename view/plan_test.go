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
	if !strings.Contains(text.String(), "b as declared") {
		t.Errorf("host b needs nothing:\n%s", text.String())
	}
}
