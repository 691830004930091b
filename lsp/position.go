package lsp

import (
	"sort"
	"unicode/utf8"
)

// span is a part of a text, in bytes.
type span struct{ start, end int }

func (s span) has(at int) bool { return s.start <= at && at <= s.end }

// text turns places in bytes into the protocol's, whose columns count UTF-16 units.
type text struct {
	src   []byte
	lines []int // where each line begins
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

// position is the place of a byte. One that is inside a character is that character's.
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

// offset is the byte of a place. One beyond its line is the line's end.
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

// width is how many UTF-16 units a character takes.
func width(r rune) int {
	if r > 0xffff {
		return 2
	}
	return 1
}
