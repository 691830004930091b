package config

import (
	"fmt"
	"sort"
	"strings"

	"github.com/fabricform/fabricform/nccl/env"
)

// suggest is " Did you mean …?" for the nearest name, or nothing.
func suggest(name string, names []string) string {
	if n := env.Nearest(name, names); n != "" {
		return fmt.Sprintf(" Did you mean %q?", n)
	}
	return ""
}

// suggestOrList names the nearest, or else what there is.
func suggestOrList(name string, names []string) string {
	if s := suggest(name, names); s != "" {
		return s
	}
	sort.Strings(names)
	switch {
	case len(names) == 0:
		return " There is none."
	case len(names) > 8:
		return fmt.Sprintf(" There are %s and %d more.", strings.Join(names[:8], ", "), len(names)-8)
	case len(names) == 1:
		return fmt.Sprintf(" There is %s.", names[0])
	}
	return fmt.Sprintf(" There are %s.", strings.Join(names, ", "))
}
