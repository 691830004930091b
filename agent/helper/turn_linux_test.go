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
)

// TestAnActionEndsByItsDeadline: fault 30. One that heeds its context fails, and the next one runs. One that does not
// return is abandoned: the client is told, no other step of this helper begins, and the helper ends with its stream.
func TestAnActionEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var acting turn
		kernel, ran := make(chan struct{}), 0
		hang := agent.Method[string, struct{}]("hang")
		table, err := agent.NewTable(hang.Serve(func(ctx context.Context, where string) (struct{}, error) {
			return take(ctx, &acting, 30*time.Second, func(ctx context.Context) (struct{}, error) {
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
		if err := acting.await(); !errors.Is(err, errStuck) {
			t.Errorf("a revert by a helper with a stuck action: %v", err)
		}
		c.Close()
		if err := <-served; err != nil {
			t.Error(err)
		}
		close(kernel)
	})
}
