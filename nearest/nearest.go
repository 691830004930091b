// Package nearest finds the name that somebody likely meant to write.
package nearest

import (
	"slices"
	"strings"
)

// maxLength bounds the work for one name, in bytes: longer names are near to nothing.
const maxLength = 64

// Name answers the name of names that is at most two typing errors away, without regard to case; ""
// where there is none. Of equally near ones it is the first in the order of bytes.
func Name(name string, names []string) string {
	names = slices.Sorted(slices.Values(names))
	best, at := "", 3
	for _, n := range names {
		if len(n)-len(name) >= at || len(name)-len(n) >= at {
			continue
		}
		if d := distance(strings.ToLower(name), strings.ToLower(n)); d < at && d < len(name) {
			best, at = n, d
		}
	}
	return best
}

// distance is Levenshtein's, with a swap of neighbours as one step.
func distance(a, b string) int {
	if len(a) > maxLength || len(b) > maxLength {
		return maxLength
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
