package apply

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
	"github.com/fabricform/fabricform/transport"
)

// TestAnAttemptThatIsCutShortTellsNothing: the error is that of the last attempt that came to its end.
func TestAnAttemptThatIsCutShortTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wrong, tries := errors.New("the agent is silent"), 0
		_, err := retryConnect(ctx, func(ctx context.Context) (*agent.Client, error) {
			if tries++; tries < 3 {
				time.Sleep(time.Second)
				return nil, wrong
			}
			<-ctx.Done()
			return nil, errors.New("the server is overloaded")
		})
		if !errors.Is(err, wrong) || tries != 3 {
			t.Error(err, tries)
		}
	})
}

// TestOnlyTheFirstConnectionMayBeAKeptOne: those of the gate and after the persist stage prove that a new login works.
func TestOnlyTheFirstConnectionMayBeAKeptOne(t *testing.T) {
	y := newToys(t)
	y.lasts = true
	o := y.options()
	dial := o.Dial
	var mu sync.Mutex
	kept := map[string][]bool{}
	o.Dial = func(ctx context.Context, to transport.Target) (io.ReadWriteCloser, error) {
		mu.Lock()
		defer mu.Unlock()
		kept[to.Name] = append(kept[to.Name], to.MayReuse)
		return dial(ctx, to)
	}
	if r := y.runIn(t.Context(), Open(t.Context(), y.fabric, o), Options{}); r.Ending != Done {
		t.Fatalf("%v: %v", r.Ending, r.Err)
	}
	for _, host := range []string{"a", "b"} {
		if !slices.Equal(kept[host], []bool{true, false, false}) {
			t.Errorf("%s: %v", host, kept[host])
		}
	}
}
