package main

import (
	"strings"
	"testing"
)

func TestEveryCommandIsListedInAGroup(t *testing.T) {
	root := rootCommand(&app{})
	for _, c := range root.Commands() {
		if c.Hidden == (c.GroupID != "") {
			t.Errorf("%s: hidden %v, and in group %q", c.Name(), c.Hidden, c.GroupID)
		}
	}
}

// A mistyped command must not succeed: a script would go on.
func TestAMistypedCommandFails(t *testing.T) {
	for line, near := range map[string]string{"aply": "apply", "lab dwon": "down", "lab frob x": "", "render ncl": "nccl"} {
		root := rootCommand(&app{})
		root.SetArgs(strings.Fields(line))
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), near) {
			t.Errorf("%s: %v", line, err)
		}
	}
}
