package config

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// suggest returns " Did you mean …?" with the nearest name, or "".
func suggest(name string, names []string) string {
	if n := env.Nearest(name, names); n != "" {
		return fmt.Sprintf(" Did you mean %q?", n)
	}
	return ""
}

// suggestOrList suggests the nearest name, or lists the names that exist.
func suggestOrList(name string, names []string) string {
	if s := suggest(name, names); s != "" {
		return s
	}
	slices.Sort(names)
	switch {
	case len(names) == 0:
		return " None is declared."
	case len(names) > 8:
		return fmt.Sprintf(" Known names: %s and %d more.", strings.Join(names[:8], ", "), len(names)-8)
	case len(names) == 1:
		return fmt.Sprintf(" The only one is %s.", names[0])
	}
	return fmt.Sprintf(" Known names: %s.", strings.Join(names, ", "))
}
