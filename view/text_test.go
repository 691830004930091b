package view

import (
	"bytes"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestAHostsTextControlsNoTerminal: what a host says is shown, and only this package's own colours act.
func TestAHostsTextControlsNoTerminal(t *testing.T) {
	const hostile = "a\x1b[2Jb\x1b]0;title\x07c\rd\be\x7ff\x1b[1;31mg"
	var b bytes.Buffer
	p := New(&b)
	p.Linef("%s", hostile)
	p.Errorf("%s", hostile)
	p.Plan(&planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "h", Unreachable: hostile, Problems: []planner.Problem{{Addr: resource.Addr{Host: "h", Kind: "nic", Name: "r"}, Message: hostile}}}}}, nil)
	want := `a␛[2Jb␛]0;title\x07c\x0dd\x08e\x7ff`
	if n := strings.Count(b.String(), want); n < 3 {
		t.Errorf("%d times %s in\n%q", n, want, b.String())
	}
	if left := strings.Trim(b.String(), "\x1b"); strings.ContainsAny(left, "\x07\r\b\x7f") || strings.Contains(left, "\x1b[2J") || strings.Contains(left, "\x1b]") {
		t.Errorf("%q", b.String())
	}
}

// TestAHostsTextIsNoMarkdown: it begins no element, table cell, link, emphasis, code or mention, and no line.
func TestAHostsTextIsNoMarkdown(t *testing.T) {
	const hostile = "<img src=x> & a | b `code` [link](http://x) *bold* _it_ @team\n# heading\x1b[2J"
	const want = `&lt;img src=x&gt; &amp; a \| b 'code' \[link](http://x) \*bold\* \_it\_ @` + "\u200b" + `team # heading␛\[2J`
	text := PlanMarkdown(&planner.Plan{Fabric: "f", Vanished: []resource.Member{{Name: "gone", Address: hostile}},
		Hosts: []planner.HostPlan{{Name: "h", Unreachable: hostile, Problems: []planner.Problem{{Addr: resource.Addr{Host: "h", Kind: "nic", Name: "r"}, Message: hostile}}}}}, []string{hostile})
	if n := strings.Count(text, want); n != 4 {
		t.Errorf("%d times %s in\n%s", n, want, text)
	}
	for _, raw := range []string{"<img", "`code`", " [link]", "@team", "\n# heading", "\x1b"} {
		if strings.Contains(text, raw) {
			t.Errorf("%q is in\n%s", raw, text)
		}
	}
}
