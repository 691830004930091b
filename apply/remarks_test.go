package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
)

// TestADeathBetweenTwoCommitsIsTold: fault 38. Host a has committed, and host b reverts when its lease expires.
func TestADeathBetweenTwoCommitsIsTold(t *testing.T) {
	const asked = "run `fabricform apply -lab -var=n=1 f.hcl`; to undo it, run `fabricform rollback -lab -var=n=1 f.hcl`"
	for _, c := range []struct {
		name    string
		set     func(y *toys)
		forgets bool // another machine, without tokens
		says    string
	}{
		{"by both hosts", nil, true, "it is committed on a, reverted on b"},
		{"by b, while a is away", func(y *toys) { y.hosts["a"].down = true }, true, "it is reverted on b, unknown on a"},
		{"by a, while b is away, with the tokens of this machine", func(y *toys) { y.hosts["b"].down = true }, false, "it is committed on a, unknown on b"},
		{"by a, while b is away, without tokens", func(y *toys) { y.hosts["b"].down = true }, true, ""},
		{"while the lease of b lasts", func(y *toys) {
			y.hosts["b"].value, y.hosts["b"].tx.State, y.hosts["b"].tx.Undecided = "2", checkpoint.Persisting, false
		}, true, "it is committed on a, still open on b"},
		{"not after a is rolled back", func(y *toys) { y.hosts["a"].tx.State = checkpoint.Reverted }, false, ""},
		{"not if both reverted", func(y *toys) { y.hosts["a"].tx.State, y.hosts["a"].tx.Undecided = checkpoint.Reverted, true }, false, ""},
		{"not after a newer apply", func(y *toys) {
			y.hosts["b"].tx = calls.TxInfo{TxRef: calls.TxRef{ID: "2"}, Run: "other", Fabric: "f", State: checkpoint.Committed}
		}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				b := y.hosts["b"]
				b.fails["tx.commit"] = errors.New("no answer")
				b.on = func(method string) { b.down = b.down || method == "tx.commit" }
				if r := y.run(t.Context(), Options{}); r.Ending != OutcomeUnknown || fatesOf(r) != "a committed, b lost" {
					t.Fatalf("ending %d, %v, fates %q", r.Ending, r.Err, fatesOf(r))
				}
				b.down, b.on, b.fails = false, nil, nil
				b.value, b.tx.State, b.tx.Undecided = "1", checkpoint.Reverted, true
				for _, h := range y.hosts {
					h.history = nil // the client died before it wrote them
				}
				if c.set != nil {
					c.set(y)
				}
				if c.forgets {
					y.state = t.TempDir()
				}
				s := Open(t.Context(), y.fabric, y.options())
				notes := strings.Join(slices.Sorted(slices.Values(s.Propose(t.Context()).Notes())), "\n")
				remarks := strings.Join(slices.Sorted(slices.Values(slices.Concat(s.Remarks(), s.OpenTransactions()))), "\n")
				s.Close()
				if notes != remarks || c.says == "" && notes != "" || !strings.Contains(notes, c.says) || c.says != "" && !strings.Contains(notes, asked) {
					t.Errorf("a plan says\n%s\nand another command\n%s", notes, remarks)
				}
			})
		})
	}
}

// TestAnApplyRecordsADeathBetweenTwoCommits: once, in the histories of both hosts.
func TestAnApplyRecordsADeathBetweenTwoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		parted := calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Run: "r", Plan: "p", Hosts: []string{"a", "b"}, Fabric: "f", State: checkpoint.Committed}
		a, b := y.hosts["a"], y.hosts["b"]
		a.value, a.tx = "2", parted
		parted.State, parted.Undecided = checkpoint.Reverted, true
		b.tx = parted
		b.fails["tx.ready"] = errors.New("not now")
		for range 2 {
			if r := y.run(t.Context(), Options{}); r.Ending != Failed {
				t.Fatal(r.Ending, r.Err)
			}
			for name, h := range y.hosts {
				if len(h.history) != 1 || h.history[0].Plan != "p" || !strings.Contains(h.history[0].Failed, "committed on a, reverted on b") {
					t.Errorf("host %s has the history %+v", name, h.history)
				}
			}
		}
	})
}

// TestAPlanSaysWhatEarlierClientsLeft: a lease that expired, and a host with one guardian.
func TestAPlanSaysWhatEarlierClientsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.hosts["a"].guardians, y.hosts["b"].guardians = 1, 2
		y.hosts["b"].tx = calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Fabric: "f", Holder: checkpoint.Holder{User: "anna@desk"}, State: checkpoint.Reverted, EndedNow: true}
		s := Open(t.Context(), y.fabric, y.options())
		defer s.Close()
		notes := strings.Join(s.Propose(t.Context()).Notes(), "\n")
		for _, want := range []string{"a: without systemd, one process alone guards the rollback", `b: the lease had expired during a transaction of fabric "f", by anna@desk`, "the transaction is now reverted"} {
			if strings.Count(notes, want) != 1 {
				t.Errorf("%q is missing in\n%s", want, notes)
			}
		}
	})
}

// TestAPlanTellsOfAnOpenTransaction: what it sets is not there to stay.
func TestAPlanTellsOfAnOpenTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.hosts["b"].tx = calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Fabric: "f", State: checkpoint.Prepared, Holder: checkpoint.Holder{User: "bert@desk", From: "192.0.2.1"}, Remaining: 9 * time.Minute}
		s := Open(t.Context(), y.fabric, y.options())
		defer s.Close()
		notes := strings.Join(s.Propose(t.Context()).Notes(), "\n")
		for _, want := range []string{"b: ", `a transaction of fabric "f" is open, by bert@desk from 192.0.2.1`, "the host reverts automatically in 9m0s"} {
			if !strings.Contains(notes, want) {
				t.Errorf("%q is missing in %q", want, notes)
			}
		}
		if told := strings.Join(s.OpenTransactions(), "\n"); told != notes {
			t.Errorf("a plan says\n%s\nand another command\n%s", notes, told)
		}
	})
}
