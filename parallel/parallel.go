// Package parallel works on many things at the same time.
package parallel

import (
	"errors"
	"sync"
)

// Each calls do for all things and returns when the last call has. At most limit calls run at the same time; 0: all.
func Each[T any](limit int, all []T, do func(i int, one T)) {
	if limit == 0 {
		limit = len(all)
	}
	var calls sync.WaitGroup
	slots := make(chan struct{}, limit)
	for i, one := range all {
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			do(i, one)
		})
	}
	calls.Wait()
}

// Do is Each for calls that can fail. It joins their errors in the order of the things.
func Do[T any](limit int, all []T, do func(i int, one T) error) error {
	errs := make([]error, len(all))
	Each(limit, all, func(i int, one T) { errs[i] = do(i, one) })
	return errors.Join(errs...)
}
