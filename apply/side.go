package apply

import (
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
)

// sideBySide does something for each of many, at most so many at a time (0: all at once). It waits for all
// and joins their errors in the order of the many.
func sideBySide[T any](atOnce int, many []T, do func(i int, one T) error) error {
	errs := make([]error, len(many))
	var g errgroup.Group
	if atOnce > 0 {
		g.SetLimit(atOnce)
	}
	for i, one := range many {
		g.Go(func() error {
			errs[i] = do(i, one)
			return nil
		})
	}
	_ = g.Wait() // the functions above return nil always
	return errors.Join(errs...)
}

// eachHost is sideBySide for all hosts at once; errors name their host.
func eachHost(hosts []string, do func(host string) error) error {
	return sideBySide(0, hosts, func(_ int, host string) error {
		if err := do(host); err != nil {
			return fmt.Errorf("host %s: %w", host, err)
		}
		return nil
	})
}
