//go:build !linux

package main

import (
	"context"
	"errors"
)

// health refuses to run: hosts run Linux.
func (a *app) health(context.Context, healthOptions) error {
	return errors.New("fabricform health runs only on Linux hosts")
}
