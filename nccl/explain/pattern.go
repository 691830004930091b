package explain

import (
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
)

// pattern is an expression that is compiled when it is first asked for. A variable of it costs nothing at the program's start.
type pattern struct {
	text string
	once sync.Once
	is   *expression
}

// re returns the compiled expression. It panics if the text is none.
func (p *pattern) re() *expression {
	p.once.Do(func() { p.is = compile(p.text) })
	return p.is
}

// expression is a regular expression that looks first whether a text has any of the words of which each match has one: most lines
// have none, and looking takes a tenth of the time.
type expression struct {
	*regexp.Regexp
	words [][]string // in lower case, by their first byte
	group [256]uint8 // of a first byte, in both cases: 1 + its index in words; 0: no word begins so
	open  bool       // no word is known
}

// compile panics if the text is not a valid expression.
func compile(text string) *expression {
	x := &expression{Regexp: regexp.MustCompile(text)}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		panic(err) // MustCompile parsed it
	}
	words := needs(parsed)
	x.open = words == nil
	for _, w := range words {
		c := w[0]
		if x.group[c] == 0 {
			x.words = append(x.words, nil)
			x.group[c] = uint8(len(x.words))
			if 'a' <= c && c <= 'z' {
				x.group[c-'a'+'A'] = x.group[c]
			}
		}
		at := x.group[c] - 1
		x.words[at] = append(x.words[at], w)
	}
	return x
}

// leastWord and mostWords bound the words of an expression: shorter or more ones are found in most lines.
const (
	leastWord = 2
	mostWords = 100
)

// needs returns words in lower case of which each match has at least one, in any case, or nil if none are known.
func needs(x *syntax.Regexp) []string {
	switch x.Op {
	case syntax.OpLiteral:
		if word := string(x.Rune); len(word) >= leastWord {
			return []string{lowerASCII(word)}
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needs(x.Sub[0])
	case syntax.OpRepeat:
		if x.Min > 0 {
			return needs(x.Sub[0])
		}
	case syntax.OpConcat:
		var best []string
		for _, sub := range x.Sub {
			if words := needs(sub); words != nil && (best == nil || shortest(words) > shortest(best)) {
				best = words
			}
		}
		return best
	case syntax.OpAlternate:
		var all []string
		for _, sub := range x.Sub {
			words := needs(sub)
			if words == nil || len(all)+len(words) > mostWords {
				return nil
			}
			all = append(all, words...)
		}
		return all
	}
	return nil
}

func shortest(words []string) int {
	return len(slices.MinFunc(words, func(a, b string) int { return len(a) - len(b) }))
}

// lowerASCII leaves other letters as they are, as has does.
func lowerASCII(s string) string {
	out := []byte(s)
	for i, c := range out {
		out[i] = lower(c)
	}
	return string(out)
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

// may reports whether a text has a word without which nothing matches.
func (x *expression) may(text string) bool {
	if x.open {
		return true
	}
	for i := range len(text) {
		if at := x.group[text[i]]; at > 0 {
			for _, word := range x.words[at-1] {
				if begins := text[i:]; len(begins) >= len(word) && sameASCII(begins[:len(word)], word) {
					return true
				}
			}
		}
	}
	return strings.Contains(text, "ſ") || strings.Contains(text, "\u212a") // which (?i) takes for s and k
}

// sameASCII compares a text with a word of its length in lower case.
func sameASCII(text, word string) bool {
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func (x *expression) MatchString(s string) bool { return x.may(s) && x.Regexp.MatchString(s) }

func (x *expression) FindString(s string) string {
	if !x.may(s) {
		return ""
	}
	return x.Regexp.FindString(s)
}

func (x *expression) FindStringIndex(s string) []int {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindStringIndex(s)
}

func (x *expression) FindStringSubmatch(s string) []string {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindStringSubmatch(s)
}

func (x *expression) FindStringSubmatchIndex(s string) []int {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindStringSubmatchIndex(s)
}

func (x *expression) FindAllStringIndex(s string, n int) [][]int {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindAllStringIndex(s, n)
}

func (x *expression) FindAllStringSubmatch(s string, n int) [][]string {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindAllStringSubmatch(s, n)
}

func (x *expression) FindAllStringSubmatchIndex(s string, n int) [][]int {
	if !x.may(s) {
		return nil
	}
	return x.Regexp.FindAllStringSubmatchIndex(s, n)
}

func (x *expression) ReplaceAllString(s, with string) string {
	if !x.may(s) {
		return s
	}
	return x.Regexp.ReplaceAllString(s, with)
}
