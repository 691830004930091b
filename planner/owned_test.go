package planner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/host"
	"github.com/fabricform/fabricform/resource"
)

// values are the things of ownable.
const values = facts.Part[map[string]string]("k")

// ownable is a kind whose things are in its part of the snapshot: it claims what its spec names.
func ownable() resource.Kinds {
	k := kinds()[0]
	k.Claims = func(_ *facts.Snapshot, spec json.RawMessage, a resource.Atom) bool {
		return strings.Contains(string(spec), string(a))
	}
	k.Undo = func(s *facts.Snapshot, a resource.Atom, to string) (resource.Change, string, error) {
		c := a.Change(values.Of(s)[a.Thing()], to)
		c.Disruption = resource.LinkFlap
		return c, map[string]string{"guarded": "the operator's own"}[a.Thing()], nil
	}
	k.Between = func(_ resource.Atom, o resource.Owned, live string) bool {
		return o.Ours == "pfc, off" && live == "off"
	}
	k.ApplyUndo = func(context.Context, host.Host, *facts.Snapshot, resource.Atom, string) error { return nil }
	return resource.Kinds{k}
}

func record(fabric string, atoms map[resource.Atom]resource.Owned, roster ...string) resource.Record {
	r := resource.Record{Version: resource.RecordVersion, Fabric: fabric, Atoms: atoms}
	for _, n := range roster {
		r.Roster = append(r.Roster, resource.Member{Name: n, Address: n + ".example"})
	}
	return r
}

func TestOnlyWhatIsStillOursIsGivenBack(t *testing.T) {
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"ours": "2", "moved": "7", "same": "1", "guarded": "2", "tabs": "1\t2", "half": "off"})
	p := Make("f", ownable(), []HostInput{{Name: "h", Snapshot: snap, Records: []resource.Record{record("f", map[resource.Atom]resource.Owned{
		"k ours":     {Earlier: "1", Ours: "2"},
		"k moved":    {Earlier: "1", Ours: "2"},
		"k same":     {Earlier: "1", Ours: "1"},
		"k gone":     {Earlier: "1", Ours: "2"},
		"k replaced": {Earlier: "", Ours: "2"},
		"k guarded":  {Earlier: "1", Ours: "2"},
		"k tabs":     {Earlier: "0", Ours: "1 2"},
		"k half":     {Earlier: "on", Ours: "pfc, off"},
	})}}})
	if n := p.Changes(); n != 3 {
		t.Errorf("%d changes: what stays is no change", n)
	}
	var shown, kept []string
	for _, g := range p.Hosts[0].Shown() {
		shown = append(shown, g.Resource.Addr.Name)
		for _, c := range g.Kept {
			kept = append(kept, fmt.Sprintf("%s %s→%s", c.Atom.Thing(), c.From, c.To))
		}
	}
	if got := strings.Join(kept, ", "); got != "gone 2→, moved 2→7" {
		t.Errorf("kept: %s", got)
	}
	if slices.Contains(shown, "replaced") {
		t.Error("what has its earlier value already is shown")
	}
	if !slices.Contains(shown, "same") {
		t.Error("what was there before the first apply, and stays, is not shown")
	}
	var changed, forgotten []string
	for _, a := range p.Hosts[0].Actions {
		if a.Op != Undo {
			t.Errorf("%+v", a)
		}
		for _, c := range a.Changes {
			changed = append(changed, c.Atom.Thing()+"="+c.To)
			if c.Disruption != resource.LinkFlap {
				t.Errorf("the undo is not the kind's own change: %+v", c)
			}
		}
		for _, x := range a.Forget {
			forgotten = append(forgotten, x.Thing())
		}
	}
	if got := strings.Join(changed, " "); got != "half=on ours=1 tabs=0" {
		t.Errorf("given back: %s", got)
	}
	if got := strings.Join(forgotten, " "); got != "gone moved replaced same" {
		t.Errorf("forgotten: %s", got)
	}
	if q := p.Problems(); len(q) != 1 || !strings.HasPrefix(q[0].Message, "the operator's own; -allow=management") {
		t.Errorf("%v", q)
	}
}

// TestTheFirstApplyAdoptsWhatIsAsDeclared: and no later one, nothing that differs, nothing on what we made, and nothing twice.
func TestTheFirstApplyAdoptsWhatIsAsDeclared(t *testing.T) {
	k := ownable()[0]
	k.Plan = func(s *facts.Snapshot, spec json.RawMessage) (resource.Difference, error) {
		d := resource.Difference{Exists: true, Present: map[resource.Atom]string{}}
		for thing, value := range values.Of(s) {
			if a := resource.Atom("k " + thing); strings.Contains(string(spec), string(a)+`"`) {
				d.Present[a] = value
			}
		}
		if strings.Contains(string(spec), "differs") {
			d.Changes = []resource.Change{{Attribute: "x", From: "1", To: "2", Atom: "k differs"}}
		}
		return d, nil
	}
	of := func(name string, after ...string) resource.Resource {
		r := res(name, script{}, after...)
		r.Spec, _ = json.Marshal([]string{"k " + name, "k " + name + " more"})
		return r
	}
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"new": "7", "new more": "8", "empty": "", "known": "1", "part more": "5", "on-known": "4", "on-made": "3", "differs": "1", "made": "2"})
	wanted := []resource.Resource{of("new"), of("empty"), of("known"), of("part"), of("made"), of("differs"), of("on-known", "known"), of("on-made", "made")}
	p := Make("f", resource.Kinds{k}, []HostInput{{Name: "h", Address: "h.example", Snapshot: snap, Resources: wanted, Records: []resource.Record{record("f",
		map[resource.Atom]resource.Owned{"k known": {Earlier: "1", Ours: "1"}, "k part": {Earlier: "1", Ours: "2"}, "k made": {Ours: "2"}}, "h")}}})
	got := map[string]map[resource.Atom]string{}
	for _, a := range p.Hosts[0].Adopts {
		got[a.Addr.Name] = a.Values
	}
	if d := cmp.Diff(map[string]map[resource.Atom]string{"new": {"k new": "7", "k new more": "8"}, "on-known": {"k on-known": "4"}}, got); d != "" {
		t.Error(d)
	}
	if len(p.Enrol) != 1 {
		t.Errorf("enrol %v: the record gets values", p.Enrol)
	}
	if (resource.Owned{}).Adopted() {
		t.Error("what was absent, and is again, is adopted")
	}
	var r resource.Record
	r.Note([]resource.Change{{Atom: "k new", From: "6", To: "7"}})
	r.Adopt(got["new"])
	if r.Atoms["k new"].Adopted() || r.Atoms["k new"].Earlier != "6" || !r.Atoms["k new more"].Adopted() {
		t.Errorf("what we changed is not adopted: %v", r.Atoms)
	}
	r.Note([]resource.Change{{Atom: "k new more", From: "8", To: "9"}})
	if o := r.Atoms["k new more"]; o.Adopted() || o.Earlier != "8" {
		t.Errorf("a later change of an adopted value goes back to it: %v", o)
	}
}

// TestWhatStaysDisturbsNothing: an undo of adopted values changes nothing.
func TestWhatStaysDisturbsNothing(t *testing.T) {
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"old": "2"})
	p := Make("f", ownable(), []HostInput{{Name: "h", Snapshot: snap,
		Records:   []resource.Record{record("f", map[resource.Atom]resource.Owned{"k old": {Earlier: "2", Ours: "2"}})},
		Resources: []resource.Resource{res("nic", script{Exists: true}), res("route", script{Exists: true}, "nic")}}})
	if actions := p.Hosts[0].Actions; len(actions) != 1 || len(actions[0].Adopted) != 1 || p.Changes() != 0 {
		t.Errorf("%+v", actions)
	}
}

func TestAnotherFabricsThingIsAProblem(t *testing.T) {
	r := res("x", script{Exists: true, Err: ""})
	r.Spec = json.RawMessage(`{"Exists": true, "Note": "k shared"}`)
	p := Make("f", ownable(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{r},
		Records: []resource.Record{record("other", map[resource.Atom]resource.Owned{"k shared": {Ours: "1"}, "k theirs": {Ours: "1"}})}}})
	if q := p.Problems(); len(q) != 1 || !strings.Contains(q[0].Message, `owned by fabric "other"`) || len(p.Hosts[0].Actions) != 0 {
		t.Fatalf("%v %v", q, p.Hosts[0].Actions)
	}
}

func TestDriftIsToldFromIntent(t *testing.T) {
	back := resource.Change{Attribute: "a", From: "5", To: "2", Atom: "k a"}
	intended := resource.Change{Attribute: "b", From: "2", To: "3", Atom: "k b"}
	r := res("x", script{Exists: true, Changes: []resource.Change{back, intended}})
	p := Make("f", ownable(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{r},
		Records: []resource.Record{record("f", map[resource.Atom]resource.Owned{"k a": {Earlier: "1", Ours: "2"}, "k b": {Earlier: "1", Ours: "2"}})}}})
	if c := p.Hosts[0].Actions[0].Changes; !c[0].Drift || c[1].Drift {
		t.Fatalf("%+v", c)
	}
}

func TestVanishedHostsAndRosters(t *testing.T) {
	atoms := map[resource.Atom]resource.Owned{}
	p := Make("f", ownable(), []HostInput{
		{Name: "a", Address: "a.example", Snapshot: &facts.Snapshot{}, Records: []resource.Record{record("f", atoms, "a", "b", "gone"), record("other", atoms, "strange")}},
		{Name: "b", Address: "b.example", Snapshot: &facts.Snapshot{}, Records: []resource.Record{record("f", atoms, "a", "b")}},
		{Name: "c", Address: "c.example", Unreachable: "no answer"},
	})
	if len(p.Vanished) != 1 || p.Vanished[0].Name != "gone" || len(p.Roster) != 4 || strings.Join(p.Enrol, " ") != "a b" {
		t.Fatalf("%+v", p)
	}
}

// A record is the host's word: one of another build, or of a host that lies, names what this build has no kind for.
func TestARecordOfAnUnknownKindIsAProblem(t *testing.T) {
	kinds := append(ownable(), resource.Kind{Name: "made"}) // nothing of it can be given back
	for _, a := range []resource.Atom{"unheard of", "", " ", "made it"} {
		p := Make("f", kinds, []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Records: []resource.Record{
			record("f", map[resource.Atom]resource.Owned{a: {Earlier: "1", Ours: "2"}}),
		}}})
		if len(p.Problems()) != 1 {
			t.Errorf("%q: %+v", a, p.Hosts[0])
		}
	}
}

// TestAnUndoOfALaterStageDisturbsNothing: a file is given back after the running state was proven. If the plan had to keep
// routes because of that, the running state would never be proven.
func TestAnUndoOfALaterStageDisturbsNothing(t *testing.T) {
	late := ownable()[0]
	late.Name, late.Stage = "late", resource.StagePersist
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"ours": "2"})
	p := Make("f", append(ownable(), late), []HostInput{{Name: "h", Snapshot: snap,
		Records:   []resource.Record{record("f", map[resource.Atom]resource.Owned{"late ours": {Earlier: "1", Ours: "2"}})},
		Resources: []resource.Resource{res("nic", script{Exists: true}), res("route", script{Exists: true}, "nic")}}})
	if actions := p.Hosts[0].Actions; len(actions) != 1 || actions[0].Op != Undo {
		t.Errorf("%+v", actions)
	}
}

// TestAValueOfAnotherHandInOurListIsDrift: such as an address that was added since to a NIC whose addresses we set.
func TestAValueOfAnotherHandInOurListIsDrift(t *testing.T) {
	o := owned{mine: record("f", map[resource.Atom]resource.Owned{"k eth0 address 10.0.0.1/24": {Ours: "10.0.0.1/24"}, "k eth1 mtu": {Earlier: "1500", Ours: "9000"}})}
	changes := []resource.Change{{Atom: "k eth0 address 10.9.9.9/24", From: "10.9.9.9/24"}, {Atom: "k eth0 address 10.0.0.2/24", To: "10.0.0.2/24"}, {Atom: "k eth0 address 10.0.0.1/24", From: "10.0.0.1/24"}, {Atom: "k eth1 address 10.9.9.9/24", From: "10.9.9.9/24"},
		{Atom: "k eth2 address 10.9.9.9/24", From: "10.9.9.9/24"}}
	o.mine.Atoms["k eth2 address 10.0.0.3/24"] = resource.Owned{Earlier: "10.0.0.3/24"} // we removed it, and set none
	o.drift(changes)
	for i, want := range []bool{true, false, false, false, false} {
		if changes[i].Drift != want {
			t.Errorf("%s: drift %v, want %v", changes[i].Atom, changes[i].Drift, want)
		}
	}
}

// TestWhatIsUndoneHasTheNameOfTheFiles: that of its block, also in a destroy, which wants no block, and otherwise what the
// kind calls it.
func TestWhatIsUndoneHasTheNameOfTheFiles(t *testing.T) {
	k := ownable()
	k[0].Title = func(a resource.Atom) string { return strings.ReplaceAll(a.Thing(), "/", ".") }
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"eth0": "2", "net/x": "2"})
	in := HostInput{Name: "h", Snapshot: snap, Declared: []resource.Resource{{Addr: resource.Addr{Host: "h", Kind: "k", Name: "rail0"}, Spec: json.RawMessage(`"k eth0"`)}},
		Records: []resource.Record{record("f", map[resource.Atom]resource.Owned{"k eth0": {Earlier: "1", Ours: "2"}, "k net/x": {Earlier: "1", Ours: "2"}})}}
	var names []string
	for _, a := range Make("f", k, []HostInput{in}).Hosts[0].Actions {
		names = append(names, a.Resource.Addr.Name)
	}
	if got := strings.Join(names, " "); got != "rail0 net.x" {
		t.Error(got)
	}
}

// TestAValueThatARecordHasIsNotAdoptedAgain: also if its kind claims nothing.
func TestAValueThatARecordHasIsNotAdoptedAgain(t *testing.T) {
	k := ownable()[0]
	k.Claims = nil
	k.Plan = func(*facts.Snapshot, json.RawMessage) (resource.Difference, error) {
		return resource.Difference{Exists: true, Present: map[resource.Atom]string{"k known": "1", "k more": "2"}}, nil
	}
	for known, want := range map[resource.Atom]int{"k known": 0, "k other": 1} {
		h := Make("f", resource.Kinds{k}, []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{res("x", script{})},
			Records: []resource.Record{record("f", map[resource.Atom]resource.Owned{known: {Earlier: "1", Ours: "1"}})}}}).Hosts[0]
		if len(h.Adopts) != want {
			t.Errorf("the record has %s: adopts %v", known, h.Adopts)
		}
	}
}

// TestWhatIsPartlyLeftOutIsNotAdopted: without the NIC of the link that is left out, a file of several NICs is as declared, but the file as a whole
// is not.
func TestWhatIsPartlyLeftOutIsNotAdopted(t *testing.T) {
	nic, file := kinds()[0], kinds()[0]
	nic.Name, nic.NIC, nic.Device = "nic", true, func(*facts.Snapshot, json.RawMessage) string { return "eth0" }
	file.Name = "file"
	file.Without = func(json.RawMessage, []string) json.RawMessage { return json.RawMessage(`"rest"`) }
	file.Plan = func(_ *facts.Snapshot, spec json.RawMessage) (resource.Difference, error) {
		d := resource.Difference{Exists: true, Present: map[resource.Atom]string{"file x": "1"}}
		if string(spec) != `"rest"` {
			d = resource.Difference{Exists: true, Changes: mtu}
		}
		return d, nil
	}
	rail := res("rail0", script{Exists: true, Changes: mtu})
	rail.Addr.Kind = "nic"
	whole := res("x", script{})
	whole.Addr.Kind = "file"
	in := HostInput{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{rail, whole}}
	h := Make("f", resource.Kinds{nic, file}, []HostInput{in}, LeftOut{Kind: OfLink, Name: "l", Missing: []string{"gone"}, Ends: []resource.Addr{rail.Addr}}).Hosts[0]
	if len(h.Adopts) != 0 || h.Unchanged != 0 || len(h.LeftOut) != 2 || len(h.Actions) != 0 {
		t.Errorf("%+v", h)
	}
}

// TestAPlanSaysWhatTheNextBootLoses: adopted values stay, but the files that kept them go with the fabric's.
func TestAPlanSaysWhatTheNextBootLoses(t *testing.T) {
	late, conf := ownable()[0], ownable()[0]
	late.Name, late.Stage, late.Boots = "late", resource.StagePersist, true
	conf.Name, conf.Stage = "conf", resource.StagePersist
	kinds := append(ownable(), late, conf)
	kinds[2].Undo = func(_ *facts.Snapshot, a resource.Atom, to string) (resource.Change, string, error) {
		return a.Change("ours", to), "", nil
	}
	kinds[1].Undo = func(_ *facts.Snapshot, a resource.Atom, to string) (resource.Change, string, error) {
		return a.Change("ours", to), "", nil
	}
	snap := &facts.Snapshot{}
	values.Put(snap, map[string]string{"old": "2", "new": "3"})
	adopted, made := resource.Owned{Earlier: "2", Ours: "2"}, resource.Owned{Earlier: "1", Ours: "3"}
	for name, c := range map[string]struct {
		atoms map[resource.Atom]resource.Owned
		says  bool
	}{
		"an adopted value, and our file":      {map[resource.Atom]resource.Owned{"k old": adopted, "late file": {Ours: "ours"}}, true},
		"an adopted value":                    {map[resource.Atom]resource.Owned{"k old": adopted}, false},
		"an adopted value, and a job's file":  {map[resource.Atom]resource.Owned{"k old": adopted, "conf file": {Ours: "ours"}}, false},
		"a value of ours, and our file":       {map[resource.Atom]resource.Owned{"k new": made, "late file": {Ours: "ours"}}, false},
		"an adopted value, and a file before": {map[resource.Atom]resource.Owned{"k old": adopted, "late file": {Earlier: "theirs", Ours: "ours"}}, false},
	} {
		p := Make("f", kinds, []HostInput{{Name: "h", Snapshot: snap, Records: []resource.Record{record("f", c.atoms)}}})
		if got := strings.Contains(strings.Join(p.Notes(), ""), "h: the adopted values stay for now"); got != c.says || len(p.Notes()) > 1 {
			t.Errorf("%s: %q", name, p.Notes())
		}
	}
}

// TestAHostThatAdoptsGetsTheRoster: also if it has no record yet. One that adopts nothing and owns nothing gets none.
func TestAHostThatAdoptsGetsTheRoster(t *testing.T) {
	k := ownable()[0]
	k.Plan = func(_ *facts.Snapshot, spec json.RawMessage) (resource.Difference, error) {
		return resource.Difference{Exists: true, Present: map[resource.Atom]string{"k x": strings.Trim(string(spec), `"`)}}, nil
	}
	in := func(host, value string) HostInput {
		r := res("x", script{})
		r.Spec = json.RawMessage(`"` + value + `"`)
		return HostInput{Name: host, Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{r}}
	}
	if p := Make("f", resource.Kinds{k}, []HostInput{in("adopts", "1"), in("nothing", "")}); !slices.Equal(p.Enrol, []string{"adopts"}) {
		t.Errorf("enrol %v", p.Enrol)
	}
}

// TestOnlyWhatIsStillOursIsOverwritten: a change that would overwrite what somebody else set is refused.
func TestOnlyWhatIsStillOursIsOverwritten(t *testing.T) {
	for name, c := range map[string]struct {
		mine    map[resource.Atom]resource.Owned
		from    string
		refused bool
	}{
		"not in the record":        {nil, "1", true},
		"new":                      {nil, "", true},
		"as we set it":             {map[resource.Atom]resource.Owned{"k x": {Earlier: "0", Ours: "1"}}, "1", false},
		"changed by somebody else": {map[resource.Atom]resource.Owned{"k x": {Earlier: "0", Ours: "7"}}, "1", true},
	} {
		r := res("x", script{Exists: true, Changes: []resource.Change{{Attribute: "a", From: c.from, To: "2", Atom: "k x", Refusal: "it is not ours"}}})
		p := Make("f", ownable(), []HostInput{{Name: "h", Snapshot: &facts.Snapshot{}, Resources: []resource.Resource{r}, Records: []resource.Record{record("f", c.mine)}}})
		if q := p.Problems(); (len(q) == 1 && q[0].Message == "it is not ours") != c.refused || len(q) == 0 && p.Changes() != 1 {
			t.Errorf("%s: %v", name, q)
		}
	}
}
