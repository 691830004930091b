package main

import "testing"

func TestEveryCommandIsListedInAGroup(t *testing.T) {
	root := rootCommand(&app{})
	for _, c := range root.Commands() {
		if c.Hidden == (c.GroupID != "") {
			t.Errorf("%s: hidden %v, and in group %q", c.Name(), c.Hidden, c.GroupID)
		}
	}
}
