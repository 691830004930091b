package helper

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/retry"
)

// TestAnActionEndsByItsDeadline: fault 30. One that heeds its context fails, and the next one runs. One that does not
// return is abandoned: the client is told, no other step of this helper begins, and the helper ends with its stream.
func TestAnActionEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acting turn
		kernel, ran := make(chan struct{}), 0
		hang := agent.Method[string, struct{}]("hang")
		table, err := agent.NewTable(hang.Serve(func(ctx context.Context, where string) (struct{}, error) {
			return runInTurn(ctx, &acting, 30*time.Second, func(ctx context.Context) (struct{}, error) {
				ran++
				if where == "kernel" {
					<-kernel
					return struct{}{}, nil
				}
				<-ctx.Done()
				return struct{}{}, ctx.Err()
			})
		}))
		if err != nil {
			t.Fatal(err)
		}
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- agent.Serve(t.Context(), far, far, "b", table) }()
		c, err := agent.Connect(t.Context(), near, "b", 20*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		var refused *agent.Error
		if _, err := hang.Call(t.Context(), c, "", "program"); !errors.As(err, &refused) || refused.Stuck || !strings.Contains(err.Error(), "not done within 30s") {
			t.Errorf("an action that heeds its context: %v", err)
		}
		if _, err := hang.Call(t.Context(), c, "", "kernel"); !errors.As(err, &refused) || !refused.Stuck {
			t.Errorf("an action that does not return: %v", err)
		}
		if _, err := hang.Call(t.Context(), c, "", "kernel"); !errors.As(err, &refused) || !refused.Stuck || ran != 2 {
			t.Errorf("a step after the stuck one: %v; %d ran", err, ran)
		}
		if err := acting.await(t.Context()); !errors.Is(err, errStuck) {
			t.Errorf("a revert by a helper with a stuck action: %v", err)
		}
		c.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		close(kernel)
	})
}

// TestAnActionThatWaitsForItsTurnIsNotStuck: the one before runs within its own patience, and the host stays usable.
func TestAnActionThatWaitsForItsTurnIsNotStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acting turn
		ran := ""
		do := func(name string, patience, takes time.Duration) error {
			_, err := runInTurn(t.Context(), &acting, patience, func(ctx context.Context) (struct{}, error) {
				ran += name
				return struct{}{}, retry.Pause(ctx, takes)
			})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- do("a", time.Minute, 50*time.Second) }()
		synctest.Wait()
		if err := do("b", 10*time.Second, 0); err == nil || err.Error() != "not begun within 10s: an earlier step on this host still runs" {
			t.Errorf("an action whose turn did not come in time: %v", err)
		}
		time.Sleep(20 * time.Second) // longer than an action that runs may overrun its patience
		if err := do("c", time.Minute, 0); err != nil {
			t.Errorf("an action whose turn came: %v", err)
		}
		if err := <-first; err != nil || ran != "ac" {
			t.Errorf("the first action: %v; ran: %s", err, ran)
		}
	})
}
