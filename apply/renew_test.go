package apply

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/agent/calls"
)

// TestOneFailedHeartbeatDoesNotStopTheRenewals: a disk may refuse one write, and the lease must not end for that.
func TestOneFailedHeartbeatDoesNotStopTheRenewals(t *testing.T) {
	renewed, n := make(chan struct{}), 0
	tx, _ := scripted(t, map[string]agent.Handler{
		"tx.beat": func(context.Context, json.RawMessage) (any, error) {
			switch n++; n {
			case 1:
				return nil, &agent.Error{Message: "write transaction: no space left on device"}
			case 2:
				close(renewed)
			}
			return calls.TxInfo{}, nil
		},
	})
	tx.add("h", calls.TxRef{ID: "1"})
	defer tx.Close()
	select {
	case <-renewed:
	case <-time.After(20 * time.Second):
		t.Error("the lease is not renewed any more")
	}
}

// TestALeaseIsNotRenewedOnceTheHostIsToRevert: if it refuses, the end of its lease must revert it.
func TestALeaseIsNotRenewedOnceTheHostIsToRevert(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		y := newToys(t)
		b, before := y.hosts["b"], -1
		b.fails["act"], b.fails["tx.revert"] = errors.New("the driver refuses"), errors.New("stop the helper that holds the transaction: it is stuck")
		b.on = func(method string) {
			if method == "tx.revert" && before < 0 {
				before = b.beats
			}
		}
		r := y.run(t.Context(), Options{})
		if fatesOf(r) != "a reverted, b lost" {
			t.Fatalf("fates %s, %v", fatesOf(r), r.Err)
		}
		if n := b.beats - before; before < 0 || n > 1 { // one may be on its way
			t.Errorf("the lease was renewed %d times afterwards", n)
		}
	})
}
