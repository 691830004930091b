//go:build linux

package helper

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/retry"
)

// turn lets one action run at a time: each reads the host again before it changes anything.
type turn struct {
	sync.Mutex
	stuck atomic.Bool
}

// errStuck is the error of each step after an action that did not return: it may still change the host when it does.
var errStuck = &agent.Error{Stuck: true, Message: "an earlier step on this host is stuck"}

// abandonAfter is how long an action may take to return after its context has ended: its programs are killed, and its
// reads are abandoned.
const abandonAfter = 5 * time.Second

// take runs an action when it is its turn. After patience, the action's context ends. If it still does not return,
// because it waits in the kernel, where nothing can interrupt it, the client gets an error that is Stuck, and nobody waits
// for the action. Its turn then never ends: only the end of this process makes the host safe to change.
func take[R any](ctx context.Context, t *turn, patience time.Duration, action func(context.Context) (R, error)) (R, error) {
	var none R
	if t.stuck.Load() {
		return none, errStuck
	}
	late := time.AfterFunc(patience+abandonAfter, func() {
		t.stuck.Store(true)
		agent.Abandon(ctx, &agent.Error{Stuck: true, Message: fmt.Sprintf("the step is stuck: it has not returned after %s", patience+abandonAfter)})
	})
	defer late.Stop()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	t.Lock()
	defer t.Unlock()
	if err := ctx.Err(); err != nil { // the turn came too late
		return none, err
	}
	is, err := action(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not done within %s: %w", patience, err)
	}
	return is, err
}

// await waits until no action runs, and begins a turn. It returns an error if an action is stuck.
func (t *turn) await() error {
	for !t.TryLock() {
		if t.stuck.Load() {
			return errStuck
		}
		if err := retry.Pause(context.Background(), 5*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}
