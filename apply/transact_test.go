package apply

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
	"github.com/fabricform/fabricform/checkpoint"
	"github.com/fabricform/fabricform/transport"
)

// TestUndoOfAPlanLeavesOthers: what another apply committed is not taken back with this one's.
func TestUndoOfAPlanLeavesOthers(t *testing.T) {
	for _, c := range []struct {
		name, plan, last string
		state            checkpoint.State
		asked            []string
		says             string
	}{
		{"its own", "mine", "mine", checkpoint.Committed, []string{"tx.list", "tx.reversal", "tx.revert"}, ""},
		{"an earlier apply's", "mine", "earlier", checkpoint.Committed, []string{"tx.list"}, "host h: it does not keep the transaction of this apply any more"},
		{"back already", "mine", "mine", checkpoint.Reverted, []string{"tx.list"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tx, asked := scripted(t, map[string]agent.Handler{
				"tx.list": func(context.Context, json.RawMessage) (any, error) {
					return []calls.TxInfo{{TxRef: calls.TxRef{ID: "1"}, Fabric: "f", Plan: c.last, State: c.state, Holder: checkpoint.Holder{User: "anna"}}}, nil
				},
				"tx.reversal": func(context.Context, json.RawMessage) (any, error) { return calls.TxReversed{}, nil },
				"tx.revert": func(context.Context, json.RawMessage) (any, error) {
					return calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, State: checkpoint.Reverted}, nil
				},
			})
			fates, err := tx.fleet.undoPlan(t.Context(), "f", c.plan, "anna@desk", []string{"h"}, "a check failed")
			if d := cmp.Diff(c.asked, asked()); d != "" {
				t.Error(d)
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("got %v", err)
			}
			if told := fates["h"].Fate == Reverted; told != (c.says == "") {
				t.Errorf("fates %v", fates)
			}
		})
	}
}

// TestUndoTakesAllHostsOrNone: host b cannot revert, so host a stays as it is.
func TestUndoTakesAllHostsOrNone(t *testing.T) {
	another := func(fabric string, state checkpoint.State) func(b *toyHost) {
		return func(b *toyHost) {
			b.past = append(b.past, toyTx{b.tx, b.kept})
			b.tx = calls.TxInfo{TxRef: calls.TxRef{ID: "9"}, Fabric: fabric, Plan: "another", State: state, Holder: checkpoint.Holder{User: "bo"}}
		}
	}
	const others = "host b: a later transaction belongs to another apply, by bo"
	for _, c := range []struct {
		name          string
		set           func(b *toyHost)
		values, fates string
		says          string
	}{
		{"both can", func(*toyHost) {}, "11", "a reverted, b reverted", ""},
		{"another apply is open", another("f", checkpoint.Armed), "22", "", others},
		{"another apply has committed", another("f", checkpoint.Committed), "22", "", others},
		{"another fabric's apply has committed", another("g", checkpoint.Committed), "22", "", others},
		{"another apply has reverted", another("f", checkpoint.Reverted), "11", "a reverted, b reverted", ""},
		{"it keeps no transaction", func(b *toyHost) { b.tx = calls.TxInfo{} }, "22", "", "host b: it does not keep the transaction"},
		{"it refuses", func(b *toyHost) { b.fails["tx.reversal"] = errors.New("a disk is full") }, "22", "", "nothing was rolled back: host b: a disk is full"},
		{"it has reverted", func(b *toyHost) { b.tx.State, b.value = checkpoint.Reverted, "1" }, "11", "a reverted, b reverted", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				y := newToys(t)
				y.applyOn(t.Context(), "2")
				c.set(y.hosts["b"])
				s := Open(t.Context(), y.fabric, y.options())
				defer s.Close()
				fates, err := s.undoPlan(t.Context(), "f", y.hosts["a"].tx.Plan, "anna", []string{"a", "b"}, "a check failed")
				if got := fatesOf(&Report{Outcomes: sorted(fates)}); got != c.fates || y.values() != c.values {
					t.Errorf("fates %q, values %s, %v", got, y.values(), err)
				}
				if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

// TestATokenThatMovesIsTold: the former token is invalid, so its holder must be notified of the new
// one.
func TestATokenThatMovesIsTold(t *testing.T) {
	refuse := false
	tx, _ := scripted(t, map[string]agent.Handler{
		"tx.takeover": func(context.Context, json.RawMessage) (any, error) {
			if refuse {
				return nil, &agent.Error{Message: "taken over by another client"}
			}
			return calls.TxInfo{TxRef: calls.TxRef{ID: "1", Token: "new"}}, nil
		},
	})
	var told []string
	tx.Moved = func(host string, to calls.TxRef) { told = append(told, host+" "+to.Token) }
	if err := tx.TakeOver(t.Context(), tx.Hosts(), "anna@desk", "run"); err != nil {
		t.Fatal(err)
	}
	refuse = true
	if err := tx.TakeOver(t.Context(), tx.Hosts(), "anna@desk", "run"); err == nil {
		t.Fatal("it was not refused")
	}
	if d := cmp.Diff([]string{"h new"}, told); d != "" {
		t.Error(d)
	}
	if got := tx.Refs()["h"].Token; got != "new" {
		t.Errorf("the hold has token %q", got)
	}
}

// TestUndoFollowsTheHostBack: the connection that asks for the revert may use an address that the
// revert removes.
func TestUndoFollowsTheHostBack(t *testing.T) {
	last := calls.TxInfo{TxRef: calls.TxRef{ID: "1"}, Fabric: "f", Plan: "mine", State: checkpoint.Committed, Former: netip.MustParseAddr("192.0.2.1")}
	var tx *coordinator
	tx, _ = scripted(t, map[string]agent.Handler{
		"tx.list":     func(context.Context, json.RawMessage) (any, error) { return []calls.TxInfo{last}, nil },
		"tx.reversal": func(context.Context, json.RawMessage) (any, error) { return calls.TxReversed{}, nil },
		"tx.revert": func(context.Context, json.RawMessage) (any, error) {
			tx.fleet.client("h").Close()
			return nil, nil
		},
	})
	var asked []calls.TxRevert
	back := map[string]agent.Handler{
		"tx.list": func(context.Context, json.RawMessage) (any, error) { return []calls.TxInfo{last}, nil },
		"tx.revert": func(_ context.Context, raw json.RawMessage) (any, error) {
			var p calls.TxRevert
			err := json.Unmarshal(raw, &p)
			if asked = append(asked, p); len(asked) == 1 {
				return nil, &agent.Error{Message: "a disk is full"} // an earlier commit does not count as the end
			}
			return calls.TxInfo{TxRef: p.TxRef, State: checkpoint.Reverted}, err
		},
	}
	tx.fleet.host("h").target = transport.Target{Name: "h", Address: "192.0.2.77"}
	tx.fleet.open = func(_ context.Context, to transport.Target) (*agent.Client, error) {
		if to.Address != "192.0.2.77" || to.Via != "192.0.2.1" {
			return nil, errors.New("nobody is there any more")
		}
		there, _ := scripted(t, back)
		return there.fleet.client("h"), nil
	}
	fates, err := tx.fleet.undoPlan(t.Context(), "f", "mine", "anna@desk", []string{"h"}, "rollback")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]HostOutcome{"h": {Host: "h", Fate: Reverted, Via: "192.0.2.1"}}, fates); d != "" {
		t.Error(d)
	}
	again := calls.TxRevert{TxRef: last.TxRef, Why: "rollback", User: "anna@desk", RollBack: true}
	if d := cmp.Diff([]calls.TxRevert{again, again}, asked); d != "" {
		t.Error(d)
	}
}

// TestAHostIsFoundWhereItIsFirst: a host may have both addresses permanently; then the former one is not
// reported.
func TestAHostIsFoundWhereItIsFirst(t *testing.T) {
	tx, _ := scripted(t, nil)
	f := tx.fleet
	now, before := transport.Target{Name: "h", Address: "192.0.2.77"}, transport.Target{Name: "h", Address: "192.0.2.77", Via: "192.0.2.1"}
	f.host("h").target, f.host("h").former = now, &before
	for _, gone := range []bool{false, true} {
		f.open = func(_ context.Context, to transport.Target) (*agent.Client, error) {
			if to == now {
				time.Sleep(200 * time.Millisecond)
				if gone {
					return nil, errors.New("nobody is there any more")
				}
			}
			there, _ := scripted(t, nil)
			return there.fleet.client("h"), nil
		}
		want := now
		if gone {
			want = before
		}
		began := time.Now()
		if c, by, err := f.dialEither(t.Context(), "h"); err != nil || c == nil || by != want {
			t.Errorf("gone is %v: %+v, %v", gone, by, err)
		}
		t.Logf("gone is %v: %s", gone, time.Since(began))
	}
}
