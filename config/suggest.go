package config

import (
	"fmt"
	"sort"
	"strings"
)

// suggest is " Did you mean …?" for the nearest name, or nothing.
func suggest(name string, names []string) string {
	if n := nearest(name, names); n != "" {
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

func nearest(name string, names []string) string {
	names = append([]string{}, names...)
	sort.Strings(names)
	best, at := "", 3
	for _, n := range names {
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at && d < len(name) {
			best, at = n, d
		}
	}
	return best
}

// distance is Levenshtein's, with a swap of neighbours as one step; long names are never near.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 99
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j-1]+cost, rows[i-1][j]+1, rows[i][j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
