package fabric

import (
	"regexp"
	"sync"
)

// nameShape excludes characters that shells, globs and file names give a meaning of their own.
var nameShape = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

// IsName says whether a block may have the name.
func IsName(s string) bool { return nameShape().MatchString(s) }
