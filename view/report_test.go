package view

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/fabricform/fabricform/apply"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/facts"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// member is a pair of a network's members as a subject.
func member(network, path string) validators.Subject {
	return validators.Subject{Kind: validators.SubjectNetwork, Name: network, Path: path}
}

func TestManyPathsFoldAndFailuresDoNot(t *testing.T) {
	var results []validators.Result
	for i := range 20 {
		v := validators.Pass
		if i == 7 {
			v = validators.Fail
		}
		results = append(results, validators.Result{Check: validators.CheckPing, Item: validators.SmallPing, Subject: member("rail0", fmt.Sprintf("rail0:h%d-h%d", i, i+1)), Host: "h", Verdict: v, Cause: "no light"})
	}
	var b bytes.Buffer
	New(&b).Results(results, false)
	got := b.String()
	for _, want := range []string{"path rail0:h7-h8", "no light", "network rail0  19 of them: 19 checks passed", "19 passed, 1 failed"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is missing in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "\n"); n > 8 {
		t.Errorf("%d lines:\n%s", n, got)
	}
	b.Reset()
	New(&b).Results(results[:3], false)
	if !strings.Contains(b.String(), "path rail0:h2-h3") {
		t.Errorf("three paths are folded:\n%s", b.String())
	}
}

func TestAHostThatFailsWithAllIsOneRow(t *testing.T) {
	var results []validators.Result
	for i := range 12 {
		for j := i + 1; j < 12; j++ {
			v := validators.Pass
			if i == 4 || j == 4 || i == 2 && j == 9 {
				v = validators.Fail
			}
			a, b := fmt.Sprintf("h%02d", i), fmt.Sprintf("h%02d", j)
			results = append(results, validators.Result{Check: validators.CheckPing, Item: validators.SmallPing, Subject: member("rail", "rail:"+a+"-"+b), Host: a, Peer: b, Verdict: v, Cause: "no answer",
				Values: []validators.Measurement{{Name: validators.MetricPackets, OutOf: 5}}})
		}
	}
	results = append(results, validators.Result{Check: validators.CheckCulprit, Item: validators.CommonCause, Subject: validators.Subject{Kind: validators.SubjectHost, Name: "h04", NIC: "rail"}, Host: "h04", Verdict: validators.Fail,
		Values: []validators.Measurement{{Name: validators.MetricPathsFailed, Value: 11, OutOf: 11}}, Cause: "look at NIC h04.rail first"})
	var b bytes.Buffer
	New(&b).Results(results, false)
	want := `host h04
  ✗ culprit  h04  common cause  all 11 paths of h04.rail fail
      look at NIC h04.rail first
network rail: h04 with h[00-03], h[05-11], 11 paths; the first:
  ✗ ping  h00 → h04  ping  0 of 5
      no answer
path rail:h02-h09
  ✗ ping  h02 → h09  ping  0 of 5
      no answer
✓ network rail  54 of them: 54 checks passed, 0 skipped

✗ Fabric not verified: 54 passed, 13 failed, 0 warned, 0 skipped
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestResultsAreAligned: in columns as wide as the values of one subject, without blanks at the end. A long value widens no column.
func TestResultsAreAligned(t *testing.T) {
	on := func(check validators.Check, item validators.Item, host, peer string, verdict validators.Verdict, found string) validators.Result {
		r := validators.Result{Check: check, Item: item, Subject: validators.Subject{Kind: validators.SubjectLink, Name: "rail0"}, Host: host, Peer: peer, Verdict: verdict, Object: "eth1", Found: found}
		if verdict != validators.Pass {
			r.Cause = "because"
		}
		return r
	}
	results := []validators.Result{
		on(validators.CheckLink, validators.Carrier, "server1", "", validators.Pass, "carrier"),
		on(validators.CheckCabling, validators.Cabled, "server1", "server2", validators.Pass, "server2.rail0"),
		on(validators.CheckTCP, validators.Throughput, "server2", "server1", validators.Skip, ""),
		on(validators.CheckTCP, validators.Throughput, "server2", "", validators.Warn, ""),
		on(validators.CheckLink, validators.Carrier, "a-host-with-a-very-long-name", "", validators.Pass, "carrier"),
	}
	var b bytes.Buffer
	New(&b).list(results)
	want := `  ✓ link     server1            carrier     eth1 has carrier
  ✓ cabling  server1 → server2  cabled      server2.rail0
  - tcp      server2 → server1  throughput  skipped: because
  ! tcp      server2            throughput
      because
  ✓ link     a-host-with-a-very-long-name  carrier     eth1 has carrier
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestAnUnreachableHostIsToldOncePerSubject: and not at each check that it prevents; checks with another cause keep their lines.
func TestAnUnreachableHostIsToldOncePerSubject(t *testing.T) {
	skip := func(check validators.Check, host, cause string) validators.Result {
		return validators.Result{Check: check, Subject: validators.Subject{Kind: validators.SubjectLink, Name: "rail0"},
			Host: host, Peer: "b", Verdict: validators.Skip, Skipped: validators.HostUnreachable, Cause: cause}
	}
	filtered := skip(validators.CheckTCP, "a", "host a could not be reached: refused")
	filtered.Skipped = validators.Disabled
	var b bytes.Buffer
	New(&b).list([]validators.Result{
		skip(validators.CheckLink, "a", "host a could not be reached: refused"),
		skip(validators.CheckPing, "a", "host a could not be reached: refused"),
		skip(validators.CheckPing, "a", "host a could not be reached: refused"),
		skip(validators.CheckPing, "c", "host c could not be reached: refused"),
		filtered,
		skip(validators.CheckVerbs, "a", "host a could not be reached: refused"),
		skip(validators.CheckQoS, "a", "host b could not be reached: timed out"),
	})
	want := `  - link, ping  a → b  skipped: host a could not be reached: refused
  - ping   c → b  ping   skipped: host c could not be reached: refused
  - tcp    a → b  tcp    skipped: host a could not be reached: refused
  - verbs  a → b  verbs  skipped: host a could not be reached: refused
  - qos    a → b  qos    skipped: host b could not be reached: timed out
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

// TestAPlanPromisesNothingOfHostsThatItDoesNotCover: in text and in Markdown.
func TestAPlanPromisesNothingOfHostsThatItDoesNotCover(t *testing.T) {
	read, away := planner.HostPlan{Name: "a", Unchanged: 4}, planner.HostPlan{Name: "b", Unreachable: "no route to host"}
	kept := planner.HostPlan{Name: "d", Actions: []planner.Action{{Op: planner.Revert, Kept: []resource.Change{{Attribute: "mtu", From: "9000", To: "1400"}}}}}
	var rollback bytes.Buffer
	New(&rollback).Plan(&planner.Plan{RollsBack: "p", Hosts: []planner.HostPlan{kept}}, nil)
	if s := rollback.String(); !strings.Contains(s, "mtu was changed by someone else since (9000 → 1400), and is kept\n") || !strings.Contains(s, "No changes: nothing of this transaction is left to revert") || strings.Contains(s, "as before") {
		t.Errorf("a rollback with nothing to revert says\n%s", s)
	}
	moved := planner.HostPlan{Name: "c", Stale: []string{"nic.rail0: planned mtu 1500 → 9000; now it would be mtu 2000 → 9000"}}
	for _, c := range []struct {
		hosts      []planner.HostPlan
		asDeclared bool
		says       []string
	}{
		{[]planner.HostPlan{read}, true, nil},
		{[]planner.HostPlan{read, away}, false, []string{"on the other hosts; 1 host not read", "no route to host"}},
		{[]planner.HostPlan{away}, false, []string{"no host could be read"}},
		{[]planner.HostPlan{away, moved, moved}, false, []string{": 1 host not read, 2 hosts skipped, changed since the plan was saved"}},
		{[]planner.HostPlan{read, moved}, false, []string{"on the other hosts; 1 host skipped, changed since the plan was saved", "now it would be mtu 2000 → 9000"}},
	} {
		plan := &planner.Plan{Fabric: "pair", Hosts: c.hosts}
		var b bytes.Buffer
		New(&b).Plan(plan, nil)
		for form, text := range map[string]string{"fabric \"pair\" is as declared": b.String(), "### ✅": PlanMarkdown(plan, nil)} {
			if strings.Contains(text, form) != c.asDeclared {
				t.Errorf("as declared: want %v in\n%s", c.asDeclared, text)
			}
			for _, want := range c.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is missing in\n%s", want, text)
				}
			}
		}
		if strings.Contains(b.String(), "✓ b") || strings.Contains(b.String(), "✓ c") || strings.Contains(b.String(), "✓ a, c") {
			t.Errorf("a host that was skipped is as declared:\n%s", b.String())
		}
	}
}

// TestAPlanOfSomeHostsSaysNothingOfTheOthers: in text, Markdown and JSON.
func TestAPlanOfSomeHostsSaysNothingOfTheOthers(t *testing.T) {
	plan := planner.Make("pair", nil, []planner.HostInput{{Name: "a", Excluded: true}, {Name: "b", Snapshot: &facts.Snapshot{}}})
	var text, events bytes.Buffer
	New(&text).Plan(plan, nil)
	New(&events).JSON().Plan(plan, nil)
	for _, c := range []struct{ in, want string }{
		{text.String(), `✓ No changes: b of fabric "pair" as declared; 1 host not chosen.`},
		{PlanMarkdown(plan, nil), "no changes, b of fabric `pair` as declared; 1 host not chosen"},
		{events.String(), `"not_chosen":["a"]`},
	} {
		if !strings.Contains(c.in, c.want) {
			t.Errorf("%q is missing in\n%s", c.want, c.in)
		}
	}
}

// TestAHostThatDiffersIsNamedInItsGroup: in text and in Markdown.
func TestAHostThatDiffersIsNamedInItsGroup(t *testing.T) {
	plan := &planner.Plan{Fabric: "f"}
	for i := range 8 {
		before := "1"
		if i == 6 {
			before = "0"
		}
		plan.Hosts = append(plan.Hosts, planner.HostPlan{Name: fmt.Sprintf("h%d", i), Actions: []planner.Action{{Op: planner.Update, Resource: resource.Resource{Addr: resource.Addr{Kind: "nic", Name: "rail0"}},
			Changes: []resource.Change{{Attribute: "arp_ignore", From: before, To: "2"}, {Attribute: "mtu", From: "1500", To: "9000"}}}}})
	}
	var b bytes.Buffer
	New(&b).Plan(plan, nil)
	for text, wants := range map[string][]string{
		b.String():              {"h[0-7]  (8 hosts", "~ arp_ignore  1 → 2  on h[0-5], h7\n", "~ arp_ignore  0 → 2  on h6\n", "1500 → 9000\n", "Plan: 16 changes on 8 resources"},
		PlanMarkdown(plan, nil): {"<b>h[0-7]</b>: 2 changes on each of 8 hosts", "arp_ignore  1 → 2  on h[0-5], h7\n", "arp_ignore  0 → 2  on h6\n", "1500 → 9000\n"},
	} {
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
	}
}

// TestWhatWasNotTriedIsFolded: an interrupt may leave the whole plan.
func TestWhatWasNotTriedIsFolded(t *testing.T) {
	var hosts []apply.HostOutcome
	for i := range 16 {
		h := apply.HostOutcome{Host: fmt.Sprintf("h%02d", i), Fate: apply.Reverted}
		for _, name := range []string{"rail0", "rail1"} {
			h.Outcomes = append(h.Outcomes, apply.Outcome{Action: planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: h.Host, Kind: "nic", Name: name}}}, Done: i == 3 && name == "rail0"})
		}
		hosts = append(hosts, h)
	}
	var b bytes.Buffer
	New(&b).Walk(hosts)
	report, err := (&ReportFile{Report: apply.Report{Outcomes: hosts}}).Bytes("r.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "- h[00-02], h[04-15]  not tried: nic.rail0, nic.rail1\n- h03  not tried: nic.rail1\n") || strings.Count(b.String(), "not tried") != 2 {
		t.Errorf("it says\n%s", b.String())
	}
	if !strings.Contains(string(report), "- ❌ `h[00-02], h[04-15]` not tried: nic.rail0, nic.rail1") || strings.Count(string(report), "not tried") != 2 {
		t.Errorf("the report says\n%s", report)
	}
}

// TestAReportSaysWhyTheRunFailed: a comment on a pull request with the plan alone looks as if the plan had been applied.
func TestAReportSaysWhyTheRunFailed(t *testing.T) {
	secret := fabric.Secrets{}.Hide("hunter2", strings.Repeat("0", 32))
	failed := apply.Report{Err: fmt.Errorf("nothing was changed: host a <b> has %s", secret)}
	markdown, err := (&ReportFile{Exit: 8, Report: failed}).Bytes("r.md")
	if want := "| exit code | 8 |\n\n❌ nothing was changed: host a " + escape("<b>") + " has (sensitive)\n"; err != nil || !strings.Contains(string(markdown), want) {
		t.Errorf("%v: the report says\n%s\nwant %s", err, markdown, want)
	}
	raw, err := (&ReportFile{Exit: 8, Report: failed}).Bytes("r.json")
	if err != nil || !strings.Contains(string(raw), `"error": "nothing was changed: host a`) || strings.Contains(string(raw), strings.Repeat("0", 32)) {
		t.Errorf("%v: %s", err, raw)
	}
	if raw, err := (&ReportFile{}).Bytes("r.json"); err != nil || strings.Contains(string(raw), `"error"`) {
		t.Errorf("%v: %s", err, raw)
	}
}
