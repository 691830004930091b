package apply

import (
	"maps"
	"slices"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// TestAPartIsSaidToBeOne: the checks of some hosts, or of one link, do not speak for the fabric.
func TestAPartIsSaidToBeOne(t *testing.T) {
	for name, c := range map[string]struct {
		chosen map[string]bool
		link   string
		part   bool
	}{
		"all":    {nil, "", false},
		"a host": {map[string]bool{"a": true}, "", true},
		"a link": {nil, "rail0", true},
		"every":  {map[string]bool{"a": true, "b": true}, "", false},
	} {
		y := newToys(t)
		o := y.options()
		o.Chosen = c.chosen
		s := Open(t.Context(), y.fabric, o)
		Verify(t.Context(), s, VerifyOptions{Only: []validators.Check{validators.CheckLink}, Link: c.link}, y.heard)
		s.Close()
		note := "note: A link is checked only if both of its hosts are chosen, and other ends are at b: choose them, too."
		if got := slices.Contains(y.heard.lines, note); got != (name == "a host") {
			t.Errorf("%s: the reason is said: %v: %q", name, got, y.heard.lines)
		}
		if got := slices.Contains(y.heard.lines, "of a part"); got != c.part {
			t.Errorf("%s: a part is %v: %q", name, got, y.heard.lines)
		}
	}
}

// TestOnlyHostsThatArePlannedAreWaitedFor: neither a host that changed since the plan was saved nor one that is unreachable
// will read as declared.
func TestOnlyHostsThatArePlannedAreWaitedFor(t *testing.T) {
	acts := []planner.Action{{Changes: []resource.Change{{Attribute: "x", To: "1"}}}}
	p := &planner.Plan{Hosts: []planner.HostPlan{{Name: "a", Actions: acts}, {Name: "b"}, {Name: "c", Actions: acts, Stale: []string{"it moved"}}, {Name: "d", Actions: acts, Unreachable: "gone"}}}
	if got, want := plannedHosts(p), map[string]bool{"a": true, "b": false}; !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
