package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/view"
)

// jobOn is an apply whose host a is not connected, with a plan of these actions for it.
func jobOn(t *testing.T, out *bytes.Buffer, actions ...planner.Action) *job {
	t.Helper()
	p := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "a", Actions: actions}}}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a"}}}
	return &job{a: &app{out: view.New(out), err: view.New(out), asJSON: true}, s: &session{fabric: f, fleet: &apply.Fleet{}}, p: p, report: view.Report{Plan: p}}
}

func actionOf(stage, attribute string) planner.Action {
	return planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "k", Name: "n"}}, Op: planner.Update, Stage: stage,
		Changes: []resource.Change{{Attribute: attribute, From: "1", To: "2", Stage: stage}}}
}

func done(stage string) []apply.Outcome {
	return []apply.Outcome{{Action: actionOf(stage, "x"), Done: true}}
}

// TestHistoryIsOfHostsWhereSomethingWasDone: a host whose turn never came has nothing to tell.
func TestHistoryIsOfHostsWhereSomethingWasDone(t *testing.T) {
	var out bytes.Buffer
	r := jobOn(t, &out)
	r.report.Outcomes = []apply.HostOutcome{{Host: "began", Fate: apply.Unfinished, Outcomes: done(resource.StageStack)}, {Host: "back", Fate: apply.Reverted, Outcomes: done("")},
		{Host: "waits", Outcomes: []apply.Outcome{{Action: actionOf(resource.StageStack, "x")}}}, {Host: "still", Fate: apply.Untouched, Outcomes: []apply.Outcome{{}}}}
	err := r.enrol(t.Context()) // nobody is connected: it names who would be told
	for host, told := range map[string]bool{"began": true, "back": true, "waits": false, "still": false} {
		if got := strings.Contains(err.Error(), "host "+host+":"); got != told {
			t.Errorf("host %s told: %v; %v", host, got, err)
		}
	}
}

// TestAStackStageThatEndsTheApplyIsTold: in the form that was asked for, and once.
func TestAStackStageThatEndsTheApplyIsTold(t *testing.T) {
	var out bytes.Buffer
	r := jobOn(t, &out, actionOf(resource.StageStack, "package p"))
	r.o.approve = true
	code, err := r.apply(t.Context())
	if code != exitError || err == nil || !strings.Contains(err.Error(), "driver stacks are not whole on a") {
		t.Errorf("exit %d, %v", code, err)
	}
	if n := strings.Count(out.String(), `"type":"host_outcome"`); n != 1 {
		t.Errorf("%d outcomes of one host:\n%s", n, out.String())
	}
}

// TestTheRestIsAskedForOnlyWhereThereIsOne: and a refusal does not hide that stacks were installed.
func TestTheRestIsAskedForOnlyWhereThereIsOne(t *testing.T) {
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	nobody, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer nobody.Close()
	os.Stdin = nobody
	moved := map[string][]string{"a": {"k.n is as declared now"}}
	var out bytes.Buffer
	r := jobOn(t, &out)
	r.stacks = []apply.HostOutcome{{Host: "a", Fate: apply.Committed, Outcomes: done(resource.StageStack)}}
	if code, err := r.movedBy(moved); code != exitOK || err != nil {
		t.Errorf("nothing is left: exit %d, %v", code, err)
	}
	r.p.Hosts[0].Actions = []planner.Action{actionOf("", "mtu")}
	const want = "the driver stacks are as declared; of the rest: nothing was changed: there is no terminal to ask on"
	if code, err := r.movedBy(moved); code != exitError || err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("exit %d, %v", code, err)
	}
	r.p.Hosts[0].Actions[0].Changes[0].Disruption = resource.Reboot
	if _, err := r.movedBy(moved); err == nil || !strings.HasPrefix(err.Error(), "the driver stacks are as declared; of the rest: nothing was changed: the plan has a reboot of") {
		t.Errorf("got %v", err)
	}
}
