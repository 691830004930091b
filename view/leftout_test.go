package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// TestWhatIsLeftOutIsNamed: the whole links and networks with the reason, what would be changed at the other ends, and no
// host that waits for a change counts as declared.
func TestWhatIsLeftOutIsNamed(t *testing.T) {
	nic := []resource.Addr{{Host: "a", Kind: "nic", Name: "r0"}}
	plan := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "a", LeftOut: nic}, {Name: "b", Unreachable: "refused"}, {Name: "c", Stale: []string{"mtu"}}, {Name: "d", Unchanged: 1}},
		LeftOut: []planner.LeftOut{
			{Kind: planner.OfLink, Name: "l1", Missing: []string{"b"}, Ends: nic}, {Kind: planner.OfLink, Name: "l2", Missing: []string{"b"}}, {Kind: planner.OfNetwork, Name: "n", Missing: []string{"b", "c"}},
		}}
	all := []string{"links l1, l2: left out, because b is unreachable", "network n: left out, because b is unreachable, and c changed since the plan was saved",
		"a: the changes of nic.r0 are left out with it; to make them nevertheless, run with -allow=half-links", "2 links left out, 1 network left out"}
	var text, lines bytes.Buffer
	New(&text).Plan(plan, nil)
	New(&lines).JSON().Plan(plan, nil)
	for name, got := range map[string]string{"text": text.String(), "Markdown": PlanMarkdown(plan, nil)} {
		for _, want := range all {
			if !strings.Contains(got, want) {
				t.Errorf("%q is missing in the %s:\n%s", want, name, got)
			}
		}
	}
	if strings.Contains(text.String(), "a, d as declared") || !strings.Contains(text.String(), "d as declared (1 resource)") {
		t.Errorf("host a is said to be as declared:\n%s", text.String())
	}
	for _, want := range []string{`"left_out":[{"host":"a","kind":"nic","name":"r0"}]`, `"left_out":[{"kind":"link","name":"l1","missing":["b"],"ends":[{"host":"a","kind":"nic","name":"r0"}]}`} {
		if !strings.Contains(lines.String(), want) {
			t.Errorf("%s is missing in the JSON:\n%s", want, lines.String())
		}
	}
	plan.LeftOut[0].Saved = true
	text.Reset()
	New(&text).Plan(plan, nil)
	if want := "left out with it; to make them, save a new plan once the missing hosts are reachable, or plan and apply with -allow=half-links"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is missing in\n%s", want, text.String())
	}
	plan.LeftOut[0].Half, plan.LeftOut[0].Saved = true, false
	text.Reset()
	New(&text).Plan(plan, nil)
	if want := "link l1: changed at the other ends only, although b is unreachable (-allow=half-links)"; !strings.Contains(text.String(), want) || strings.Contains(text.String(), "skipped with its links") {
		t.Errorf("%q is missing in\n%s", want, text.String())
	}
	text.Reset()
	lab := validators.Result{Check: validators.CheckNCCL, Item: validators.NCCLPort, Verdict: validators.Skip, Skipped: validators.InLab, Cause: "the lab has no RDMA devices"}
	results := []validators.Result{{Check: validators.CheckPing, Verdict: validators.Pass}, lab, lab}
	New(&text).Results(results, false)
	if want := "! Not proven in this lab: nccl over RDMA: the lab has no RDMA devices\n"; strings.Count(text.String(), want) != 1 {
		t.Errorf("%q does not stand there once:\n%s", want, text.String())
	}
	if md := resultsMarkdown([]validators.Result{{Check: validators.CheckNCCL, Host: "a", Subject: validators.Subject{Kind: validators.SubjectHost, Name: "a"}, Verdict: validators.Pass}}); !strings.Contains(md, "| host a |") {
		t.Errorf("a host's name does not stand there once:\n%s", md)
	}
	if md := resultsMarkdown(results); !strings.HasPrefix(md, "### ⚠️ checks") || !strings.Contains(md, "the lab has no RDMA devices") {
		t.Errorf("a plain tick:\n%s", md)
	}
	text.Reset()
	New(&text).Results([]validators.Result{{Check: validators.CheckLink, Verdict: validators.Pass}, {Check: validators.CheckPing, Verdict: validators.Skip, Skipped: validators.NotApplied}}, false)
	if !strings.Contains(text.String(), "Partly verified") {
		t.Errorf("what was left out counts as verified:\n%s", text.String())
	}
}
