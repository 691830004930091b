package lsp

import (
	"sort"
	"unicode/utf8"
)

// span is a part of a text, in bytes.
type span struct{ start, end int }

func (s span) has(at int) bool { return s.start <= at && at <= s.end }

// text converts between byte offsets and positions of the protocol, whose columns count UTF-16 units.
type text struct {
	src   []byte
	lines []int // offset of each line
}

func newText(src []byte) *text {
	t := &text{src: src, lines: []int{0}}
	for i, c := range src {
		if c == '\n' || c == '\r' && (i+1 == len(src) || src[i+1] != '\n') {
			t.lines = append(t.lines, i+1)
		}
	}
	return t
}

// position converts a byte offset. An offset inside a character yields the position of that character.
func (t *text) position(at int) position {
	at = min(max(at, 0), len(t.src))
	line := sort.SearchInts(t.lines, at+1) - 1
	units := 0
	for i := t.lines[line]; i < at; {
		r, size := utf8.DecodeRune(t.src[i:])
		if i+size > at {
			break
		}
		units += width(r)
		i += size
	}
	return position{line, units}
}

// offset converts a position. A position beyond the end of its line yields the end of the line.
func (t *text) offset(p position) int {
	if p.Line < 0 {
		return 0
	}
	if p.Line >= len(t.lines) {
		return len(t.src)
	}
	at := t.lines[p.Line]
	for units := 0; at < len(t.src) && t.src[at] != '\n' && t.src[at] != '\r'; {
		r, size := utf8.DecodeRune(t.src[at:])
		if units += width(r); units > p.Character {
			break
		}
		at += size
	}
	return at
}

func (t *text) textRange(s span) textRange { return textRange{t.position(s.start), t.position(s.end)} }

// width returns the number of UTF-16 units of a character.
func width(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}
