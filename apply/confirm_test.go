package apply

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
)

// TestWhatWasLeftOutIsNotExpectedByAConfirm: the hosts are compared with what the apply made.
func TestWhatWasLeftOutIsNotExpectedByAConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.lasts = true
		y.hosts["b"].down = true
		if r := y.run(t.Context(), Options{Manual: true, Lease: time.Minute}); r.Ending != HostsUnreachable || r.Err != nil {
			t.Fatalf("ending %d, %v", r.Ending, r.Err)
		}
		if r := Confirm(t.Context(), y.fabric, y.options(), "", y.heard); r.Ending != Done || fatesOf(r) != "a committed" || y.values() != "11" || y.hosts["a"].file != "2" {
			t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, fatesOf(r), y.values())
		}
	})
}

// TestWhatWaitsIsConfirmedOnAllHostsOrNone: with the tokens that the apply left.
func TestWhatWaitsIsConfirmedOnAllHostsOrNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		set    func(y *toys)
		ending Ending
		values string
		fates  string
	}{
		{"all are as they were made", nil, Done, "22", "a committed, b committed"},
		{"one is not as it was made", func(y *toys) { y.hosts["b"].value = "7" }, RolledBack, "11", "a reverted, b reverted"},
		{"one host reverted automatically", func(y *toys) {
			y.hosts["b"].value, y.hosts["b"].tx = "1", calls.TxInfo{TxRef: calls.TxRef{ID: "9"}, Fabric: "g", State: checkpoint.Committed}
		}, RolledBack, "11", "a reverted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				r := y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
				if got := fatesOf(r); r.Ending != Done || got != "a "+string(Waiting)+", b "+string(Waiting) {
					t.Fatalf("ending %d, %v, fates %q", r.Ending, r.Err, got)
				}
				if !strings.Contains(strings.Join(y.heard.lines, "\n"), "run `fabricform confirm -lab -var=n=1 f.hcl`") {
					t.Errorf("the command cannot be pasted: %q", y.heard.lines)
				}
				if n := y.hosts["a"].count("tx.persist") + y.hosts["a"].count("tx.commit"); n > 0 {
					t.Error("it is final before it was confirmed")
				}
				if c.set != nil {
					c.set(y)
				}
				r = Confirm(t.Context(), y.fabric, y.options(), "", y.heard)
				if got := fatesOf(r); r.Ending != c.ending || got != c.fates || y.values() != c.values {
					t.Errorf("ending %d, %v, fates %q, values %s", r.Ending, r.Err, got, y.values())
				}
				if r = Confirm(t.Context(), y.fabric, y.options(), "", y.heard); r.Ending != Failed || r.Err == nil {
					t.Errorf("there is something left to confirm: %d", r.Ending)
				}
			})
		})
	}
}

// TestATokenOfAnotherFabricEndsNothing: its hosts may have the same names.
func TestATokenOfAnotherFabricEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		all, err := storeIn(y.state).all("")
		if err != nil || len(all) != 1 {
			t.Fatal(all, err)
		}
		other := storeIn(t.TempDir())
		other.Fabric, all[0].Fabric = "g", "g"
		saveTokens(t, other, all[0])
		path, err := other.path(all[0])
		if err != nil {
			t.Fatal(err)
		}
		for name, h := range y.hosts {
			h.asked = nil
			r := Confirm(t.Context(), y.fabric, y.options(), path, y.heard)
			if r.Ending != Failed || r.Err == nil || !strings.Contains(r.Err.Error(), `belongs to fabric "g", not "f"`) || len(h.asked) > 0 {
				t.Errorf("host %s was asked for %v: ending %d, %v", name, h.asked, r.Ending, r.Err)
			}
		}
	})
}

// TestAnInterruptDoesNotPartAConfirm: what one host commits, the other commits.
func TestAnInterruptDoesNotPartAConfirm(t *testing.T) {
	for _, method := range []string{"tx.persist", "tx.commit"} {
		synctest.Test(t, func(t *testing.T) {
			y := newToys(t)
			y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			y.interrupt("a", method, cancel)
			if r := Confirm(ctx, y.fabric, y.options(), "", y.heard); r.Ending != Done || fatesOf(r) != "a committed, b committed" || y.values() != "22" {
				t.Errorf("interrupted in %s: ending %d, %v, fates %q", method, r.Ending, r.Err, fatesOf(r))
			}
		})
	}
}

// TestConfirmAfterTheLeaseSaysItOnce: all hosts have reverted automatically.
func TestConfirmAfterTheLeaseSaysItOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		y.run(t.Context(), Options{Manual: true, Lease: time.Minute})
		for _, h := range y.hosts {
			h.value, h.tx.State, h.tx.Why, h.asked = "1", checkpoint.Reverted, "the lease expired", nil
		}
		r := Confirm(t.Context(), y.fabric, y.options(), "", y.heard)
		if got := fatesOf(r); r.Ending != RolledBack || got != "a reverted, b reverted" || r.Err == nil || r.Err.Error() != "too late to confirm: the hosts have already rolled back automatically" {
			t.Errorf("ending %d, fates %q, %v", r.Ending, got, r.Err)
		}
		if n := y.hosts["a"].count("tx.persist") + y.hosts["a"].count("tx.revert"); n > 0 {
			t.Errorf("a was asked for %v", y.hosts["a"].asked)
		}
		if left, err := storeIn(y.state).all(""); err != nil || len(left) != 0 {
			t.Errorf("tokens are left: %v, %v", left, err)
		}
	})
}
