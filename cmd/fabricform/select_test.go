package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/fabric"
)

// TestALinkChoosesItsOwnHosts: who checks one link waits for no other host.
func TestALinkChoosesItsOwnHosts(t *testing.T) {
	f := &fabric.Fabric{
		Hosts: []*fabric.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
		Links: []*fabric.Link{{Name: "rail0", Endpoints: []fabric.NICRef{{Host: "a", NIC: "r0"}, {Host: "b", NIC: "r0"}}}},
	}
	f.Networks = []*fabric.Network{{Name: "storage", Members: []fabric.NICRef{{Host: "b", NIC: "s"}, {Host: "c", NIC: "s"}, {Host: "d", NIC: "s"}}}}
	for link, want := range map[string]string{"rail0": "a b", "storage": "b c d", "storage:b-c": "b c"} {
		chosen, err := selection{link: link}.choose(f)
		if got := on(chosen); err != nil || got != want {
			t.Errorf("-link %s: %s, %v; want %s", link, got, err, want)
		}
	}
	chosen, err := selection{link: "storage", exclude: []string{"d"}}.choose(f)
	if got := on(chosen); err != nil || got != "b c" {
		t.Errorf("-link storage -exclude d: %s, %v", got, err)
	}
	if _, err := (selection{link: "rail1"}).choose(f); err == nil || !strings.Contains(err.Error(), "-link rail1") || !strings.Contains(err.Error(), "storage, ") {
		t.Errorf("a link that is not there: %v", err)
	}
	if chosen, err := (selection{}).choose(f); chosen != nil || err != nil {
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
