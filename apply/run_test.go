package apply

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// heard keeps what a run reports. It approves a plan where refusal is nil.
type heard struct {
	mu      sync.Mutex
	lines   []string
	refusal error
	asking  func() // what happens while the operator is asked
}

func (h *heard) say(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

func (h *heard) Progress(string, ...any)         {}
func (h *heard) Warn(format string, args ...any) { h.say("warn: "+format, args...) }
func (h *heard) Note(format string, args ...any) { h.say("note: "+format, args...) }
func (h *heard) Unreachable(m map[string]string) { h.say("unreachable: %d", len(m)) }
func (h *heard) Results(all []validators.Result, part bool) {
	h.say("results: %d", len(all))
	if part {
		h.say("of a part")
	}
}
func (h *heard) Plan(p *planner.Plan, notes []string) {
	h.say("plan: %d", p.Changes())
	for _, n := range notes {
		h.say("note: %s", n)
	}
}
func (h *heard) Walk(hosts []HostOutcome)  { h.outcomes("walk", hosts) }
func (h *heard) Fates(hosts []HostOutcome) { h.outcomes("fates", hosts) }
func (h *heard) outcomes(e string, all []HostOutcome) {
	for _, o := range all {
		h.say("%s: %s %s", e, o.Host, o.Fate)
	}
}

func (h *heard) Approve(p *planner.Plan, asking func()) error {
	asking()
	h.say("asked for %d", p.Changes())
	if h.asking != nil {
		h.asking()
	}
	return h.refusal
}

// runOn is an apply whose host a is not connected, with a plan of these actions for it.
func runOn(k TokenStore, actions ...planner.Action) *run {
	p := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "a", Actions: actions}}}
	f := &fabric.Fabric{Name: "f", Hosts: []*fabric.Host{{Name: "a"}}}
	return &run{e: &heard{}, s: &Session{Fabric: f, Fleet: newFleet(nil, "b", nil), Options: SessionOptions{Tokens: k}}, p: p, o: Options{Allowed: resource.LinkFlap}, report: &Report{Plan: p}}
}

func actionOf(stage, attribute string) planner.Action {
	return planner.Action{Resource: resource.Resource{Addr: resource.Addr{Host: "a", Kind: "k", Name: "n"}}, Op: planner.Update, Stage: stage,
		Changes: []resource.Change{{Attribute: attribute, From: "1", To: "2", Stage: stage}}}
}

func done(stage string) []Outcome {
	return []Outcome{{Action: actionOf(stage, "x"), Done: true}}
}

// TestADestroyAsksBeforeItForgets: values that stay as they are leave the record, which is gone for good. Other plans that only forget say so.
func TestADestroyAsksBeforeItForgets(t *testing.T) {
	for _, destroy := range []bool{true, false} {
		r := runOn(TokenStore{}, planner.Action{Op: planner.Undo, Forget: []resource.Atom{"k n x"}})
		r.p.Destroy = destroy
		e := r.e.(*heard)
		e.refusal = errors.New("no")
		if err := r.approve(r.p); (err != nil) != destroy || slices.Contains(e.lines, "asked for 0") != destroy {
			t.Errorf("destroy %v: %v, %q", destroy, err, e.lines)
		}
	}
}

// TestHistoryIsOfHostsWhereSomethingWasDone: a host that was not changed gets no entry, and a host
// that reverted has made its own.
func TestHistoryIsOfHostsWhereSomethingWasDone(t *testing.T) {
	r := runOn(storeIn(t.TempDir()))
	r.report.Outcomes = []HostOutcome{{Host: "began", Fate: Unfinished, Outcomes: done(resource.StageStack)}, {Host: "back", Fate: Reverted, Outcomes: done("")},
		{Host: "waits", Outcomes: []Outcome{{Action: actionOf(resource.StageStack, "x")}}}, {Host: "still", Fate: Untouched, Outcomes: []Outcome{{}}}}
	err := r.enrol(t.Context()) // no host is connected: the error names the hosts that would be asked
	for host, told := range map[string]bool{"began": true, "back": false, "waits": false, "still": false} {
		if got := strings.Contains(err.Error(), "host "+host+":"); got != told {
			t.Errorf("host %s told: %v; %v", host, got, err)
		}
	}
}

// TestAStackStageThatEndsTheApplyIsReported: once.
func TestAStackStageThatEndsTheApplyIsReported(t *testing.T) {
	r := runOn(storeIn(t.TempDir()), actionOf(resource.StageStack, "package p"))
	ending, err := r.apply(t.Context(), Done)
	if ending != Failed || err == nil || !strings.Contains(err.Error(), "driver stacks are incomplete on a") {
		t.Errorf("ending %d, %v", ending, err)
	}
	if got := r.e.(*heard).lines; !slices.Equal(got, []string{"plan: 1", "asked for 1", "walk: a unfinished"}) {
		t.Errorf("reported %q", got)
	}
}

// TestTheRestIsAskedForOnlyWhereThereIsOne: and a refusal does not hide that stacks were installed.
func TestTheRestIsAskedForOnlyWhereThereIsOne(t *testing.T) {
	moved := map[string][]string{"a": {"k.n is as declared now"}}
	r := runOn(storeIn(t.TempDir()))
	r.e.(*heard).refusal = errors.New("nothing was changed: no")
	r.stacks, r.done = []HostOutcome{{Host: "a", Fate: Committed, Outcomes: done(resource.StageStack)}}, []string{"driver stacks are installed"}
	if ending, err := r.approveRest(moved); ending != Done || err != nil {
		t.Errorf("nothing is left: ending %d, %v", ending, err)
	}
	r.p.Hosts[0].Actions = []planner.Action{actionOf("", "mtu")}
	const want = "the driver stacks are installed as declared; for the rest of the plan: nothing was changed: no"
	if ending, err := r.approveRest(moved); ending != Failed || err == nil || err.Error() != want {
		t.Errorf("ending %d, %v", ending, err)
	}
	r.p.Hosts[0].Actions[0].Changes[0].Disruption = resource.Reboot
	if _, err := r.approveRest(moved); err == nil || !strings.HasPrefix(err.Error(), "the driver stacks are installed as declared; for the rest of the plan: nothing was changed: the plan needs a reboot of") {
		t.Errorf("got %v", err)
	}
}

// TestOnlyAHostThatNothingChangesIsToldWhatIsApplied: one that a later part of the run changes is not as declared yet, and its own
// transaction tells it.
func TestOnlyAHostThatNothingChangesIsToldWhatIsApplied(t *testing.T) {
	kinds := resource.Kinds{{Name: "k", Local: true}}
	whole := &planner.Plan{Fabric: "f", Hosts: []planner.HostPlan{{Name: "now", Actions: []planner.Action{actionOf("", "x")}},
		{Name: "later", Actions: []planner.Action{actionOf("", "x")}}, {Name: "same"}, {Name: "kept"}, {Name: "away", Unreachable: "no route"}}}
	part := *whole
	part.Hosts = slices.Clone(whole.Hosts)
	part.Hosts[1].Actions = nil
	f := &fabric.Fabric{Name: "f"}
	s := &Session{Fabric: f, Fleet: newFleet(nil, "b", nil), known: map[string]*state{}, Options: SessionOptions{Resources: Resources{Kinds: kinds,
		Desired: func(_ *fabric.Fabric, h *fabric.Host) []resource.Resource {
			return []resource.Resource{{Addr: resource.Addr{Host: h.Name, Kind: "k", Name: "n"}, Spec: []byte("{}")}}
		}}}}
	for _, h := range whole.Hosts {
		f.Hosts = append(f.Hosts, &fabric.Host{Name: h.Name})
		s.known[h.Name] = &state{}
	}
	s.known["kept"].applied = map[string]string{"f": s.applied("kept").Digest()}
	r := &run{e: &heard{}, s: s, p: &part, report: &Report{Plan: whole}}
	err := r.enrol(t.Context()) // no host is connected: the error names the hosts that would be told
	for host, told := range map[string]bool{"now": false, "later": false, "same": true, "kept": false, "away": false} {
		if got := err != nil && strings.Contains(err.Error(), "host "+host+":"); got != told {
			t.Errorf("host %s told: %v; %v", host, got, err)
		}
	}
}
