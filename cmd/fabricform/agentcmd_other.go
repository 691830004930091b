//go:build !linux

package main

import (
	"context"
	"errors"
)

// hostProgram returns programs that refuse to run: the client runs anywhere, the helper only on Linux.
func hostProgram(name string) func(context.Context, []string) error {
	switch name {
	case "agent", "guard", "install":
		return func(context.Context, []string) error {
			return errors.New("fabricform " + name + " runs only on Linux hosts")
		}
	}
	return nil
}
