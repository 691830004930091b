package apply

import (
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
)

// TestWavesKeepLinkedHostsApart: hosts whose traffic feels nothing go first and together; of the
// others no two that share a link at the same time.
func TestWavesKeepLinkedHostsApart(t *testing.T) {
	host := func(name string, worst resource.Disruption) planner.HostPlan {
		return planner.HostPlan{Name: name, Actions: []planner.Action{{Changes: []resource.Change{{Disruption: worst}}}}}
	}
	// A ring of five, and two that feel nothing.
	p := &planner.Plan{Hosts: []planner.HostPlan{host("a", resource.Reboot), host("b", resource.Reboot), host("c", resource.DriverReload), host("d", resource.Reboot),
		host("e", resource.Reboot), host("calm", resource.Live), host("calm2", resource.Live), {Name: "settled"}}}
	const ring = "ab bc cd de ea"
	apart := func(a, b string) bool { return strings.Contains(ring, a+b) || strings.Contains(ring, b+a) }
	var got []string
	for _, w := range waves(p, apart) {
		var names []string
		for _, h := range w {
			names = append(names, h.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if want := []string{"calm calm2", "a c", "b d", "e"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
