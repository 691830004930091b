package apply

import (
	"cmp"
	"fmt"
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
