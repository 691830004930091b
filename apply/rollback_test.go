package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/resource"
)

// TestTheNewestTransactionIsTheLastOfItsHosts: the clocks of hosts may differ, so they only decide where no host knows the order.
func TestTheNewestTransactionIsTheLastOfItsHosts(t *testing.T) {
	at := func(plan string, minute int) calls.TxInfo {
		return calls.TxInfo{Fabric: "f", Plan: plan, State: checkpoint.Committed, Since: time.Date(2026, 1, 1, 12, minute, 0, 0, time.UTC)}
	}
	reverted := at("3", 50)
	reverted.State = checkpoint.Reverted
	for _, c := range []struct {
		name, plan, newest, says string
		reported                 map[string][]calls.TxInfo
	}{
		{name: "none", reported: map[string][]calls.TxInfo{"a": {reverted}}},
		{name: "the clock of a is ahead", newest: "2", reported: map[string][]calls.TxInfo{"a": {at("1", 10)}, "b": {at("1", 0), at("2", 5)}}},
		{name: "the clock of a was set back", newest: "2", reported: map[string][]calls.TxInfo{"a": {at("1", 30), at("2", 5), reverted}}},
		{name: "no host in common", newest: "1", reported: map[string][]calls.TxInfo{"a": {at("1", 10)}, "b": {at("2", 5)}}},
		{name: "of a plan", plan: "2", newest: "2", reported: map[string][]calls.TxInfo{"a": {at("1", 10)}, "b": {at("2", 5)}}},
		{name: "of a plan that another one follows", plan: "1", reported: map[string][]calls.TxInfo{"a": {at("1", 10), at("2", 5)}}},
		{name: "two in opposite orders", says: "(plan 1) on a, b; ", reported: map[string][]calls.TxInfo{"a": {at("1", 0), at("2", 5)}, "b": {at("2", 5), at("1", 10)}}},
		{name: "one beside them", newest: "3", reported: map[string][]calls.TxInfo{"a": {at("1", 0), at("2", 5)}, "b": {at("2", 5), at("1", 10)}, "c": {at("3", 0)}}},
	} {
		got := ""
		newest, err := newestCommitted(c.reported, "f", c.plan)
		if newest != nil {
			got = newest.plan
		}
		if got != c.newest || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: plan %q, want %q; %v", c.name, got, c.newest, err)
		}
	}
}

// TestAPrunedTransactionIsFoundByTheHistory: the operator's clock, by which entries are dated, is an hour ahead of the hosts'.
func TestAPrunedTransactionIsFoundByTheHistory(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	rec := resource.Record{Fabric: "f"}
	var kept []calls.TxInfo
	for n := range 6 {
		plan, since := fmt.Sprint(n), began.Add(time.Duration(n)*time.Minute)
		rec.History = append(rec.History, resource.HistoryEntry{Plan: plan, Changes: 1, Time: since.Add(time.Hour)})
		kept = append(kept, calls.TxInfo{Fabric: "f", Plan: plan, State: checkpoint.Committed, Since: since})
	}
	onB, onA := kept[:1], kept[1:]
	records := map[string][]resource.Record{"a": {rec}}
	reported := map[string][]calls.TxInfo{"a": onA}
	check := func() error {
		newest, err := newestCommitted(reported, "f", "")
		return cmp.Or(err, checkNotPruned(newest, "f", reported, records))
	}
	if err := check(); err != nil {
		t.Errorf("the newest one: %v", err)
	}
	for n := range onA {
		onA[n].State = checkpoint.Reverted
	}
	reported["b"] = onB
	if err := check(); err == nil {
		t.Error("the first one, which only host b still keeps, would be rolled back there alone")
	}
}

// TestARollbackThatEndsWhatWasOpenLeavesOlderOnesAlone: a host that was reset ends its transaction when it is read. That is what
// was to be rolled back; the transaction before it was not asked for.
func TestARollbackThatEndsWhatWasOpenLeavesOlderOnesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		b := y.hosts["b"]
		b.past = append(b.past, toyTx{b.tx, b.kept})
		b.tx = calls.TxInfo{TxRef: calls.TxRef{ID: "9"}, Fabric: "f", Plan: "later", State: checkpoint.Reverted, EndedNow: true, Why: "the host was reset"}
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Done || r.Err != nil || fatesOf(r) != "b reverted" || y.values() != "22" {
			t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
		}
		// If the ended transaction belongs to the apply that is still committed on the other host, rollback takes the rest of that apply.
		b.tx.Plan = y.hosts["a"].tx.Plan
		b.past = nil
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || r.Err != nil || fatesOf(r) != "a reverted, b reverted" || y.values() != "12" {
			t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
		}
	})
}

// TestAnApplyThatOnlyAdoptedIsNotRolledBack: it has no backup, and needs none.
func TestAnApplyThatOnlyAdoptedIsNotRolledBack(t *testing.T) {
	began := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	reported := map[string][]calls.TxInfo{"a": {{Fabric: "f", Plan: "2", State: checkpoint.Committed, Since: began}}}
	for _, first := range []resource.HistoryEntry{{Plan: "1", Time: began, Adopted: 3}, {Plan: "1", Time: began, Adopted: 3, Changes: 1}} {
		records := map[string][]resource.Record{"a": {{Fabric: "f", History: []resource.HistoryEntry{first, {Plan: "2", Changes: 1, Time: began}}}}}
		if err := checkNotPruned(nil, "f", reported, records); (err != nil) != (first.Changes > 0) {
			t.Errorf("after an apply with %d changes: %v", first.Changes, err)
		}
	}
}

// rollback rolls back as the operator would.
func (y *toys) rollback(ctx context.Context, o RollbackOptions, chosen ...string) *Report {
	so := y.options()
	if len(chosen) > 0 {
		so.Chosen = map[string]bool{}
		for _, h := range chosen {
			so.Chosen[h] = true
		}
	}
	s := Open(ctx, y.fabric, so)
	defer s.Close()
	o.Allowed = resource.LinkFlap
	return Rollback(ctx, s, o, y.heard)
}

// applyOn applies the value on one host, or on both.
func (y *toys) applyOn(ctx context.Context, value string, chosen ...string) {
	y.t.Helper()
	y.wants = value
	so := y.options()
	if len(chosen) > 0 {
		so.Chosen = map[string]bool{}
		for _, h := range chosen {
			so.Chosen[h] = true
		}
	}
	time.Sleep(time.Second) // of the bubble's clock: transactions differ in their time
	if r := y.runIn(ctx, Open(ctx, y.fabric, so), Options{}); r.Ending != Done || r.Err != nil {
		y.t.Fatalf("ending %d, %v", r.Ending, r.Err)
	}
}

// TestRollbackTakesTheNewestTransactionOfItsHostsAlone: fault 34. A host that the last apply did not touch is left alone, and
// each further rollback takes the transaction before.
func TestRollbackTakesTheNewestTransactionOfItsHostsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.applyOn(t.Context(), "3", "b")
		y.applyOn(t.Context(), "4", "a")
		for _, c := range []struct{ fates, values string }{{"a reverted", "23"}, {"b reverted", "22"}, {"a reverted, b reverted", "11"}} {
			y.heard.lines = nil
			r := y.rollback(t.Context(), RollbackOptions{})
			if r.Ending != Done || r.Err != nil || fatesOf(r) != c.fates || y.values() != c.values {
				t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
			}
			if n := len(r.Outcomes); !slices.Contains(y.heard.lines, fmt.Sprintf("plan: %d", n)) || !slices.Contains(y.heard.lines, fmt.Sprintf("asked for %d", n)) {
				t.Errorf("it was not shown and asked for: %q", y.heard.lines)
			}
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Failed || r.Err == nil || !strings.HasPrefix(r.Err.Error(), "nothing to roll back") || y.values() != "11" {
			t.Errorf("a fourth: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if h := y.hosts["a"].history; len(h) != 4 || h[3].Command != resource.RollbackCommand {
			t.Errorf("history %+v", h)
		}
		// Of hosts that are away, nobody knows whether there is something to take back.
		y.hosts["a"].down, y.hosts["b"].down = true, true
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != HostsUnreachable || r.Err != nil {
			t.Errorf("all hosts are away: ending %d, %v", r.Ending, r.Err)
		}
	})
}

// TestRollbackNamesTransactionsInOppositeOrders: no rollback can take one of them from all of its hosts.
func TestRollbackNamesTransactionsInOppositeOrders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.applyOn(t.Context(), "3")
		b := y.hosts["b"]
		b.tx, b.past[0].TxInfo = b.past[0].TxInfo, b.tx
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Failed || r.Err == nil || strings.Count(r.Err.Error(), ") on a, b") != 2 || y.values() != "33" ||
			!strings.HasSuffix(r.Err.Error(), "run `fabricform rollback -host=HOST -lab -var=n=1 f.hcl`") {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestRollbackGoesAsFarAsBackupsAreKept: then it says so, and changes nothing on any host.
func TestRollbackGoesAsFarAsBackupsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2") // kept on a alone, in the end
		for n := range keptToys + 1 {
			y.applyOn(t.Context(), fmt.Sprint(3+n), "b")
		}
		for n := range keptToys + 1 {
			if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || fatesOf(r) != "b reverted" {
				t.Fatalf("rollback %d: ending %d, %v, fates %q", n+1, r.Ending, r.Err, fatesOf(r))
			}
		}
		asks := len(y.hosts["a"].asks) + len(y.hosts["b"].asks)
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), "host b has no backup of it any more: each host keeps its last five transactions") {
			t.Errorf("ending %d, %v", r.Ending, r.Err)
		}
		if y.values() != "22" || asks != len(y.hosts["a"].asks)+len(y.hosts["b"].asks) {
			t.Errorf("values %s", y.values())
		}
	})
}

// TestRollbackAsksBeforeItChangesAnything: a refusal, or changes of others that cannot stay, leave every host alone.
func TestRollbackAsksBeforeItChangesAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		nothing := func(what string, r *Report, says string) {
			t.Helper()
			if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), says) || y.values() != "22" || len(y.hosts["a"].asks)+len(y.hosts["b"].asks) > 0 {
				t.Errorf("%s: ending %d, %v, values %s", what, r.Ending, r.Err, y.values())
			}
		}
		y.heard.refusal = errors.New("nothing was changed: no")
		nothing("refused", y.rollback(t.Context(), RollbackOptions{}), "nothing was changed: no")
		for _, h := range y.hosts { // all that differs is of somebody else
			h.reversed = calls.TxReversed{Digest: "x", Reversal: checkpoint.Reversal{Kept: []resource.Change{{Attribute: "value", From: "2", To: "5", Atom: "toy r0 value"}}}}
		}
		nothing("nothing left to revert", y.rollback(t.Context(), RollbackOptions{}), "nothing was changed: no")
		y.hosts["a"].reversed = calls.TxReversed{}
		y.heard.refusal = nil
		lost := resource.Change{Attribute: "route", From: "10.9.0.0/16", Atom: "route 254 10.9.0.0/16 0"}
		y.hosts["b"].reversed = calls.TxReversed{Digest: "x", Reversal: checkpoint.Reversal{Changes: []resource.Change{lost, {Attribute: "value", From: "2", To: "guarded", Atom: "toy r0 value"}}, Overwritten: []resource.Change{lost}}}
		nothing("others' changes", y.rollback(t.Context(), RollbackOptions{}), "b: route.254: route 10.9.0.0/16. To roll them back too, run `fabricform rollback -allow=foreign -lab -var=n=1 f.hcl`")
		nothing("a permission", y.rollback(t.Context(), RollbackOptions{Foreign: true}), "nothing was rolled back: on host b, a guarded value comes back. To allow this, run `fabricform rollback -allow=toys -lab -var=n=1 f.hcl`")
		y.hosts["b"].fails["tx.reversal"] = errors.New("device eth0 does not exist any more")
		nothing("a host that cannot be read", y.rollback(t.Context(), RollbackOptions{}), "nothing was rolled back: host b: ")
		delete(y.hosts["b"].fails, "tx.reversal")
		y.heard.lines = nil
		r := y.rollback(t.Context(), RollbackOptions{Foreign: true, Permitted: []string{"toys"}})
		if r.Ending != Done || r.Err != nil || y.values() != "11" {
			t.Errorf("allowed: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if p := y.hosts["b"].asks[0]; !p.Foreign || p.Digest != "x" || p.User != "anna@desk" {
			t.Errorf("asked for %+v", p)
		}
	})
}

// TestARollbackKeepsTheNamesOfVanishedHosts: the record from before the first apply names no host. One that the files no longer
// name still has its changes, so the next plan must name it.
func TestARollbackKeepsTheNamesOfVanishedHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.hosts["a"].roster = []resource.Member{{Name: "a"}, {Name: "b"}}
		y.fabric.Hosts, y.fabric.Links = y.fabric.Hosts[:1], nil
		y.hosts["a"].on = func(method string) {
			if method == "tx.revert" {
				y.hosts["a"].roster = []resource.Member{}
			}
		}
		r := y.rollback(t.Context(), RollbackOptions{})
		if r.Ending != Done || r.Err != nil || len(r.Plan.Vanished) != 1 || r.Plan.Vanished[0].Name != "b" {
			t.Errorf("ending %d, %v, the plan names %v", r.Ending, r.Err, r.Plan.Vanished)
		}
		s := Open(t.Context(), y.fabric, y.options())
		defer s.Close()
		if p := s.Propose(t.Context()); len(p.Vanished) != 1 || p.Vanished[0].Name != "b" || len(p.Enrol) != 0 {
			t.Errorf("after the rollback, the plan names %v and would enrol %v", p.Vanished, p.Enrol)
		}
	})
}

// TestRollbackNamesWhatItLeavesOut: hosts of the transaction that do not answer or were not chosen.
func TestRollbackNamesWhatItLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.applyOn(t.Context(), "2")
		y.heard.lines = nil
		const disturbed = "mv0 on eth0 is not ours and goes down with it"
		y.hosts["a"].reversed.Disturbed = []string{disturbed}
		if r := y.rollback(t.Context(), RollbackOptions{}, "a"); r.Ending != Done || fatesOf(r) != "a reverted" || y.values() != "12" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if said := strings.Join(y.heard.lines, "\n"); !strings.Contains(said, "the transaction also changed b, which this rollback leaves out") || !strings.Contains(said, "a: "+disturbed) {
			t.Errorf("%q", y.heard.lines)
		}
		y.applyOn(t.Context(), "3", "a")
		y.hosts["b"].down = true
		y.heard.lines = nil
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Ending != Done || y.values() != "12" {
			t.Errorf("ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
		if !strings.Contains(strings.Join(y.heard.lines, "\n"), "b: the host does not answer, and may have a newer transaction") {
			t.Errorf("%q", y.heard.lines)
		}
	})
}

// TestARollbackTakesBothEndsOrNone: if a host of the transaction is missing, or changed since the rollback was shown, no
// other one reverts, unless half links are allowed.
func TestARollbackTakesBothEndsOrNone(t *testing.T) {
	away := func(y *toys) { y.hosts["b"].down = true }
	changed := func(y *toys) { y.hosts["b"].reversed = calls.TxReversed{Digest: "another"} }
	lost := func(y *toys) { y.hosts["b"].cut["tx.reversal"] = true }
	for _, c := range []struct {
		name         string
		before, then func(y *toys) // before the rollback, and while it asks
		hosts        []string      // as the host stored them; nil: the transaction's
		half         bool
		ending       Ending
		values       string
		says         string
	}{
		{name: "unreachable", before: away, ending: HostsUnreachable, values: "22",
			says: "is also on hosts that are unreachable: b. A rollback of a alone can break link rail0. Run rollback again once all its hosts are reachable. To roll back a alone nevertheless, run `fabricform rollback -allow=half-links -lab -var=n=1 f.hcl`."},
		{name: "unreachable, and perhaps of the transaction", before: away, hosts: []string{}, ending: HostsUnreachable, values: "22", says: "may also be on hosts that are unreachable: b."},
		{name: "unreachable, and allowed", before: away, half: true, ending: HostsUnreachable, values: "12",
			says: "link rail0: rolled back at the other ends only, although these hosts are unreachable: b (-allow=half-links)"},
		{name: "changed", then: changed, ending: Stale, values: "22", says: "nothing was rolled back: b changed since the rollback was shown; to see and make what it would do now, run `fabricform rollback -lab -var=n=1 f.hcl`"},
		{name: "changed, and allowed", then: changed, half: true, ending: Stale, values: "12", says: "host b: the host changed since the rollback was shown"},
		{name: "lost", then: lost, ending: HostsUnreachable, values: "22", says: "nothing was rolled back: host b: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.applyOn(t.Context(), "2")
				if c.hosts != nil {
					y.hosts["a"].tx.Hosts = c.hosts
				}
				if c.before != nil {
					c.before(y)
				}
				y.heard.lines = nil
				y.heard.asking = func() {
					if c.then != nil {
						c.then(y)
					}
				}
				r := y.rollback(t.Context(), RollbackOptions{HalfLinks: c.half})
				if r.Ending != c.ending || y.values() != c.values {
					t.Errorf("ending %d, want %d: %v; values %s, want %s", r.Ending, c.ending, r.Err, y.values(), c.values)
				}
				if said := strings.Join(y.heard.lines, "\n") + fmt.Sprint("\n", r.Err); !strings.Contains(said, c.says) {
					t.Errorf("%q is missing in\n%s", c.says, said)
				}
			})
		})
	}
}
