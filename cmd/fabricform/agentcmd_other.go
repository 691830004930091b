//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// hostCommands refuse: this program may be a client anywhere, and a helper on Linux only.
func hostCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, name := range []string{"agent", "guard", "install"} {
		out = append(out, &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return errors.New("fabricform " + name + " runs on a fabric's host, and this is not Linux")
		}})
	}
	return out
}
