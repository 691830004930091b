package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/fabricform/fabricform/view"
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

// TestHelpFitsIntoEightyColumns: paragraphs are broken between words; examples and lists are lines of their own.
func TestHelpFitsIntoEightyColumns(t *testing.T) {
	var out bytes.Buffer
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		out.Reset()
		long := strings.Fields(c.Long)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if len([]rune(strings.TrimSuffix(line, "\n"))) > 80 && line[0] != ' ' {
				t.Errorf("%s: %s", c.CommandPath(), line)
			}
		}
		if got := strings.Fields(out.String()); !slices.Equal(got[:len(long)], long) {
			t.Errorf("%s: words were lost: %s", c.CommandPath(), got)
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(rootCommand(&app{out: view.New(&out)}))
}
