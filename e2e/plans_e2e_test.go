//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlansAsData: a plan is saved, reviewed as JSON and Markdown, refused where hosts moved, applied
// once, reported and kept in the hosts' history.
func TestPlansAsData(t *testing.T) {
	together(t)
	dir := t.TempDir()
	fabric := lifeFabric(t, dir, "plans", "{ a = 1, b = 2 }", lifeSysctl+lifeRail0)
	state := labUpFor(t, fabric)
	plan, report := filepath.Join(dir, "tonight.plan"), filepath.Join(dir, "done")

	try(t, state, "plan", "-lab", "-out", plan, "-detailed-exitcode", fabric).want(t, 2, "Saved")
	if info, err := os.Stat(plan); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatal(info, err)
	}
	markdown := try(t, state, "plan", "-lab", "-markdown", fabric)
	markdown.want(t, 0, "### 📋 fabricform: ", "<details><summary><b>a, b</b>", "```diff", "10.1.0.1/24 … 10.1.0.2/24")
	lines := jsonLines(t, try(t, state, "plan", "-lab", "-json", fabric).out)
	if last := lines[len(lines)-1]; last["type"] != "plan" || last["format"] != 2.0 || last["summary"].(map[string]any)["hosts"] != 2.0 {
		t.Fatalf("%v", last)
	}

	t.Run("it is shown again", func(t *testing.T) {
		try(t, state, "show", plan).want(t, 0, "10.1.0.1/24", "Saved by ", `for lab "plans"`)
	})
	t.Run("a host that moved is left as it is", func(t *testing.T) {
		inside(t, state, fabric, "a", "ip", "link", "set", "eth1", "mtu", "2000")
		a := try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", "-report", report+".json", plan)
		a.want(t, 5, "host a changed since the plan was saved", "mtu 1500 → 9000", "mtu 2000 → 9000", "b.nic.rail0")
		if strings.Contains(inside(t, state, fabric, "a", "ip", "addr"), "10.1.0.1") {
			t.Error("a was changed")
		}
		if !strings.Contains(inside(t, state, fabric, "b", "ip", "addr"), "10.1.0.2") {
			t.Error("b was not changed")
		}
		var r struct {
			Exit     int
			Source   string
			Outcomes []struct{ Host string }
			Before   map[string]any
		}
		raw, err := os.ReadFile(report + ".json")
		if err != nil || json.Unmarshal(raw, &r) != nil || r.Exit != 5 || len(r.Before) != 2 || !strings.Contains(r.Source, "files ") {
			t.Fatalf("%s %v", raw, err)
		}
	})
	t.Run("a plan is applied once", func(t *testing.T) {
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", plan).want(t, 5, "this plan was already applied at")
	})
	t.Run("the facts that a plan was made from count, not only the difference", func(t *testing.T) {
		try(t, state, "plan", "-lab", "-out", plan, fabric).want(t, 0)
		inside(t, state, fabric, "a", "ip", "link", "set", "eth1", "address", "02:00:00:00:00:77")
		try(t, state, "apply", "-lab", "-auto-approve", "-no-verify", plan).want(t, 5, "the facts behind the plan have changed")
	})
	t.Run("applied, reported, in the history", func(t *testing.T) {
		try(t, state, "plan", "-lab", "-out", plan, fabric).want(t, 0)
		a := try(t, state, "apply", "-lab", "-auto-approve", "-json", "-no-verify", "-report", report+".md", plan)
		a.want(t, 0)
		types := map[string]int{}
		for _, l := range jsonLines(t, a.out) {
			types[l["type"].(string)]++
		}
		if types["host_plan"] != 2 || types["host_outcome"] != 2 || types["plan"] != 1 {
			t.Fatalf("%v", types)
		}
		text, err := os.ReadFile(report + ".md")
		if err != nil || !strings.Contains(string(text), "# fabricform apply of plans") || !strings.Contains(string(text), "✅ `a.nic.rail0` done") {
			t.Fatalf("%s %v", text, err)
		}
		try(t, state, "history", "-lab", fabric).want(t, 0, "apply", "on b  by ", "on a  by ", "files ")
	})
	t.Run("broken and foreign files are told apart", func(t *testing.T) {
		raw, err := os.ReadFile(plan)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"cut":     string(raw[:len(raw)/2]),
			"version": strings.Replace(string(raw), "plan 3", "plan 9", 1),
			"build":   strings.Replace(string(raw), `"build":"`, `"build":"x`, 1),
			"empty":   string(raw[:bytes.IndexByte(raw, '\n')+1]) + "{}",
		} {
			path := filepath.Join(dir, name+".plan")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			try(t, state, "apply", "-lab", "-auto-approve", path).want(t, 1, "save it again")
		}
	})
	t.Run("some hosts only", func(t *testing.T) {
		a := try(t, state, "plan", "-lab", "-host", "b", fabric)
		a.want(t, 0)
		if strings.Contains(a.out, "a.") || strings.Contains(a.out, "vanished") || strings.Contains(a.out, "was removed from the files") {
			t.Error("a is spoken of")
		}
		try(t, state, "plan", "-lab", "-exclude", "z*", fabric).want(t, 1, `"z*" names none of the hosts`)
	})
}

func jsonLines(t *testing.T, text string) (out []map[string]any) {
	t.Helper()
	for line := range strings.Lines(text) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		out = append(out, m)
	}
	return out
}
