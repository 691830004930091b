package env

import (
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// maxName bounds the work for one name, in bytes.
const maxName = 64

// Nearest returns the name that is at most two typing errors away from what somebody wrote, and at most one in two letters,
// without regard to case; "" if there is none. If several are equally near, it returns the first in byte order.
func Nearest(name string, names []string) string {
	best, at := "", 3
	for _, n := range slices.Sorted(slices.Values(names)) {
		if max(len(name), len(n)) > maxName || max(len(name)-len(n), len(n)-len(name)) >= at {
			continue
		}
		if d := typos(strings.ToLower(name), strings.ToLower(n)); d < at && 2*d <= len(name) {
			best, at = n, d
		}
	}
	return best
}

// typos counts typing errors. A swap of two letters is one error, but two of the library's edits.
func typos(a, b string) int {
	edits := levenshtein.Distance(a, b, nil) // its MaxCost panics on some words (v1.2.1)
	if sortedLetters(a) == sortedLetters(b) {
		return (edits + 1) / 2
	}
	return edits
}

func sortedLetters(s string) string {
	letters := []byte(s)
	slices.Sort(letters)
	return string(letters)
}
