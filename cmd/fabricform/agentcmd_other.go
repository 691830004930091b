//go:build !linux

package main

import (
	"errors"

	"github.com/spf13/cobra"
)

// hostCommands returns commands that refuse to run: the client runs anywhere, the helper only on Linux.
func hostCommands() []*cobra.Command {
	var out []*cobra.Command
	for _, name := range []string{"agent", "guard", "install"} {
		out = append(out, &cobra.Command{Use: name, Hidden: true, DisableFlagParsing: true, RunE: func(*cobra.Command, []string) error {
			return errors.New("fabricform " + name + " runs only on Linux hosts")
		}})
	}
	return out
}
