// Package retry waits and tries again, for as long as its context lasts.
package retry

import (
	"context"
	"time"
)

// Pause waits. It returns ctx's error if ctx ends first.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// Until tries every so often until try is done, and returns its error. If try is not done within patience, Until
// returns the last try's error, which says what is missing. If ctx ends between two tries, it returns ctx's error.
func Until(ctx context.Context, every, patience time.Duration, try func() (done bool, err error)) error {
	for end := time.Now().Add(patience); ; {
		done, err := try()
		if done || time.Now().After(end) {
			return err
		}
		if err := Pause(ctx, every); err != nil {
			return err
		}
	}
}
