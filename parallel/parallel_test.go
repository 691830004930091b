package parallel

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestNoMoreCallsThanTheLimitRunAtTheSameTime(t *testing.T) {
	for limit, took := range map[int]time.Duration{0: time.Second, 1: 5 * time.Second, 2: 3 * time.Second, 9: time.Second} {
		synctest.Test(t, func(t *testing.T) {
			var running, most atomic.Int32
			done := make([]string, 5)
			start := time.Now()
			Each(limit, []string{"a", "b", "c", "d", "e"}, func(i int, one string) {
				most.Store(max(most.Load(), running.Add(1)))
				time.Sleep(time.Second)
				running.Add(-1)
				done[i] = one
			})
			if !slices.Equal(done, []string{"a", "b", "c", "d", "e"}) || limit > 0 && int(most.Load()) > limit || time.Since(start) != took {
				t.Errorf("limit %d: %q, %d at the same time, in %s", limit, done, most.Load(), time.Since(start))
			}
		})
	}
}

func TestErrorsAreJoinedInTheOrderOfTheThings(t *testing.T) {
	if err := Do(0, []string{"b", "", "a"}, func(_ int, one string) error {
		if one == "" {
			return nil
		}
		return errors.New(one)
	}); err == nil || err.Error() != "b\na" {
		t.Error(err)
	}
	if err := Do(0, nil, func(int, string) error { return errors.New("called") }); err != nil {
		t.Error(err)
	}
}
