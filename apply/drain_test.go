package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/transport"
)

// cluster is a Scheduler that notes what it is asked.
type cluster struct {
	said []string
	err  error
}

func (c *cluster) Drain(_ context.Context, reasons map[string]string, waiting func([]string)) error {
	for _, host := range slices.Sorted(maps.Keys(reasons)) {
		c.said = append(c.said, "drain "+host+": "+reasons[host])
	}
	if c.err == nil {
		waiting([]string{"7"})
	}
	return c.err
}

func (c *cluster) Resume(_ context.Context, hosts []string) error {
	c.said = append(c.said, "resume "+strings.Join(hosts, " "))
	return nil
}

func (c *cluster) Keep(_ context.Context, reasons map[string]string) error {
	for host, reason := range reasons {
		c.said = append(c.said, "keep "+host+": "+reason)
	}
	return nil
}

func (c *cluster) Release([]string) { c.said = append(c.said, "release") }

// drainable is a run on hosts of a cluster, in a ring of links; host f is reached by SSH.
func drainable(c *cluster, wave int) *run {
	f := &fabric.Fabric{}
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		h := &fabric.Host{Name: name, Slurm: &fabric.Slurm{Wave: wave}}
		if name == "f" {
			h.Slurm = nil
		}
		f.Hosts = append(f.Hosts, h)
	}
	for _, l := range []string{"ab", "bc", "cd", "de", "ea"} {
		f.Links = append(f.Links, &fabric.Link{Name: l, Endpoints: []fabric.NICRef{{Host: l[:1], NIC: "n"}, {Host: l[1:], NIC: "n"}}})
	}
	s := &Session{Fabric: f, Fleet: newFleet(nil, "b", nil), Options: SessionOptions{Scheduler: c, User: "ann@login"}, known: map[string]*state{}}
	r := &run{s: s, id: "1", e: quiet{}, report: &Report{Command: "apply"}, p: &planner.Plan{}}
	for _, h := range f.Hosts {
		r.p.Hosts = append(r.p.Hosts, planner.HostPlan{Name: h.Name, Actions: []planner.Action{{Resource: resource.Resource{Addr: resource.Addr{Kind: "nic", Name: "n"}},
			Stage: resource.StageRuntime, Changes: []resource.Change{{Attribute: "mtu", From: "1500", To: "9000"}}}}})
	}
	return r
}

// quiet is Events that say nothing.
type quiet struct{ Events }

func (quiet) Progress(string, ...any) {}
func (quiet) Warn(string, ...any)     {}

func TestNoWaveHasBothEndsOfALink(t *testing.T) {
	for most, want := range map[int]string{0: "a|b|c|d|e", 1: "a|b|c|d|e", 2: "a c|b d|e", 10: "a c|b d|e"} {
		var got []string
		for _, w := range drainable(&cluster{}, most).drainWaves() {
			got = append(got, strings.Join(w, " "))
		}
		if text := strings.Join(got, "|"); text != want {
			t.Errorf("waves of %d: %s, want %s", most, text, want)
		}
	}
	r := drainable(&cluster{}, 10)
	r.p.Hosts[0].Actions[0].Stage = resource.StagePersist
	r.p.Hosts[1].Actions[0].Stage = resource.StageKeys
	r.p.Hosts[2].Actions[0].Changes = nil // values that leave the record
	if got := fmt.Sprint(r.drainWaves()); got != "[[d] [e]]" {
		t.Errorf("what disturbs nothing is drained, too: %s", got)
	}
	r.s.Options.Scheduler = nil
	if got := r.drainWaves(); got != nil {
		t.Errorf("without a scheduler: %v", got)
	}
}

func TestDrainedHostsAreGivenBack(t *testing.T) {
	c := &cluster{}
	r := drainable(c, 2)
	failed := errors.New("a change failed")
	if ending, err := r.drained(t.Context(), []string{"a", "c"}, func() (Ending, error) { c.said = append(c.said, "change"); return RolledBack, failed }); ending != RolledBack || !errors.Is(err, failed) {
		t.Errorf("%v, %v", ending, err)
	}
	if got, want := strings.Join(c.said, "\n"), "drain a: fabricform apply 1 by ann@login: nic.n mtu is 1500, wanted 9000\n"+
		"drain c: fabricform apply 1 by ann@login: nic.n mtu is 1500, wanted 9000\nchange\nresume a c"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, refused := range []struct {
		err  error
		want Ending
	}{{&transport.BusyError{Jobs: []string{"7"}, Waited: time.Hour}, HostsUnreachable}, {errors.New("max_drained"), Failed}} {
		c = &cluster{err: refused.err}
		ending, err := drainable(c, 2).drained(t.Context(), []string{"a"}, func() (Ending, error) { t.Error("it was changed"); return Done, nil })
		if ending != refused.want || (err == nil) != (refused.want == HostsUnreachable) || len(c.said) != 1 {
			t.Errorf("%v: %v, %v, %q", refused.err, ending, err, c.said)
		}
	}
}

// TestWavesFollowEachOther: what needs no drain comes first, each host is changed and enrolled once, and after a wave that failed none begins.
// Between waves, jobs may have all hosts.
func TestWavesFollowEachOther(t *testing.T) {
	const first, second, third = "release|change f|release", "|drain a|drain c|change a c|resume a c|release", "|drain b|drain d|change b d, enrol b|resume b d|release"
	for fails, want := range map[string]string{"": first + second + third + "|drain e|change e|resume e|release", "f": first, "b": first + second + third} {
		c := &cluster{}
		r := drainable(c, 2)
		r.p.Enrol = []string{"b"}
		whole := r.p
		ending, err := r.changeInWaves(t.Context(), parts{change: func(context.Context, func(string) bool) (Ending, error) {
			var hosts []string
			for _, h := range r.p.Hosts {
				if len(h.Actions) > 0 {
					hosts = append(hosts, h.Name)
				}
			}
			c.said = append(c.said, strings.TrimSuffix("change "+strings.Join(hosts, " ")+", enrol "+strings.Join(r.p.Enrol, " "), ", enrol "))
			if slices.Contains(hosts, fails) {
				return RolledBack, nil
			}
			return Done, nil
		}})
		for i, said := range c.said {
			c.said[i], _, _ = strings.Cut(said, ":")
		}
		if got := strings.Join(c.said, "|"); got != want || err != nil || (ending == Done) != (fails == "") || r.p != whole || len(r.pending) > 0 {
			t.Errorf("%q fails: %s, %v, %v", fails, got, ending, err)
		}
	}
}

// TestHalfChangedHostsGetNoJobs: a host whose revert failed, or which does not answer, stays drained with a reason that says so.
func TestHalfChangedHostsGetNoJobs(t *testing.T) {
	c := &cluster{}
	r := drainable(c, 3)
	if _, err := r.drained(t.Context(), []string{"a", "c"}, func() (Ending, error) {
		r.report.Outcomes, c.said = []HostOutcome{{Host: "a", Fate: RevertFailed, Why: "b0 is gone"}, {Host: "c", Fate: Reverted}}, nil
		return OutcomeUnknown, nil
	}); err != nil {
		t.Error(err)
	}
	if got, want := strings.Join(c.said, "\n"), "resume c\nkeep a: fabricform apply 1 by ann@login left it half-changed: b0 is gone"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestAWaveFitsIntoMaxDrained: a run cannot stop because of its own wave.
func TestAWaveFitsIntoMaxDrained(t *testing.T) {
	r := drainable(&cluster{}, 10)
	for _, h := range r.s.Fabric.Hosts[:5] {
		h.Slurm.MaxDrained = 1
	}
	if got := fmt.Sprint(r.drainWaves()); got != "[[a] [b] [c] [d] [e]]" {
		t.Error(got)
	}
}

func TestWavesCannotWaitForTheEnd(t *testing.T) {
	for _, o := range []Options{{Manual: true}, {CheckRollback: true}} {
		c := &cluster{}
		r := drainable(c, 2)
		r.o = o
		if ending, err := r.changeInWaves(t.Context(), parts{}); ending != Failed || err == nil || !strings.Contains(err.Error(), "nothing was changed") || c.said != nil {
			t.Errorf("%+v: %v, %v, %q", o, ending, err, c.said)
		}
	}
}

// TestTheWayToAHostIsThatOfTheFilesNow: a confirm takes it from the files, whatever they said when the apply was made.
func TestTheWayToAHostIsThatOfTheFilesNow(t *testing.T) {
	was := &fabric.Fabric{Hosts: []*fabric.Host{{Name: "a", Address: "10.0.0.1"}}}
	now := &fabric.Fabric{Hosts: []*fabric.Host{{Name: "a", Address: "n1", Slurm: &fabric.Slurm{Partition: "fabric"}}}}
	var asked []transport.Target
	o := SessionOptions{Parallelism: 1, Glance: true, Dial: func(_ context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		asked = append(asked, to)
		return nil, errors.New("not reached")
	}}
	resume(t.Context(), now, o, tokens{Hosts: map[string]calls.TxRef{"a": {}}, Waits: &pendingApply{Fabric: was}}).Close()
	if len(asked) != 1 || asked[0].Address != "n1" || asked[0].Slurm == nil || asked[0].Slurm.Partition != "fabric" {
		t.Errorf("%+v", asked)
	}
}
