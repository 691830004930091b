package apply

import (
	"context"
	"encoding/json"
	"testing"
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
	tx.beat()
	defer tx.Close()
	select {
	case <-renewed:
	case <-time.After(20 * time.Second):
		t.Error("the lease is not renewed any more")
	}
}
