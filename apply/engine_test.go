package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/fabric"
	"github.com/fabricform/fabricform/planner"
	"github.com/fabricform/fabricform/resource"
	"github.com/fabricform/fabricform/validators"
)

// TestTheEngineKeepsItsPromise: all hosts commit or none, with each policy and each way to fail.
func TestTheEngineKeepsItsPromise(t *testing.T) {
	broken := errors.New("the driver refuses")
	for _, c := range []struct {
		name    string
		set     func(y *toys, cancel func())
		options Options
		ending  Ending
		values  string // of a and b, afterwards
		fates   string
		says    string // in the error
	}{
		{name: "all commit", ending: Done, values: "22", fates: "a committed, b committed"},
		{name: "one fails and all go back", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, _ func()) { y.hosts["b"].fails["act"] = broken }},
		{name: "a host's command can be pasted", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "run `fabricform rollback -lab -var=n=1 f.hcl`",
			set: func(y *toys, _ func()) { y.hosts["b"].fails["act"] = errors.New("run `fabricform rollback`") }},
		{name: "one fails and goes back alone", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "21", fates: "a committed, b reverted",
			says: "the driver refuses\nbecause of -on-failure rollback-host, link rail0 may be changed at one end only, and not work: rolled back on b, changed on a",
			set:  func(y *toys, _ func()) { y.hosts["b"].fails["act"] = broken }},
		{name: "one fails and what was done stays", options: Options{OnFailure: Stop}, ending: Failed, values: "21", fates: "a committed, b committed", says: "apply stopped",
			set: func(y *toys, _ func()) {
				acted := make(chan struct{}) // on a, before it fails on b
				y.hosts["a"].on = func(method string) {
					if method == "act" {
						close(acted)
					}
				}
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						<-acted
					}
				}
				y.hosts["b"].fails["act"] = broken
			}},
		{name: "a change that does not stay", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "did not stay",
			set: func(y *toys, _ func()) { y.hosts["b"].forgets = true }},
		{name: "a carrier is lost", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the changes broke checks that passed before: carrier eth0 of b on rail0",
			set: func(y *toys, _ func()) { y.hosts["b"].dark = true }},
		{name: "a port goes down that the files take down", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, _ func()) { y.hosts["b"].dark, y.fabric.Hosts[1].NICs[0].Up = true, false }},
		{name: "no new connection gets in", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no longer accepts a new connection",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						y.hosts["b"].down = true
					}
				}
			}},
		{name: "what lasts cannot be written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no space",
			set: func(y *toys, _ func()) { y.hosts["a"].fails["tx.persist"] = errors.New("no space") }},
		{name: "a host is lost in its commit", ending: OutcomeUnknown, values: "22", fates: "a committed, b lost",
			set: func(y *toys, _ func()) { y.hosts["b"].cut["tx.commit"] = true }},
		{name: "another operator ends the transaction", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "host b had already reverted: rollback by bo@desk from 192.0.2.7 at 2026-11-22T10:00:00Z\nhost b: ",
			set: func(y *toys, _ func()) {
				b := y.hosts["b"]
				b.on = func(method string) {
					if method != "act" {
						return
					}
					b.tx.State, b.tx.Why = checkpoint.Reverted, "rollback by bo@desk from 192.0.2.7 at 2026-11-22T10:00:00Z"
					for _, c := range b.connects { // its helper is stopped first
						c.Close()
					}
					b.fails["act"] = errors.New("stopped")
				}
			}},
		{name: "a host moved since the plan was made", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "moved since",
			set: func(y *toys, _ func()) {
				y.hosts["b"].fails["act"] = &agent.Error{Stale: true, Message: "it moved since the plan was made"}
			}},
		{name: "somebody else's transaction", ending: Held, values: "11", says: "run `fabricform pending -lab -var=n=1 f.hcl`",
			set: func(y *toys, _ func()) { y.hosts["b"].held = true }},
		{name: "a step that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "host b: the step is stuck: no answer to act within 45s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "act" }},
		{name: "a step that never returns, and the others stay", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "21", fates: "a committed, b reverted", says: "the step is stuck",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "act" }},
		{name: "an interrupt, and a step that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].hangs = "act"
				y.interrupt("a", "act", cancel)
			}},
		{name: "a preparation that never returns", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no answer to tx.prepare within 30s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.prepare" }},
		{name: "files that are never written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "no answer to tx.persist within 10m0s",
			set: func(y *toys, _ func()) {
				y.lasts = true
				y.hosts["b"].hangs = "tx.persist"
			}},
		{name: "a snapshot that never comes", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "not all hosts could be read again: host b: no answer to snapshot within 1m0s",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) {
					if method == "act" {
						y.hosts["b"].hangs = "snapshot"
					}
				}
			}},
		{name: "a check that never ends", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "checks that passed before the changes could not be made again: carrier eth0 of ",
			set: func(y *toys, _ func()) {
				b, reads := y.hosts["b"], 0
				b.on = func(method string) {
					if method == "act" {
						reads = 1
					} else if method == "snapshot" && reads > 0 {
						if reads++; reads == 3 { // the first one proves that the host is as declared
							b.hangs = "snapshot"
						}
					}
				}
			}},
		{name: "a stuck host that nobody reaches any more", ending: OutcomeUnknown, values: "11", fates: "a reverted, b lost", says: "the step is stuck",
			set: func(y *toys, _ func()) {
				y.hosts["b"].hangs = "act"
				y.hosts["b"].on = func(method string) { y.hosts["b"].down = y.hosts["b"].down || method == "act" }
			}},
		{name: "an interrupt while a transaction is opened", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.open", cancel) }},
		{name: "an interrupt while the second transaction is opened", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("b", "tx.open", cancel) }},
		{name: "an interrupt in a change", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "act", cancel) }},
		{name: "an interrupt while nothing is written", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.persist", cancel) }},
		{name: "an interrupt while files are written", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted",
			set: func(y *toys, cancel func()) {
				y.lasts = true
				y.interrupt("a", "tx.persist", cancel)
			}},
		{name: "an interrupt right after a host refused to prepare", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "interrupted\nhost b: the disk is full",
			set: func(y *toys, cancel func()) {
				refused := make(chan struct{})
				y.hosts["b"].fails["tx.prepare"] = errors.New("the disk is full")
				y.hosts["b"].on = func(method string) {
					if method == "tx.prepare" {
						close(refused)
					}
				}
				y.hosts["a"].on = func(method string) {
					if method == "tx.prepare" {
						<-refused
						time.Sleep(time.Second) // b's answer arrives
						cancel()
					}
				}
			}},
		{name: "an interrupt in the commits", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.commit", cancel) }},
		{name: "an interrupt in the histories", ending: Done, values: "22", fates: "a committed, b committed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "enrol", cancel) }},
		{name: "an interrupt before the live checks", options: Options{CheckRollback: true}, ending: Failed, values: "22", fates: "a committed, b committed", says: "interrupted; the changes are committed, but not verified: run `fabricform verify -lab -var=n=1 f.hcl`",
			set: func(y *toys, cancel func()) { y.interrupt("a", "enrol", cancel) }},
		{name: "an interrupt before the plan", ending: Failed, values: "11", says: "interrupted; nothing was changed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.finish", cancel) }},
		{name: "an interrupt while the hosts are read", ending: Failed, values: "11", says: "interrupted; nothing was changed",
			set: func(y *toys, cancel func()) { y.interrupt("a", "snapshot", cancel) }},
		{name: "an interrupt while hosts are asked whether they are ready", ending: Failed, values: "11", says: "nothing was changed on any host: interrupted",
			set: func(y *toys, cancel func()) { y.interrupt("a", "tx.ready", cancel) }},
		{name: "an interrupt while all go back", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["act"] = broken
				y.interrupt("a", "tx.revert", cancel)
			}},
		{name: "an interrupt while a transaction that the other host refused goes back", ending: Failed, values: "11", says: "nothing was changed on any host: host b: the disk is full",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["tx.open"] = errors.New("the disk is full")
				y.interrupt("a", "tx.revert", cancel)
			}},
		{name: "a refusal", ending: Failed, values: "11", says: "not today",
			set: func(y *toys, _ func()) { y.heard.refusal = errors.New("not today") }},
		{name: "a host that does not answer is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].down = nil, true }},
		{name: "a host that says nothing of itself is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].mute = nil, true }},
		{name: "a host whose snapshot is empty is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].empty = nil, true }},
		{name: "a host that says nothing of itself any more", ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "not all hosts could be read again: host b: ",
			set: func(y *toys, _ func()) {
				y.hosts["b"].on = func(method string) { y.hosts["b"].mute = y.hosts["b"].mute || method == "act" }
			}},
		{name: "a host that never finishes is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].hangs = nil, "tx.finish" }},
		{name: "a host that never sends its snapshot is left out", ending: HostsUnreachable, values: "21", fates: "a committed, b untouched",
			set: func(y *toys, _ func()) { y.fabric.Links, y.hosts["b"].hangs = nil, "snapshot" }},
		{name: "a host that never says whether it is ready", ending: Failed, values: "11", says: "nothing was changed on any host: host b: no answer to tx.ready within 2m0s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.ready" }},
		{name: "a host that never opens its transaction", ending: Failed, values: "11", says: "nothing was changed on any host: host b: no answer to tx.open within 2m0s",
			set: func(y *toys, _ func()) { y.hosts["b"].hangs = "tx.open" }},
		{name: "a history that is never written", ending: Failed, values: "22", fates: "a committed, b committed",
			says: "the committed changes stand, but not every host has recorded them: write the roster and the history on host b: no answer to enrol within 45s. Run `fabricform apply -lab -var=n=1 f.hcl` again",
			set:  func(y *toys, _ func()) { y.hosts["b"].hangs = "enrol" }},
		{name: "an installation that never starts", ending: Failed, values: "11", fates: "a committed, b unfinished", says: "driver stacks are incomplete on b",
			set: func(y *toys, _ func()) { y.stacks, y.hosts["b"].hangs = true, "stack.start" }},
		{name: "an interrupt while one goes back alone", options: Options{OnFailure: RollbackHost}, ending: RolledBack, values: "11", fates: "a reverted, b reverted", says: "the driver refuses",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].fails["act"] = broken
				y.interrupt("b", "tx.revert", cancel)
			}},
		{name: "a failed check leads back", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted",
			set: func(y *toys, _ func()) { y.hosts["b"].mtu = 9000 }},
		{name: "a failed check leads back, whatever host is unreachable", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted, c untouched",
			set: func(y *toys, _ func()) {
				y.add("c")
				y.hosts["b"].mtu, y.hosts["c"].down = 9000, true
			}},
		{name: "a failed check leads back, whatever an unchanged host refuses", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted, c untouched",
			set: func(y *toys, _ func()) {
				y.add("c")
				y.hosts["b"].mtu, y.hosts["c"].value, y.hosts["c"].fails["tx.list"] = 9000, "2", errors.New("the disk is full")
			}},
		{name: "an interrupt while a failed check leads back", options: Options{CheckRollback: true}, ending: CheckFailed, values: "11", fates: "a reverted, b reverted",
			set: func(y *toys, cancel func()) {
				y.hosts["b"].mtu = 9000
				y.interrupt("a", "tx.revert", cancel)
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // without a limit of its own, a silent host would never end the test
				defer cancel()
				if c.set != nil {
					c.set(y, cancel)
				}
				r := y.run(ctx, c.options)
				time.Sleep(time.Second) // late answers end
				synctest.Wait()
				if r.Ending != c.ending {
					t.Errorf("ending %d, want %d: %v", r.Ending, c.ending, r.Err)
				}
				if got := y.values(); got != c.values {
					t.Errorf("values %s, want %s", got, c.values)
				}
				if got := fatesOf(r); got != c.fates {
					t.Errorf("fates %q, want %q", got, c.fates)
				}
				if c.says == "" && r.Err != nil && r.Ending < Failed || c.says != "" && (r.Err == nil || !strings.Contains(r.Err.Error(), c.says)) {
					t.Errorf("error: %v", r.Err)
				}
				if r.Err != nil && strings.Contains(r.Err.Error(), context.Canceled.Error()) {
					t.Errorf("an interrupt cut a call: %v", r.Err)
				}
				for name, h := range y.hosts {
					if len(h.overlaps) > 0 {
						t.Errorf("host %s was asked for %v", name, h.overlaps)
					}
					if h.hangs != "" {
						close(h.killed)
					}
					if h.tx.State.Open() && h.tx.ID != "" && c.ending != OutcomeUnknown {
						t.Errorf("host %s has a transaction that only its lease can end: %s", name, h.tx.State)
					}
					if h.file != "" && h.value == "1" {
						t.Errorf("host %s reverted, but its file still exists", name)
					}
					if r.Ending == Held || y.heard.refusal != nil {
						if slices.Contains(h.asked, "tx.open") || slices.Contains(h.asked, "act") {
							t.Errorf("host %s was asked for %v", name, h.asked)
						}
					}
				}
			})
		})
	}
}

// TestLeasesAreRenewedWhileOtherHostsOpen: a host may take longer than a lease to open its transaction, and must not end
// those of the others.
func TestLeasesAreRenewedWhileOtherHostsOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		a, renewed := y.hosts["a"], 0
		y.hosts["b"].on = func(method string) {
			if method == "tx.open" {
				time.Sleep(time.Minute)
				a.mu.Lock()
				defer a.mu.Unlock()
				renewed = a.beats
			}
		}
		if r := y.run(t.Context(), Options{Lease: 5 * time.Second}); r.Ending != Done || renewed < 50 {
			t.Errorf("ending %d, %v; host a was renewed %d times in the minute in which host b opened its transaction", r.Ending, r.Err, renewed)
		}
	})
}

// TestAReportNamesTheChangesOfOthersThatARevertFound: after a failed apply, as after a rollback.
func TestAReportNamesTheChangesOfOthersThatARevertFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		kept, overwritten := []resource.Change{{Attribute: "address", To: "10.0.0.7/24"}}, []resource.Change{{Attribute: "mtu", From: "1400", To: "1500"}}
		y.hosts["a"].found = calls.TxInfo{Kept: kept, Overwritten: overwritten}
		y.hosts["b"].fails["act"] = errors.New("the driver refuses")
		r := y.run(t.Context(), Options{})
		if fatesOf(r) != "a reverted, b reverted" {
			t.Fatalf("fates %s", fatesOf(r))
		}
		if a := r.Outcomes[0]; !slices.Equal(a.Kept, kept) || !slices.Equal(a.Overwritten, overwritten) || len(a.Outcomes) != 1 {
			t.Errorf("%+v", a)
		}
	})
}

// TestASilentHostHoldsUpNoOther: host b answers every call but one, and its connection works.
func TestASilentHostHoldsUpNoOther(t *testing.T) {
	for _, c := range []struct {
		method string
		glance bool
		do     func(ctx context.Context, y *toys, s *Session) error
		says   string // of b
	}{
		{"snapshot", true, func(context.Context, *toys, *Session) error { return nil }, "no answer to snapshot within 1m0s"},
		{"tx.list", false, func(ctx context.Context, _ *toys, s *Session) error {
			all, err := s.Transactions(ctx)
			if len(all["a"]) == 0 {
				return errors.New("a's transaction is not listed")
			}
			return err
		}, "no answer to tx.list within 1m0s"},
		{"tx.list", false, func(ctx context.Context, y *toys, s *Session) error {
			r := Rollback(ctx, s, RollbackOptions{Allowed: resource.LinkFlap, HalfLinks: true}, y.heard)
			if r.Ending != HostsUnreachable || y.values() != "12" {
				return fmt.Errorf("ending %d, values %s: %w", r.Ending, y.values(), r.Err)
			}
			return r.Err
		}, "no answer to tx.list within 1m0s"},
		{"tx.reversal", false, func(ctx context.Context, y *toys, s *Session) error {
			r := Rollback(ctx, s, RollbackOptions{Allowed: resource.LinkFlap}, y.heard)
			if r.Err == nil || r.Err.Error() != "nothing was rolled back: host b: no answer to tx.reversal within 3m15s" || y.values() != "22" {
				return fmt.Errorf("values %s: %w", y.values(), r.Err)
			}
			return nil
		}, "no answer to tx.reversal within 3m15s"},
		{"tx.list", false, func(ctx context.Context, y *toys, s *Session) error {
			fates, err := s.undoPlan(ctx, "f", y.hosts["a"].tx.Plan, "anna", []string{"a", "b"}, "a check failed")
			if err == nil || err.Error() != "nothing was rolled back, because not every host can be: host b: no answer to tx.list within 1m0s" || len(fates) > 0 || y.values() != "22" {
				return fmt.Errorf("values %s, fates %v: %w", y.values(), fates, err)
			}
			return nil
		}, "no answer to tx.list within 1m0s"},
	} {
		t.Run(c.method, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				y := newToys(t)
				y.applyOn(ctx, "2")
				b := y.hosts["b"]
				b.hangs = c.method
				o := y.options()
				o.Glance = c.glance
				s := Open(ctx, y.fabric, o)
				defer s.Close()
				if err := c.do(ctx, y, s); err != nil {
					t.Error(err)
				}
				if got := s.Unreachable(); len(got) != 1 || got["b"] != c.says {
					t.Errorf("unreachable: %v", got)
				}
				if !slices.Contains(s.Hosts(), "a") {
					t.Error("host a is not reachable any more")
				}
				close(b.killed)
			})
		})
	}
}

// TestAnUnknownAtomIsAProblemOfItsHost: an atom that no build of this version can have written leaves its host out, with its
// link, and every other host is changed.
func TestAnUnknownAtomIsAProblemOfItsHost(t *testing.T) {
	for _, atom := range []resource.Atom{"bogus x y", "", " ", "toy", "toy  value"} {
		synctest.Test(t, func(t *testing.T) {
			y := newToys(t)
			y.lasts, y.hosts["b"].atoms = true, map[resource.Atom]resource.Owned{atom: {Ours: "1"}}
			r := y.run(t.Context(), Options{})
			if r.Ending != HostsUnreachable || r.Err != nil || len(r.Plan.Problems()) > 0 || y.hosts["a"].file != "2" || y.hosts["b"].file != "" || y.values() != "11" {
				t.Errorf("%q: ending %d, %v, problems %v, values %s", atom, r.Ending, r.Err, r.Plan.Problems(), y.values())
			}
			want := fmt.Sprintf("its record of fabric \"f\" names %q, which this build cannot restore: use the build that wrote it", atom)
			if why := r.Plan.Unreachable(); len(why) != 1 || why["b"] != want {
				t.Errorf("%q: %v", atom, why)
			}
		})
	}
}

// TestTheOrderOfAnApply: nothing is final before all hosts passed the gate, and histories come last.
func TestTheOrderOfAnApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		if r := y.run(t.Context(), Options{}); r.Ending != Done {
			t.Fatal(r.Err)
		}
		for name, h := range y.hosts {
			if d := cmp.Diff([]string{"tx.finish", "tx.ready", "tx.open", "act", "tx.prepare", "tx.persist", "tx.commit", "enrol"}, h.asked); d != "" {
				t.Errorf("host %s: %s", name, d)
			}
			if len(h.history) != 1 || h.history[0].Changes != 1 || h.history[0].Who != "anna@desk" {
				t.Errorf("host %s has the history %+v", name, h.history)
			}
		}
		if d := cmp.Diff([]string{"plan: 2", "asked for 2", "walk: a committed", "walk: b committed", "note: Live checks skipped (-no-verify): nothing was verified."}, y.heard.lines); d != "" {
			t.Error(d)
		}
		if left, err := storeIn(y.state).all(""); err != nil || len(left) != 0 {
			t.Errorf("tokens are left: %v, %v", left, err)
		}
	})
}

// TestAnApplyAdoptsBeforeItChanges: in the transaction, so that a revert restores the record; at the end on hosts that it does not change; and not
// at the end of an apply that was rolled back.
func TestAnApplyAdoptsBeforeItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adopted := map[resource.Atom]string{"found it": "5"}
		y := newToys(t)
		y.found, y.hosts["b"].value = true, "2"
		if r := y.run(t.Context(), Options{}); r.Ending != Done {
			t.Fatal(r.Err)
		}
		for name, want := range map[string][]string{"a": {"tx.finish", "tx.ready", "tx.open", "enrol", "act", "tx.prepare", "tx.persist", "tx.commit", "enrol"}, "b": {"tx.finish", "enrol"}} {
			h := y.hosts[name]
			if d := cmp.Diff(want, h.asked); d != "" {
				t.Errorf("host %s: %s", name, d)
			}
			for _, got := range h.adopts {
				if d := cmp.Diff(adopted, got); d != "" {
					t.Errorf("host %s: %s", name, d)
				}
			}
		}
		if want := "note: ✓ a, b: 1 value each adopted, as before the first apply"; !slices.Contains(y.heard.lines, want) {
			t.Errorf("it does not say what is adopted: %q", y.heard.lines)
		}
		for name, want := range map[string][2]int{"a": {1, 1}, "b": {0, 1}} {
			if h := y.hosts[name].history; len(h) != 1 || [2]int{h[0].Changes, h[0].Adopted} != want {
				t.Errorf("host %s has the history %+v", name, h)
			}
		}
		y = newToys(t)
		y.found, y.hosts["a"].value, y.hosts["b"].value = true, "2", "2"
		if r := y.run(t.Context(), Options{}); r.Ending != Done || !maps.Equal(r.Adopted, map[string]int{"a": 1, "b": 1}) {
			t.Errorf("an apply that only adopts: %v, %v, %v", r.Ending, r.Err, r.Adopted)
		}
		if r := y.rollback(t.Context(), RollbackOptions{}); r.Err == nil || !strings.Contains(r.Err.Error(), "An apply that only adopted changed nothing: ") {
			t.Errorf("the rollback of an apply that only adopts: %v", r.Err)
		}
		y = newToys(t)
		y.found, y.hosts["a"].fails["act"] = true, errors.New("no")
		if r := y.run(t.Context(), Options{}); r.Ending != RolledBack {
			t.Fatal(r.Ending, r.Err)
		}
		if strings.Contains(strings.Join(y.heard.lines, "\n"), "adopted") {
			t.Errorf("an apply that was rolled back adopts: %q", y.heard.lines)
		}
		if h := y.hosts["a"]; len(h.adopts) != 2 || len(h.adopts[0]) != 1 || h.adopts[1] != nil {
			t.Errorf("host a, which was rolled back, was to adopt %v", h.adopts)
		}
		y = newToys(t)
		y.found, y.hosts["a"].fails["enrol"] = true, errors.New("no space")
		if r := y.run(t.Context(), Options{}); r.Ending != RolledBack || y.values() != "11" || slices.Contains(y.hosts["a"].asked, "act") {
			t.Errorf("without a record: ending %d, %v, values %s", r.Ending, r.Err, y.values())
		}
	})
}

// TestHostsThatChangeInWavesAdoptOnce: the first wave's records are those of all hosts that adopt.
func TestHostsThatChangeInWavesAdoptOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.found = true
		for _, h := range y.fabric.Hosts {
			h.Slurm = &fabric.Slurm{Wave: 1}
		}
		so := y.options()
		so.Scheduler, so.Changing = &cluster{}, true
		if r := y.runIn(t.Context(), Open(t.Context(), y.fabric, so), Options{}); r.Ending != Done || !maps.Equal(r.Adopted, map[string]int{"a": 1, "b": 1}) {
			t.Fatal(r.Ending, r.Err, r.Adopted)
		}
		for name, h := range y.hosts {
			changes, adopted := 0, 0
			for _, e := range h.history {
				changes, adopted = changes+e.Changes, adopted+e.Adopted
			}
			if changes != 1 || adopted != 1 {
				t.Errorf("host %s has the history %+v", name, h.history)
			}
		}
	})
}

// TestAStaleHostStaysSkippedAfterDriverStacks: the plan for the rest is made again once the stacks are installed.
func TestAStaleHostStaysSkippedAfterDriverStacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.stacks, y.fabric.Links = true, nil
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value = "7"
		r := y.runSaved(t.Context(), saved)
		if r.Ending != Stale || r.Err != nil || y.values() != "27" || y.hosts["a"].stack+y.hosts["b"].stack != "2" {
			t.Errorf("ending %d, %v, values %s, stacks %q and %q", r.Ending, r.Err, y.values(), y.hosts["a"].stack, y.hosts["b"].stack)
		}
	})
}

// TestACableHasTwoEnds: without one end nothing of the link is changed at the other, the rest is applied, and all that is
// left out is named. The toy value belongs to the link, the file does not.
func TestACableHasTwoEnds(t *testing.T) {
	away := func(y *toys) { y.hosts["b"].down = true }
	drifted := func(y *toys) { y.hosts["b"].value = "7" }
	link := []planner.LeftOut{{Kind: planner.OfLink, Name: "rail0", Missing: []string{"b"}, Ends: []resource.Addr{{Host: "a", Kind: "toy", Name: "r0"}}}}
	half := slices.Clone(link)
	half[0].Half = true
	inPlan := slices.Clone(link)
	inPlan[0].Saved = true
	for _, c := range []struct {
		name      string
		before    func(y *toys) // the plan is saved; nil: no plan is saved
		then      func(y *toys)
		halfSaved bool // plan -allow=half-links
		half      bool // apply -allow=half-links
		ending    Ending
		values    string
		file      string // of a
		left      []planner.LeftOut
	}{
		{name: "b is unreachable", then: away, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is unreachable, and half links are allowed", then: away, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "b was unreachable when the plan was saved", before: away, then: func(y *toys) { y.hosts["b"].down = false }, ending: HostsUnreachable, values: "11", file: "2", left: inPlan},
		{name: "the saved plan does not show half a link", before: away, half: true, ending: HostsUnreachable, values: "11", file: "2", left: inPlan},
		{name: "the saved plan shows half a link", before: away, halfSaved: true, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "the permission is not saved", before: away, halfSaved: true, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is lost between plan and apply", before: func(*toys) {}, then: away, ending: HostsUnreachable, values: "11", file: "2", left: link},
		{name: "b is lost between plan and apply, and half links are allowed", before: func(*toys) {}, then: away, half: true, ending: HostsUnreachable, values: "21", file: "2", left: half},
		{name: "b drifted", before: func(*toys) {}, then: drifted, ending: Stale, values: "17", file: "2", left: link},
		{name: "b drifted, and half links are allowed", before: func(*toys) {}, then: drifted, half: true, ending: Stale, values: "27", file: "2", left: half},
		{name: "b is not chosen", before: nil, then: func(y *toys) { y.chosen = map[string]bool{"a": true} }, ending: Done, values: "21", file: "2"},
		{name: "b is lost after the transactions were opened", ending: RolledBack, values: "11", then: func(y *toys) {
			y.hosts["b"].on = func(method string) { y.hosts["b"].down = y.hosts["b"].down || method == "act" }
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.lasts = true
				var saved *planner.Saved
				if c.before != nil {
					c.before(y)
					y.half = c.halfSaved
					saved = y.save(t.Context(), nil)
				}
				if c.then != nil {
					c.then(y)
				}
				y.half = c.half
				var r *Report
				if saved != nil {
					r = y.runSaved(t.Context(), saved)
				} else {
					r = y.run(t.Context(), Options{})
				}
				if r.Ending != c.ending || y.values() != c.values || y.hosts["a"].file != c.file {
					t.Errorf("ending %d, want %d: %v; values %s, want %s; the file of a is %q", r.Ending, c.ending, r.Err, y.values(), c.values, y.hosts["a"].file)
				}
				if d := cmp.Diff(c.left, r.Plan.LeftOut); d != "" {
					t.Error(d)
				}
				for _, h := range r.Plan.Hosts {
					held := h.Name == "a" && len(c.left) > 0 && !c.left[0].Half
					if held != slices.Equal(h.LeftOut, link[0].Ends) {
						t.Errorf("host %s: left out are %v", h.Name, h.LeftOut)
					}
				}
			})
		})
	}
}

// TestWhatWasLeftOutIsNotChecked: a check of a link that was left out would fail without a fault, so it is
// skipped and rolls nothing back.
func TestWhatWasLeftOutIsNotChecked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.lasts = true
		saved := y.save(t.Context(), nil)
		y.hosts["b"].value, y.hosts["b"].mtu = "7", 9000
		s, err := OpenSaved(t.Context(), saved, y.options())
		if err != nil {
			t.Fatal(err)
		}
		r := y.runIn(t.Context(), s, Options{CheckRollback: true})
		if r.Ending != Stale || r.Err != nil || y.hosts["a"].file != "2" {
			t.Errorf("ending %d, %v, the file of a is %q", r.Ending, r.Err, y.hosts["a"].file)
		}
		skipped := map[validators.SubjectKind]bool{}
		for _, v := range r.Results {
			if v.Subject.Kind == validators.SubjectLink || v.Check == validators.CheckNCCL && v.Host == "a" {
				skipped[v.Subject.Kind] = true
				if v.Skipped != validators.NotApplied {
					t.Errorf("checked: %+v", v)
				}
			}
		}
		if !skipped[validators.SubjectLink] || !skipped[validators.SubjectHost] {
			t.Errorf("the link or its host is not named: %+v", r.Results)
		}
	})
}

// TestWhatIsRemovedNeedsNoOtherEnd: a destroy.
func TestWhatIsRemovedNeedsNoOtherEnd(t *testing.T) {
	y := newToys(t)
	y.hosts["b"].down = true
	o := y.options()
	o.Destroy = true
	s := Open(t.Context(), y.fabric, o)
	defer s.Close()
	if p := s.Propose(t.Context()); len(p.LeftOut) > 0 {
		t.Errorf("left out: %v", p.LeftOut)
	}
}

// TestPlanEndings: hosts that changed since the plan was saved come before problems and unreachable hosts.
func TestPlanEndings(t *testing.T) {
	stale, refused := planner.HostPlan{Name: "s", Stale: []string{"mtu"}}, planner.HostPlan{Name: "p", Problems: []planner.Problem{{Message: "no"}}}
	away := planner.HostPlan{Name: "u", Unreachable: "refused"}
	for want, hosts := range map[Ending][]planner.HostPlan{Stale: {away, refused, stale}, Failed: {away, refused}, HostsUnreachable: {away}, Done: {{Name: "d"}}} {
		if got := PlanEnding(&planner.Plan{Hosts: hosts}); got != want {
			t.Errorf("ending %d, want %d", got, want)
		}
	}
}

// TestNoChangesSaysWhatIsStillPending: what an apply made that was not confirmed is as declared, and may still be reverted.
func TestNoChangesSaysWhatIsStillPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		y.heard.lines = nil
		if r := y.run(t.Context(), Options{}); r.Ending != Done || r.Err != nil {
			t.Fatalf("ending %d, %v", r.Ending, r.Err)
		}
		said := strings.Join(y.heard.lines, "\n")
		for _, want := range []string{"host a: a transaction of fabric \"f\" is open", "host b: a transaction", "run `fabricform confirm -lab -var=n=1 f.hcl`"} {
			if !strings.Contains(said, want) {
				t.Errorf("%q is missing in\n%s", want, said)
			}
		}
	})
}

// TestTheWorstEndingIsTheRuns holds the order in which exit codes are documented.
func TestTheWorstEndingIsTheRuns(t *testing.T) {
	order := []Ending{OutcomeUnknown, RolledBack, Held, Stale, Failed, CheckFailed, HostsUnreachable, Done}
	if !slices.IsSortedFunc(order, func(a, b Ending) int { return int(b - a) }) {
		t.Errorf("%v", order)
	}
}
