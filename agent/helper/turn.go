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

// runInTurn runs an action when it is its turn. After patience, which includes the wait for the turn, the action's context
// ends. If it still does not return, because it waits in the kernel, where nothing can interrupt it, the client gets an
// error that is Stuck, and nobody waits for the action. Its turn then never ends: only the end of this process makes the
// host safe to change. An action that only waits for its turn is never stuck.
func runInTurn[R any](ctx context.Context, t *turn, patience time.Duration, action func(context.Context) (R, error)) (R, error) {
	var none R
	called, began := ctx, time.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := t.await(ctx); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("not begun within %s: an earlier step on this host still runs", patience)
		}
		return none, err
	}
	defer t.Unlock()
	late := time.AfterFunc(patience+abandonAfter-time.Since(began), func() {
		t.stuck.Store(true)
		agent.Abandon(called, &agent.Error{Stuck: true, Message: fmt.Sprintf("the step is stuck: it has not returned after %s",
			patience+abandonAfter)})
	})
	defer late.Stop()
	is, err := action(ctx)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("not done within %s: %w", patience, err)
	}
	return is, err
}

// await waits until no action runs, and begins a turn. It returns an error if an action is stuck, or if ctx ends first.
func (t *turn) await(ctx context.Context) error {
	for ctx.Err() == nil {
		if t.stuck.Load() { // also once it has returned
			return errStuck
		}
		if t.TryLock() {
			return nil
		}
		_ = retry.Pause(ctx, 5*time.Millisecond)
	}
	return ctx.Err()
}
