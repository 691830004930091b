package fabric

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// TestALinkChoosesItsOwnHosts: who checks one link waits for no other host.
func TestALinkChoosesItsOwnHosts(t *testing.T) {
	f := &Fabric{
		Hosts: []*Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
		Links: []*Link{{Name: "rail0", Endpoints: []NICRef{{Host: "a", NIC: "r0"}, {Host: "b", NIC: "r0"}}}},
	}
	f.Networks = []*Network{{Name: "storage", Members: []NICRef{{Host: "b", NIC: "s"}, {Host: "c", NIC: "s"}, {Host: "d", NIC: "s"}}}}
	for link, want := range map[string]string{"rail0": "a b", "storage": "b c d", "storage:b-c": "b c"} {
		chosen, err := Selection{Link: link}.Choose(f)
		if got := on(chosen); err != nil || got != want {
			t.Errorf("-link %s: %s, %v; want %s", link, got, err, want)
		}
	}
	chosen, err := Selection{Link: "storage", Exclude: []string{"d"}}.Choose(f)
	if got := on(chosen); err != nil || got != "b c" {
		t.Errorf("-link storage -exclude d: %s, %v", got, err)
	}
	if _, err := (Selection{Link: "rail1"}).Choose(f); err == nil || !strings.Contains(err.Error(), "-link rail1") || !strings.Contains(err.Error(), "storage, ") {
		t.Errorf("a link that is not there: %v", err)
	}
	if _, err := (Selection{Link: "storage", Exclude: []string{"*"}}).Choose(f); err == nil || !strings.Contains(err.Error(), "leave no host") {
		t.Errorf("a selection of no host: %v", err)
	}
	for _, s := range []Selection{{Hosts: []string{"x"}}, {Exclude: []string{"x"}}} { // the hosts may come from the command line
		if _, err := s.Choose(f); err == nil || !strings.Contains(err.Error(), `"x" names none of the hosts: `) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	if chosen, err := (Selection{}).Choose(f); chosen != nil || err != nil {
		t.Errorf("no terms: %v, %v", chosen, err)
	}
}

func on(chosen map[string]bool) string {
	var out []string
	for _, h := range slices.Sorted(maps.Keys(chosen)) {
		if chosen[h] {
			out = append(out, h)
		}
	}
	return strings.Join(out, " ")
}

// TestEachTermOfAHostChoosesAHost: what a shell completes is never refused, and never means other hosts.
func TestEachTermOfAHostChoosesAHost(t *testing.T) {
	f := &Fabric{Hosts: []*Host{{Name: "a", Labels: map[string]string{"rack": "r1", "k=v": "x", "glob": "r*", "set": "[a", "none": ""}},
		{Name: "b", Labels: map[string]string{"rack": "r1", "zone": "eu:1"}}}}
	want := []string{"a", "b", "rack=r1", "zone=eu:1"}
	if got := f.HostTerms(); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	for term, n := range map[string]int{"a": 1, "b": 1, "rack=r1": 2, "zone=eu:1": 1} {
		chosen, err := Selection{Hosts: []string{term}}.Choose(f)
		if err != nil || slices.Index(want, term) < 0 || (chosen["a"] && chosen["b"]) != (n == 2) || !chosen["a"] && !chosen["b"] {
			t.Errorf("%s: %v %v", term, chosen, err)
		}
	}
}
