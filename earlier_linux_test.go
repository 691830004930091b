package fabricform_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/config"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/providers"
	"github.com/fabricform/fabricform/resource"
)

// TestFilesOfEarlierBuildsAreRead: nothing is lost of what an earlier build wrote, and a later one must read.
func TestFilesOfEarlierBuildsAreRead(t *testing.T) {
	for name, got := range map[string]any{
		"testdata/earlier/fabric.json":                 new(fabric.Fabric),          // in the tokens of a pending apply, which a later build confirms
		"testdata/earlier/steps.json":                  new([]calls.TxStep),         // of the persist stage, of a transaction that a host may have to end
		"testdata/earlier/record.json":                 new(resource.Record),        // which hosts keep
		"checkpoint/testdata/earlier/transaction.json": new(checkpoint.Transaction), // which a later helper may have to revert
	} {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.DisallowUnknownFields()
		if err := d.Decode(got); err != nil {
			t.Fatal(err)
		}
		again, err := json.MarshalIndent(got, "", " ")
		again = bytes.Replace(again, []byte(`"disruption": "link flap"`), []byte(`"disruption": 1`), 1) // a number then
		var was, is any
		if err := errors.Join(err, json.Unmarshal(raw, &was), json.Unmarshal(again, &is)); err != nil {
			t.Fatal(name, err)
		}
		if lost := lost("", was, is); len(lost) > 0 {
			t.Errorf("%s: lost when it was read:\n%s", name, strings.Join(lost, "\n"))
		}
	}
}

// TestHostsOfEarlierBuildsHaveAnEmptyPlan: a fabric that an earlier build applied is as declared for this one. The hosts are as
// `show -json` of that build printed them after the apply.
func TestHostsOfEarlierBuildsHaveAnEmptyPlan(t *testing.T) {
	f, _, diags := config.Load("testdata/earlier/rails/fabric.hcl", config.Options{})
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	inputs := earlierHosts(t, "testdata/earlier/rails/hosts.json")
	plan := func() *planner.Plan {
		for i := range inputs {
			inputs[i].Resources = providers.Desired(f, f.Hosts[i])
		}
		return planner.Make(f.Name, providers.Kinds(), inputs)
	}
	p := plan()
	for i, h := range p.Hosts {
		if len(h.Actions)+len(h.Problems) > 0 || h.Unchanged != len(inputs[i].Resources) {
			t.Errorf("host %s: %v, problems %v, %d of %d resources as declared", h.Name, h.Actions, h.Problems, h.Unchanged, len(inputs[i].Resources))
		}
	}
	var names []string
	for _, r := range inputs[0].Resources {
		if strings.Contains(r.Addr.Kind, "route") {
			names = append(names, r.Addr.String())
		}
	}
	want := []string{`a.route.far["rail0"]`, `a.route.far["rail1"]`, "a.route.plain",
		`a.policy_route.v4["rail0"]`, `a.policy_route.v4["rail1"]`, "a.policy_route.plain"}
	if !slices.Equal(names, want) {
		t.Errorf("names %s, want %s", names, want)
	}

	f.Hosts[0].Policy = nil // the record is read: what the files no longer declare is removed
	undone := 0
	for _, a := range plan().Hosts[0].Actions {
		undone += len(a.Changes)
	}
	if undone != 8 {
		t.Errorf("without policy routes, %d changes are planned, want 3 rules and 5 routes", undone)
	}
}

// earlierHosts reads the output of `show -json`: one object for each host.
func earlierHosts(t *testing.T, file string) (out []planner.HostInput) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for d := json.NewDecoder(bytes.NewReader(raw)); d.More(); {
		var h apply.HostFacts
		if err := d.Decode(&h); err != nil {
			t.Fatal(err)
		}
		out = append(out, planner.HostInput{Name: h.Name, Address: h.Name, Snapshot: h.Facts, Records: h.Records})
	}
	return out
}

// lost names the values of an earlier build that are not there again. What later builds add is not looked at.
func lost(path string, was, is any) (out []string) {
	switch was := was.(type) {
	case map[string]any:
		now, _ := is.(map[string]any)
		for key, value := range was {
			out = append(out, lost(path+"."+key, value, now[key])...)
		}
		return out
	case []any:
		if now, _ := is.([]any); len(now) == len(was) {
			for i, value := range was {
				out = append(out, lost(fmt.Sprintf("%s[%d]", path, i), value, now[i])...)
			}
			return out
		}
	}
	if !reflect.DeepEqual(was, is) {
		out = append(out, fmt.Sprintf("%s: %v, now %v", path, was, is))
	}
	return out
}
