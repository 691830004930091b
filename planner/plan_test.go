package planner

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/resource"
)

// script is a kind whose difference stands in its spec.
type script struct {
	Exists  bool
	Changes []resource.Change
	Touches string
	Err     string
}

func kinds() resource.Kinds {
	return resource.Kinds{{Name: "k", Plan: func(_ *facts.Snapshot, raw json.RawMessage) (resource.Difference, error) {
		var s script
		if err := json.Unmarshal(raw, &s); err != nil {
			return resource.Difference{}, err
		}
		if s.Err != "" {
			return resource.Difference{}, errors.New(s.Err)
		}
		return resource.Difference{Exists: s.Exists, Changes: s.Changes, Touches: s.Touches}, nil
	}}}
}

func res(name string, s script, after ...string) resource.Resource {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	r := resource.Resource{Addr: resource.Addr{Host: "h", Kind: "k", Name: name}, Spec: raw}
	for _, a := range after {
		r.After = append(r.After, resource.Addr{Host: "h", Kind: "k", Name: a})
	}
	return r
}

var mtu = []resource.Change{{Attribute: "mtu", From: "1500", To: "9000", Disruption: resource.LinkFlap}}

func TestMakeOrdersByReferenceAndMarksWhatSettles(t *testing.T) {
	p := Make("f", kinds(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{
		res("route", script{Changes: mtu}, "nic"), res("nic", script{Exists: true, Changes: mtu}), res("done", script{Exists: true}),
	}}})
	var got []string
	for _, a := range p.Hosts[0].Actions {
		got = append(got, string(a.Op)+" "+a.Resource.Addr.Name)
	}
	if d := cmp.Diff([]string{"update nic", "create route"}, got); d != "" {
		t.Fatal(d)
	}
	if !p.Hosts[0].Actions[1].Settling || p.Hosts[0].Actions[0].Settling || p.Hosts[0].Settled != 1 {
		t.Fatalf("%+v", p.Hosts[0])
	}
	if p.Hosts[0].Actions[0].Disruption() != resource.LinkFlap {
		t.Fatal("the worst disruption is lost")
	}
}

func TestMakeRefusesTheManagementPathAndKeepsGoing(t *testing.T) {
	p := Make("f", kinds(), []HostInput{
		{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{
			res("a", script{Changes: mtu, Touches: "it carries your SSH connection"}), res("b", script{Err: "no NIC has MAC x"})}},
		{Name: "gone", Unreachable: "connection refused"},
	})
	if n := len(p.Problems()); n != 2 {
		t.Fatalf("%d problems", n)
	}
	if p.Changes() != 0 {
		t.Fatal("a fenced change is planned")
	}
	if p.Unreachable()["gone"] == "" {
		t.Fatal("the unreachable host is not named")
	}
}

func TestOrderNamesACircle(t *testing.T) {
	_, err := order([]resource.Resource{res("a", script{}, "b"), res("b", script{}, "a")})
	if err == nil || !strings.Contains(err.Error(), "h.k.a -> h.k.b -> h.k.a") {
		t.Fatalf("got %v", err)
	}
}

func TestMakeChecksAgainWhatStandsOnAChangedResource(t *testing.T) {
	p := Make("f", kinds(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{
		res("nic", script{Exists: true, Changes: mtu}), res("route", script{Exists: true}, "nic"),
	}}})
	h := p.Hosts[0]
	if len(h.Actions) != 2 || h.Actions[1].Op != Keep || !h.Actions[1].Settling || p.Changes() != 1 {
		t.Fatalf("%+v", h)
	}
}
