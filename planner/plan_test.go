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
	if !p.Hosts[0].Actions[1].Disturbed || p.Hosts[0].Actions[0].Disturbed || p.Hosts[0].Unchanged != 1 {
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
	if q := p.Problems()[0].Message; !strings.Contains(q, "-allow=management") {
		t.Fatalf("no cure: %s", q)
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
	if len(h.Actions) != 2 || h.Actions[1].Op != Keep || !h.Actions[1].Disturbed || p.Changes() != 1 {
		t.Fatalf("%+v", h)
	}
	p = Make("f", kinds(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{
		res("nic", script{Exists: true, Changes: mtu}), res("route", script{}, "nic"),
	}}})
	if h := p.Hosts[0]; len(h.Actions) != 1 {
		t.Errorf("nothing is there, and is checked again: %+v", h)
	}
}

// What lasts comes after all that runs, what is given back included; a refusal counts where something
// would be changed, and notes are told once.
func TestMakePutsTheStagesInOrder(t *testing.T) {
	table := append(kinds(), resource.Kind{Name: "file", Stage: resource.StagePersist, Plan: func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
		return resource.Difference{Changes: []resource.Change{{Attribute: "text", To: "new", Stage: resource.StagePersist}}, Notes: []string{"not all of it lasts"}}, nil
	}})
	file := resource.Resource{Addr: resource.Addr{Host: "h", Kind: "file", Name: "conf"}}
	in := HostInput{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{file, res("nic", script{Changes: mtu}), res("done", script{Exists: true})},
		Refused: map[resource.Addr]string{{Host: "h", Kind: "k", Name: "done"}: "nobody cares"}}
	other := in
	other.Name = "i"
	p := Make("f", table, []HostInput{in, other})
	var got []string
	for _, a := range p.Hosts[0].Actions {
		got = append(got, a.Resource.Addr.Name+":"+a.Stage)
	}
	if d := cmp.Diff([]string{"nic:", "conf:persist"}, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"h, i: not all of it lasts"}, p.Notes()); d != "" {
		t.Error(d)
	}
	if !p.Has(resource.StagePersist) || len(p.Problems()) != 0 {
		t.Errorf("%+v", p.Problems())
	}
	in.Refused[file.Addr] = "netplan cannot read 50-broken.yaml"
	if got := Make("f", table, []HostInput{in}).Problems(); len(got) != 1 || got[0].Message != "netplan cannot read 50-broken.yaml" {
		t.Errorf("problems %v", got)
	}
}

// TestMakeChecksAgainWhatStandsHigher: a bond's NIC is as declared and is made again, and the routes on it go with it.
func TestMakeChecksAgainWhatStandsHigher(t *testing.T) {
	p := Make("f", kinds(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{
		res("bond", script{Exists: true, Changes: mtu}), res("nic", script{Exists: true}, "bond"), res("route", script{Exists: true}, "nic"),
		res("elsewhere", script{Exists: true}),
	}}})
	var got []string
	for _, a := range p.Hosts[0].Actions {
		got = append(got, string(a.Op)+" "+a.Resource.Addr.Name)
	}
	if d := cmp.Diff([]string{"update bond", "keep nic", "keep route"}, got); d != "" || p.Changes() != 1 {
		t.Fatal(d, p.Changes())
	}
}
