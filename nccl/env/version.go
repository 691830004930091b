package env

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is a version of NCCL. The zero value means unknown.
type Version struct{ Major, Minor, Patch int }

// ParseVersion parses a version such as "2.30.7", and the forms of NCCL and packages: "2.30.7+cuda13.0",
// "2.21.5-1".
func ParseVersion(s string) (Version, error) {
	number := s
	if i := strings.IndexAny(s, "+- "); i >= 0 {
		number = s[:i]
	}
	var v Version
	parts := strings.Split(number, ".")
	if len(parts) < 2 || len(parts) > 3 {
		return v, fmt.Errorf("%q is not an NCCL version such as 2.27.5", s)
	}
	for i, into := range []*int{&v.Major, &v.Minor, &v.Patch}[:len(parts)] {
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 || n > 1_000_000 {
			return Version{}, fmt.Errorf("%q is not an NCCL version such as 2.27.5", s)
		}
		*into = n
	}
	return v, nil
}

// Before reports whether v is older than w.
func (v Version) Before(w Version) bool {
	if v.Major != w.Major {
		return v.Major < w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor < w.Minor
	}
	return v.Patch < w.Patch
}

// Known reports whether the version is known.
func (v Version) Known() bool { return v != Version{} }

// String returns the version as in NCCL's tags, without the revision of a package.
func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Patch) }
