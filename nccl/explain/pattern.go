package explain

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first asked for. A variable of it costs nothing at the program's start.
type pattern struct {
	text string
	once sync.Once
	is   *regexp.Regexp
}

// re returns the compiled expression. It panics if the text is none.
func (p *pattern) re() *regexp.Regexp {
	p.once.Do(func() { p.is = regexp.MustCompile(p.text) })
	return p.is
}
