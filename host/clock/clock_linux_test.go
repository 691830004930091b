package clock

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestSleepUntilIsExactAndEndsWithItsContext(t *testing.T) {
	before, err := Uptime()
	if err != nil {
		t.Fatal(err)
	}
	if err := SleepUntil(context.Background(), before+50*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if now, _ := Uptime(); now < before+50*time.Millisecond || now > before+time.Second {
		t.Errorf("woke after %s, wanted 50ms", now-before)
	}
	if err := SleepUntil(context.Background(), -time.Hour); err != nil {
		t.Errorf("a moment that is past: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := SleepUntil(ctx, before+time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}
