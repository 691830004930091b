package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntil(t *testing.T) {
	missing, fatal := errors.New("missing"), errors.New("fatal")
	after := func(n int, last error) func() (bool, error) {
		return func() (bool, error) {
			if n--; n <= 0 {
				return true, last
			}
			return false, missing
		}
	}
	for _, c := range []struct {
		what string
		ends time.Duration // of the context; 0: it does not end
		try  func() (bool, error)
		want error
		took time.Duration
	}{
		{"done at once", 0, after(1, nil), nil, 0},
		{"done at the third try", 0, after(3, nil), nil, 2 * time.Second},
		{"failed for good", 0, after(2, fatal), fatal, time.Second},
		{"out of patience", 0, after(1000, nil), missing, 11 * time.Second},
		{"the context ends", 1500 * time.Millisecond, after(1000, nil), context.DeadlineExceeded, 1500 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.ends > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, c.ends)
				defer cancel()
			}
			start := time.Now()
			if err := Until(ctx, time.Second, 10*time.Second, c.try); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.what, err, c.want)
			}
			if took := time.Since(start); took != c.took {
				t.Errorf("%s: took %s, want %s", c.what, took, c.took)
			}
		})
	}
}
