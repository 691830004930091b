package apply

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fabricform/fabricform/agent"
)

// TestAnAttemptThatIsCutShortTellsNothing: the error is that of the last attempt that came to its end.
func TestAnAttemptThatIsCutShortTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		wrong, tries := errors.New("the agent is silent"), 0
		_, err := new(Fleet).retryConnect(ctx, func(ctx context.Context) (*agent.Client, error) {
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
